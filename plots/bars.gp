# A measure of things without an order: groups of bars, one colour for each series.
#
# Given: $Data: blocks that two blank lines part, one for each series, of lines  place value error
#        Names, Places: names of series and groups; series, places, xlabel, ylabel, title, errors (0 or 1);
#        points: 1 where bars from zero would hide the differences; low, high: of the values
set title title noenhanced font ',9'
set xlabel xlabel noenhanced
set ylabel ylabel noenhanced
set key outside right top noenhanced font ',7' samplen 1.5
set style fill solid 0.8 noborder
set xrange [-0.6:places - 0.4]
set xzeroaxis linewidth 0.75 linecolor rgb '#404040' linetype 1
if (!points && low >= 0) { set yrange [0:*] }
if (!points && high <= 0) { set yrange [*:0] }
if (points) { set offsets 0, 0, graph 0.05, graph 0.05; unset xzeroaxis }
set xtics rotate by 40 right font ',7' scale 0
set xtics ()
do for [i = 1:places] { set xtics add (Places[i] i - 1) }
width = 0.8 / series
at(i) = (i - 0.5 * (series + 1)) * width
if (points && errors) {
    plot for [i = 1:series] $Data index i-1 using ($1 + at(i)):2:3 with yerrorbars linestyle (i - 1) % 8 + 1 title Names[i]
} else { if (points) {
    plot for [i = 1:series] $Data index i-1 using ($1 + at(i)):2 with points linestyle (i - 1) % 8 + 1 title Names[i]
} else { if (errors) {
    plot for [i = 1:series] $Data index i-1 using ($1 + at(i)):2:(0.92 * width) with boxes linestyle (i - 1) % 8 + 1 title Names[i], \
         for [i = 1:series] $Data index i-1 using ($1 + at(i)):($2 - $3):(0):(2 * $3) with vectors heads size graph 0.005,90 nofilled linecolor rgb '#404040' linewidth 0.7 notitle
} else {
    plot for [i = 1:series] $Data index i-1 using ($1 + at(i)):2:(0.92 * width) with boxes linestyle (i - 1) % 8 + 1 title Names[i]
} }}
