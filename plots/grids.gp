# Bins of grids and the mean rounding error of what each bin takes.
#
# Given: grids, density; name1 ..;
#        $Bins1 .. : level, low, high, mean error, error by UFP4's equation (2), share, level as it is called;
#        all but the last two in units of the largest magnitude
set multiplot layout grids,1 margins char 9, char 2, char 5, char 4.5 spacing 0, char 3.5
set xrange [-0.02:1.02]
set yrange [-0.064:0.052]
set ytics 0.02
set format x ''
set xzeroaxis linewidth 0.75 linecolor rgb '#404040' linetype 1
set ylabel 'mean error of t' offset 0.7, 0
set style fill solid 0.35 border
do for [g = 1:grids] {
    data = '$Bins' . g
    unset key
    if (g == 1) { set key at screen 0.55, screen 0.985 center top maxrows 1 horizontal samplen 1.5 width 1 font ',8' }
    set label 1 value('name' . g) at graph 0.01, graph 0.93 font ',10' front
    set xtics nomirror scale 0
    if (g == grids) { set xlabel 't in units of the largest magnitude; ticks are levels, bars span their bins' offset 0, 0.3; set format x '%.1f'; set xtics 0.1 scale 0.5 }
    plot data using (0.5 * ($2 + $3)):4:2:3:(0):4 with boxxyerror linestyle 1 fillstyle solid 0.35 title 'expected, ' . density, \
         data using 1:5:2:3 with xerrorbars linestyle 2 pointtype 4 pointsize 0.7 title 'UFP4 equation (2)', \
         data using 1:(-0.064):(0):(0.007) with vectors nohead linewidth 2 linecolor rgb '#000000' title 'levels', \
         data using 1:(-0.0535):(sprintf('%g', $7)) with labels font ',7' notitle
    unset label 1
}
unset multiplot
