# SQNR by grid and scale format (across) and density and block size (down).
#
# Given: columns, lines; $Cells: column, line, SQNR; $Across, $Down: number and name
stats $Cells using 3 nooutput
middle = 0.5 * (STATS_min + STATS_max)
unset grid
unset key
set border 0
set lmargin at screen 0.22
set rmargin at screen 0.87
set bmargin 8
set xrange [-0.5:columns - 0.5]
set yrange [lines - 0.5:-0.5]
set palette defined (0 '#FFF7EC', 0.35 '#FDBB84', 0.7 '#B0457B', 1 '#2D1160')
set cblabel 'SQNR in dB' offset 1, 0
set cbtics scale 0.3
set xtics rotate by 40 right scale 0 font ',8'
set ytics scale 0 font ',8'
plot $Across using 1:(0):xtic(2) with points pointtype 0 linecolor bgnd notitle, \
     $Down using (0):1:ytic(2) with points pointtype 0 linecolor bgnd notitle, \
     $Cells using 1:2:(0.5):(0.5):3 with boxxyerror fillstyle solid 1 noborder linecolor palette notitle, \
     $Cells using 1:2:(sprintf('%.1f', $3)):($3 > middle ? 0xFFFFFF : 0x000000) with labels font ',8' textcolor rgb variable notitle
