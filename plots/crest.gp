# Bias, coherent loss and SQNR of grids over generalised Gaussian densities, by the mean crest factor of their blocks.
#
# Given: grids, name1 ..; $Grid1 ..: crest factor, b/E[t], 1 - alpha, SQNR
set multiplot layout 3,1 margins char 10, char 2, char 4, char 2.5 spacing 0, char 1
set format x ''
set xzeroaxis linewidth 0.75 linecolor rgb '#404040' linetype 1
set key at screen 0.55, screen 0.99 center top maxrows 1 horizontal samplen 2 font ',8'
set ylabel 'b / E[t]'
plot for [g = 1:grids] '$Grid' . g using 1:2 with linespoints linestyle g title value('name' . g)
unset key
set ylabel '1 − alpha'
plot for [g = 1:grids] '$Grid' . g using 1:3 with linespoints linestyle g notitle
set ylabel 'SQNR in dB'
set format x '%.1f'
set xlabel 'crest factor max|x|/rms(x), mean over blocks'
plot for [g = 1:grids] '$Grid' . g using 1:4 with linespoints linestyle g notitle
unset multiplot
