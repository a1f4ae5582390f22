# gnuplot FILE draws the PNG, gnuplot -e "format='pdf'" FILE the PDF.
if (!exists('format')) format = 'png'
if (!exists('out')) out = 'fig1a-grids' . '.' . format
if (format eq 'pdf') {
    set terminal pdfcairo noenhanced size 16cm, 11.9cm font 'Sans,9' linewidth 1
}
if (format eq 'svg') {
    set terminal svg noenhanced size 640, 476 font 'Sans,12'
}
if (format eq 'png') {
    set terminal pngcairo noenhanced size 1408, 1047 font 'Sans,9' fontscale 2.2 linewidth 2.2 pointscale 2.2
}
set output out

grids = 2
density = 'gaussian'
$Bins1 << EOD
0 0 0.071428571 -0.035639202 nan 0.11639408 0
0.14285714 0.071428571 0.21428571 0.0011838387 0 0.22149949 0.5
0.28571429 0.21428571 0.35714286 0.0022900373 0 0.19142875 1
0.42857143 0.35714286 0.5 0.0032625599 0 0.15159132 1.5
0.57142857 0.5 0.64285714 0.004075853 0 0.11134325 2
0.71428571 0.64285714 0.78571429 0.0047300705 0 0.076866783 2.5
0.85714286 0.78571429 0.92857143 0.0052404987 0 0.050512657 3
1 0.92857143 1 0.0082479016 nan 0.080363665 3.5
EOD
$Bins2 << EOD
0 0 0.041666667 -0.02081841 nan 0.068084879 0
0.083333333 0.041666667 0.125 0.00023758021 0 0.13386053 0.5
0.16666667 0.125 0.20833333 0.00046961374 0 0.12721576 1
0.25 0.20833333 0.29166667 0.00069113995 0 0.11701611 1.5
0.33333333 0.29166667 0.41666667 -0.018706225 -0.020833333 0.15136051 2
0.5 0.41666667 0.58333333 0.0050129064 0 0.15293954 3
0.66666667 0.58333333 0.83333333 -0.027402479 -0.041666667 0.13800315 4
1 0.83333333 1 0.039864224 nan 0.11151951 6
EOD
name1 = 'e1m2'
name2 = 'e2m1'

# The one style of all figures: Okabe-Ito colours, readable in grey through point types and fills.
set encoding utf8
set border 3 linewidth 0.75 linecolor rgb '#404040'
set tics nomirror out scale 0.5
set grid ytics linewidth 0.5 linecolor rgb '#D0D0D0'
set key noenhanced
set xtics noenhanced
set style line 1 linecolor rgb '#0072B2' linewidth 1.2 pointtype 6  pointsize 0.6
set style line 2 linecolor rgb '#D55E00' linewidth 1.2 pointtype 4  pointsize 0.6
set style line 3 linecolor rgb '#009E73' linewidth 1.2 pointtype 8  pointsize 0.6
set style line 4 linecolor rgb '#CC79A7' linewidth 1.2 pointtype 10 pointsize 0.6
set style line 5 linecolor rgb '#E69F00' linewidth 1.2 pointtype 12 pointsize 0.6
set style line 6 linecolor rgb '#56B4E9' linewidth 1.2 pointtype 14 pointsize 0.6
set style line 7 linecolor rgb '#F0E442' linewidth 1.2 pointtype 2  pointsize 0.6
set style line 8 linecolor rgb '#000000' linewidth 1.2 pointtype 1  pointsize 0.6

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

set output
