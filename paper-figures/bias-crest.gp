# gnuplot FILE draws the PNG, gnuplot -e "format='pdf'" FILE the PDF.
if (!exists('format')) format = 'png'
if (!exists('out')) out = 'bias-crest' . '.' . format
if (format eq 'pdf') {
    set terminal pdfcairo noenhanced size 14cm, 15cm font 'Sans,9' linewidth 1
}
if (format eq 'svg') {
    set terminal svg noenhanced size 560, 600 font 'Sans,12'
}
if (format eq 'png') {
    set terminal pngcairo noenhanced size 1232, 1320 font 'Sans,9' fontscale 2.2 linewidth 2.2 pointscale 2.2
}
set output out

grids = 2
$Grid1 << EOD
2.9458332 -0.01716148 0.001851586 21.54382
2.8836269 -0.015268901 0.001973051 21.319806
2.8266741 -0.013694865 0.0020906239 21.174197
2.7743229 -0.012402056 0.0022081792 21.077089
2.7260343 -0.011348166 0.0023261814 21.01027
2.6399027 -0.0097994235 0.0025592227 20.92663
2.5653941 -0.008782764 0.0027798245 20.874754
2.5003525 -0.0081124679 0.0029812374 20.835445
2.4431247 -0.0076664779 0.0031609546 20.801157
2.3472085 -0.0071619094 0.0034575219 20.738076
2.2701366 -0.0069224103 0.0036828364 20.678845
2.2069744 -0.0068027346 0.0038532617 20.623325
2.1543519 -0.0067393335 0.0039821991 20.571775
2.1098943 -0.0067030308 0.0040794971 20.524135
2.0390447 -0.0066624771 0.0042047915 20.439331
1.9630028 -0.0066156197 0.0042716112 20.332766
1.8818675 -0.0064901617 0.0041577631 20.192606
1.7967483 -0.0059689918 0.003361283 20.001352
1.7538502 -0.0051982312 0.0021860213 19.889331
1.7124616 -0.0035945279 -0.00015564961 19.79793
EOD
$Grid2 << EOD
2.9458332 -0.031271278 0.0016189827 19.210178
2.8836269 -0.027726237 0.0013385686 19.055799
2.8266741 -0.024540377 0.0010536161 18.999759
2.7743229 -0.021725378 0.00078817323 19.007957
2.7260343 -0.019265023 0.000553297 19.058269
2.6399027 -0.015283594 0.00018374341 19.230945
2.5653941 -0.012319352 -6.8997657e-05 19.447499
2.5003525 -0.010114514 -0.00023636687 19.674568
2.4431247 -0.0084639831 -0.00034652431 19.896394
2.3472085 -0.006256944 -0.00047030518 20.300734
2.2701366 -0.0049218086 -0.00053319517 20.645217
2.2069744 -0.0040635614 -0.00057208921 20.935851
2.1543519 -0.0034792215 -0.00060097659 21.182152
2.1098943 -0.003060713 -0.00062522692 21.392708
2.0390447 -0.0025054304 -0.00066721819 21.732665
1.9630028 -0.0020220175 -0.0007220601 22.103959
1.8818675 -0.0015906925 -0.0008010584 22.508846
1.7967483 -0.001186087 -0.00093061872 22.945605
1.7538502 -0.00097925354 -0.0010359973 23.171252
1.7124616 -0.00074886094 -0.0012030523 23.392793
EOD
name1 = 'e2m1'
name2 = 'e1m2'

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

set output
