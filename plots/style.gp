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
