# Bucket utilization of raw tensors against the change of SQNR by a rotation.
#
# Given: first, second, rotation; $FirstW, $FirstX, $FirstD, $FirstOther, $Second...: B_eff, change in dB, depth from 0 to 1
set xlabel 'B_eff of the raw tensor; deeper layers are darker'
set ylabel 'change of SQNR by ' . rotation . ' in dB'
set xzeroaxis linewidth 0.75 linecolor rgb '#404040' linetype 1
set key outside top center horizontal maxrows 2 samplen 0.5 font ',8'
blend(full, depth) = int(255 - (255 - full) * (0.35 + 0.65 * depth))
one(d) = blend(0, d) * 65536 + blend(114, d) * 256 + blend(178, d)
two(d) = blend(213, d) * 65536 + blend(94, d) * 256 + blend(0, d)
plot $FirstW using 1:2:(one($3)) with points pointtype 6 pointsize 0.8 linewidth 1.4 linecolor rgb variable title first . ', W', \
     $FirstX using 1:2:(one($3)) with points pointtype 7 pointsize 0.8 linecolor rgb variable title first . ', X', \
     $FirstD using 1:2:(one($3)) with points pointtype 1 pointsize 0.8 linewidth 1.4 linecolor rgb variable title first . ', dY', \
     $FirstOther using 1:2:(one($3)) with points pointtype 12 pointsize 0.8 linewidth 1.4 linecolor rgb variable notitle, \
     $SecondW using 1:2:(two($3)) with points pointtype 4 pointsize 0.8 linewidth 1.4 linecolor rgb variable title second . ', W', \
     $SecondX using 1:2:(two($3)) with points pointtype 5 pointsize 0.8 linecolor rgb variable title second . ', X', \
     $SecondD using 1:2:(two($3)) with points pointtype 2 pointsize 0.8 linewidth 1.4 linecolor rgb variable title second . ', dY', \
     $SecondOther using 1:2:(two($3)) with points pointtype 10 pointsize 0.8 linewidth 1.4 linecolor rgb variable notitle
