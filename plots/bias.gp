# SQNR and 1 - alpha of every tensor before (open) and after (filled) a rotation, for two quantizers.
#
# Given: $First, $Second: a line for each tensor with the columns
#            place  sqnr sqnr_se  sqnr_rotated se  loss loss_se  loss_rotated se
#        $Modules: place and name under the axis;  $Classes: left edge, right edge, name
#        places; first, second (names of quantizers), rotation; '' where there is none
after(name) = name eq '' || rotation eq '' ? '' : name . ', ' . rotation
raw(name) = name eq '' || rotation eq '' ? name : name . ', raw'
set multiplot layout 2,1 margins char 9, char 1, char 4.7, char 2.2 spacing 0, char 1
size = places < 40 ? 0.6 : 0.3
set xrange [-1:places]
set y2range [0:1]
unset y2tics
set tics font ',7'
set ylabel font ',8'
set offsets graph 0, graph 0, graph 0.12, graph 0.04
set errorbars small

set key at screen 0.53, screen 0.99 center top maxrows 1 horizontal samplen 0.5 width -1 font ',8'
set format x ''
unset xtics
set ylabel 'SQNR in dB' offset 1.2, 0
plot $Classes using 1:(0):(0):(1) axes x1y2 with vectors nohead linewidth 0.6 linecolor rgb '#A0A0A0' notitle, \
     '' using (0.5 * ($1 + $2)):(0.955):3 axes x1y2 with labels noenhanced font ',8' notitle, \
     $First using ($1 - 0.15):2:(0):($4 - $2) with vectors nohead linestyle 1 linewidth 0.5 notitle, \
     $Second using ($1 + 0.15):2:(0):($4 - $2) with vectors nohead linestyle 2 linewidth 0.5 notitle, \
     $First using ($1 - 0.15):2:3 with yerrorbars linestyle 1 linewidth 0.5 pointtype 0 notitle, \
     $First using ($1 - 0.15):4:5 with yerrorbars linestyle 1 linewidth 0.5 pointtype 0 notitle, \
     $Second using ($1 + 0.15):2:3 with yerrorbars linestyle 2 linewidth 0.5 pointtype 0 notitle, \
     $Second using ($1 + 0.15):4:5 with yerrorbars linestyle 2 linewidth 0.5 pointtype 0 notitle, \
     $First using ($1 - 0.15):2 with points linestyle 1 linewidth 0.6 pointtype 6 pointsize size title raw(first), \
     $First using ($1 - 0.15):4 with points linestyle 1 pointtype 7 pointsize size title after(first), \
     $Second using ($1 + 0.15):2 with points linestyle 2 linewidth 0.6 pointtype 4 pointsize size title raw(second), \
     $Second using ($1 + 0.15):4 with points linestyle 2 pointtype 5 pointsize size title after(second)

unset key
set xtics rotate by 90 right nomirror font ',7' scale 0.3
set ylabel '1 − alpha' offset 1.2, 0
set xzeroaxis linewidth 0.75 linecolor rgb '#404040' linetype 1
plot $Modules using 1:(0):xtic(2) with points pointsize 0 linecolor rgb '#FFFFFF' notitle, \
     $Classes using 1:(0):(0):(1) axes x1y2 with vectors nohead linewidth 0.6 linecolor rgb '#A0A0A0' notitle, \
     $First using ($1 - 0.15):6:(0):($8 - $6) with vectors nohead linestyle 1 linewidth 0.5 notitle, \
     $Second using ($1 + 0.15):6:(0):($8 - $6) with vectors nohead linestyle 2 linewidth 0.5 notitle, \
     $First using ($1 - 0.15):6:7 with yerrorbars linestyle 1 linewidth 0.5 pointtype 0 notitle, \
     $First using ($1 - 0.15):8:9 with yerrorbars linestyle 1 linewidth 0.5 pointtype 0 notitle, \
     $Second using ($1 + 0.15):6:7 with yerrorbars linestyle 2 linewidth 0.5 pointtype 0 notitle, \
     $Second using ($1 + 0.15):8:9 with yerrorbars linestyle 2 linewidth 0.5 pointtype 0 notitle, \
     $First using ($1 - 0.15):6 with points linestyle 1 linewidth 0.6 pointtype 6 pointsize size notitle, \
     $First using ($1 - 0.15):8 with points linestyle 1 pointtype 7 pointsize size notitle, \
     $Second using ($1 + 0.15):6 with points linestyle 2 linewidth 0.6 pointtype 4 pointsize size notitle, \
     $Second using ($1 + 0.15):8 with points linestyle 2 pointtype 5 pointsize size notitle
unset multiplot
