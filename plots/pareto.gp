# Grids by SQNR and coherent loss, and those that no other beats in both.
#
# Given: density; $All: SQNR, |1 - alpha|; $Front, $Known: the same with a name
set xlabel 'SQNR in dB on ' . density
set ylabel '|1 − alpha|'
set logscale y
set format y '%.0e'
set key outside center top maxrows 1 noenhanced font ',8'
set autoscale fix
set offsets graph 0.02, graph 0.18, graph 0.05, graph 0.05
plot $All using 1:2 with points pointtype 6 pointsize 0.35 linecolor rgb '#A0A0A0' title 'every grid', \
     $Front using 1:2 with linespoints linestyle 1 pointtype 7 pointsize 0.7 title 'Pareto front', \
     $Front using 1:2:3 with labels left offset 0.8, -0.35 font ',7' textcolor rgb '#0072B2' notitle, \
     $Known using 1:2 with points linestyle 2 pointtype 5 pointsize 1 title 'known grids', \
     $Known using 1:2:3 with labels left offset 1, -0.4 font ',8' textcolor rgb '#D55E00' notitle
