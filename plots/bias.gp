# SQNR and 1 - alpha of every tensor before (open) and after (filled) a rotation, for two quantizers.
#
# Given: $First, $Second: a line for each tensor with the columns
#            place  sqnr sqnr_se  sqnr_rotated se  loss loss_se  loss_rotated se
#        $Modules: place and name under the axis;  $Classes: left edge, right edge, name
#        places; first, second (names of quantizers), rotation; '' where there is none
raw(name) = name
after(name) = name eq '' || rotation eq '' ? '' : name . ' after ' . rotation
set multiplot layout 2,1 margins char 9, char 1.5, char 8, char 2.5 spacing 0, char 1.2
set xrange [-1:places]
set y2range [0:1]
unset y2tics
set tics font ',8'
set ylabel font ',9'
set offsets graph 0, graph 0, graph 0.12, graph 0.04

set key at screen 0.53, screen 0.995 center top horizontal samplen 1.2 font ',8'
set format x ''
unset xtics
set ylabel 'SQNR in dB' offset 0.5, 0
plot $Classes using 1:(0):(0):(1) axes x1y2 with vectors nohead linewidth 0.6 linecolor rgb '#A0A0A0' notitle, \
     '' using (0.5 * ($1 + $2)):(0.955):3 axes x1y2 with labels noenhanced font ',8' notitle, \
     $First using 1:2:(0):($4 - $2) with vectors nohead linestyle 1 linewidth 0.6 notitle, \
     $Second using 1:2:(0):($4 - $2) with vectors nohead linestyle 2 linewidth 0.6 notitle, \
     $First using 1:2:3 with yerrorbars linestyle 1 linewidth 0.6 pointtype 6 pointsize 0.35 title raw(first), \
     $First using 1:4:5 with yerrorbars linestyle 1 linewidth 0.6 pointtype 7 pointsize 0.35 title after(first), \
     $Second using 1:2:3 with yerrorbars linestyle 2 linewidth 0.6 pointtype 4 pointsize 0.35 title raw(second), \
     $Second using 1:4:5 with yerrorbars linestyle 2 linewidth 0.6 pointtype 5 pointsize 0.35 title after(second)

unset key
set xtics rotate by 90 right font ',7'
set ylabel '1 − alpha' offset 0.5, 0
set xzeroaxis linewidth 0.75 linecolor rgb '#404040' linetype 1
plot $Modules using 1:(0):xtic(2) with points pointsize 0 notitle, \
     $Classes using 1:(0):(0):(1) axes x1y2 with vectors nohead linewidth 0.6 linecolor rgb '#A0A0A0' notitle, \
     $First using 1:6:(0):($8 - $6) with vectors nohead linestyle 1 linewidth 0.6 notitle, \
     $Second using 1:6:(0):($8 - $6) with vectors nohead linestyle 2 linewidth 0.6 notitle, \
     $First using 1:6:7 with yerrorbars linestyle 1 linewidth 0.6 pointtype 6 pointsize 0.35 notitle, \
     $First using 1:8:9 with yerrorbars linestyle 1 linewidth 0.6 pointtype 7 pointsize 0.35 notitle, \
     $Second using 1:6:7 with yerrorbars linestyle 2 linewidth 0.6 pointtype 4 pointsize 0.35 notitle, \
     $Second using 1:8:9 with yerrorbars linestyle 2 linewidth 0.6 pointtype 5 pointsize 0.35 notitle
unset multiplot
