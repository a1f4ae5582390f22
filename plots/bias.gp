# SQNR and 1 - alpha of every tensor before (open) and after (filled) a rotation, for up to six quantizers.
#
# Given: $Data: for each quantizer a block, two blank lines apart, with a line for each tensor of the columns
#            place  sqnr sqnr_se  sqnr_rotated se  loss loss_se  loss_rotated se
#        $Modules: place and name under the axis;  $Classes: left edge, right edge, name
#        places, quantizers; Names: of the quantizers; rotation, '' where there is none
after(name) = rotation eq '' ? '' : name . ', ' . rotation
raw(name) = rotation eq '' ? name : name . ', raw'
shift(q) = (q - 0.5 * (quantizers + 1)) * (places < 45 ? 0.3 : 0.6 / quantizers)
mark(q, k) = word('6 4 8 10 12 14', q) + k
rows = (quantizers + 1) / 2
set multiplot layout 2,1 margins char 11, char 1, char 4.7, char (1.2 + rows) spacing 0, char 1
size = places >= 45 ? 0.3 : quantizers > 2 ? 0.45 : 0.6
set xrange [-1:places]
set y2range [0:1]
unset y2tics
set tics font ',7'
set ylabel font ',8'
set offsets graph 0, graph 0, graph 0.12, graph 0.04
set errorbars small

set key at screen 0.53, screen 0.99 center top maxrows rows horizontal samplen 0.5 width -1 font ',8'
set format x ''
unset xtics
set ylabel 'SQNR in dB' offset 1.2, 0
plot $Classes using 1:(0):(0):(1) axes x1y2 with vectors nohead linewidth 0.6 linecolor rgb '#A0A0A0' notitle, \
     '' using (0.5 * ($1 + $2)):(0.955):3 axes x1y2 with labels noenhanced font ',8' notitle, \
     for [q = 1:quantizers] $Data index q-1 using ($1 + shift(q)):2:(0):($4 - $2) with vectors nohead linestyle q linewidth 0.5 notitle, \
     for [q = 1:quantizers] for [k = 0:1] $Data index q-1 using ($1 + shift(q)):(column(2 + 2 * k)):(column(3 + 2 * k)) \
         with yerrorbars linestyle q linewidth 0.5 pointtype 0 notitle, \
     for [q = 1:quantizers] for [k = 0:1] $Data index q-1 using ($1 + shift(q)):(column(2 + 2 * k)) \
         with points linestyle q linewidth (k == 0 ? 0.6 : 1.2) pointtype mark(q, k) pointsize size title k == 0 ? raw(Names[q]) : after(Names[q])

unset key
set xtics rotate by 90 right nomirror font ',7' scale 0.3
set ylabel '1 − alpha' offset 1.2, 0
set xzeroaxis linewidth 0.75 linecolor rgb '#404040' linetype 1
plot $Modules using 1:(0):xtic(2) with points pointsize 0 linecolor rgb '#FFFFFF' notitle, \
     $Classes using 1:(0):(0):(1) axes x1y2 with vectors nohead linewidth 0.6 linecolor rgb '#A0A0A0' notitle, \
     for [q = 1:quantizers] $Data index q-1 using ($1 + shift(q)):6:(0):($8 - $6) with vectors nohead linestyle q linewidth 0.5 notitle, \
     for [q = 1:quantizers] for [k = 0:1] $Data index q-1 using ($1 + shift(q)):(column(6 + 2 * k)):(column(7 + 2 * k)) \
         with yerrorbars linestyle q linewidth 0.5 pointtype 0 notitle, \
     for [q = 1:quantizers] for [k = 0:1] $Data index q-1 using ($1 + shift(q)):(column(6 + 2 * k)) \
         with points linestyle q linewidth (k == 0 ? 0.6 : 1.2) pointtype mark(q, k) pointsize size notitle
unset multiplot
