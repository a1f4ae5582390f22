# gnuplot FILE draws the PNG, gnuplot -e "format='pdf'" FILE the PDF.
if (!exists('format')) format = 'png'
if (!exists('out')) out = 'sqnr-map' . '.' . format
if (format eq 'pdf') {
    set terminal pdfcairo noenhanced size 20cm, 14cm font 'Sans,9' linewidth 1
}
if (format eq 'svg') {
    set terminal svg noenhanced size 800, 560 font 'Sans,12'
}
if (format eq 'png') {
    set terminal pngcairo noenhanced size 1760, 1232 font 'Sans,9' fontscale 2.2 linewidth 2.2 pointscale 2.2
}
set output out

$Cells << EOD
0 0 21.7261
1 0 21.3927
2 0 20.5241
3 0 21.5966
4 0 21.2736
5 0 20.4358
6 0 18.9552
7 0 18.4639
8 0 17.6401
0 1 20.7897
1 1 20.2642
2 1 19.9053
3 1 20.7222
4 1 20.2081
5 1 19.8609
6 1 18.7572
7 1 17.4801
8 1 16.8411
2 2 20.8012
0 2 20.6078
1 2 19.8964
5 2 20.6582
3 2 20.4706
4 2 19.7799
6 2 18.1873
7 2 17.2325
8 2 16.3218
2 3 19.7831
0 3 19.1646
1 3 18.3369
5 3 19.7054
3 3 19.0969
4 3 18.2812
6 3 17.5808
7 3 15.9072
8 3 14.8995
1 4 23.7144
0 4 22.4438
2 4 19.9451
4 4 23.5391
3 4 22.3581
5 4 19.8607
7 4 21.652
6 4 20.1074
8 4 18.4645
1 5 23.3237
0 5 22.0532
2 5 19.5544
4 5 23.2334
3 5 21.9672
5 5 19.462
7 5 21.652
6 5 20.103
8 5 18.1074
2 6 21.1328
0 6 19.5434
1 6 18.6897
5 6 20.8935
3 6 19.3772
4 6 18.5535
6 6 17.2712
7 6 16.2177
8 6 15.4859
2 7 19.3577
0 7 17.5346
1 7 16.6548
5 7 19.2319
3 7 17.453
4 7 16.5888
6 7 16.2027
7 7 14.5283
8 7 13.717
2 8 21.9225
0 8 21.4136
1 8 20.809
5 8 21.6357
3 8 21.1575
4 8 20.5856
6 8 18.1685
7 8 18.0256
8 8 17.4229
2 9 20.339
0 9 19.6493
1 9 18.9802
5 9 20.1847
3 9 19.5175
4 9 18.8674
6 9 17.5178
7 9 16.6321
8 9 15.8624
2 10 20.8339
0 10 20.68
1 10 19.9461
5 10 20.6929
3 10 20.5434
4 10 19.8313
6 10 18.2486
7 10 17.2661
8 10 16.3518
2 11 19.8412
0 11 19.119
1 11 18.2428
5 11 19.7607
3 11 19.052
4 11 18.1886
6 11 17.5434
7 11 15.8489
8 11 14.8025
EOD
columns = 9
lines = 12
$Across << EOD
0 "0,1,2,3,4,5,6,8, fp32"
1 "e1m2, fp32"
2 "e2m1, fp32"
3 "0,1,2,3,4,5,6,8, e4m3"
4 "e1m2, e4m3"
5 "e2m1, e4m3"
6 "e2m1, e8m0"
7 "0,1,2,3,4,5,6,8, e8m0"
8 "e1m2, e8m0"
EOD
$Down << EOD
0 "gaussian, 16"
1 "gaussian, 32"
2 "laplace, 16"
3 "laplace, 32"
4 "uniform, 16"
5 "uniform, 32"
6 "silu1, 16"
7 "silu1, 32"
8 "silu4, 16"
9 "silu4, 32"
10 "t5, 16"
11 "t5, 32"
EOD

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

set output
