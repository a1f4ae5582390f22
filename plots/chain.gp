# What accumulates along a chain: coherent gain with the product of the expected gains, norm ratio and cosine, going up and
# coming down, with standard errors. They are vectors, since gnuplot blanks a disc under the point of an error bar.
#
# Given: series, Names; passes (1 or 2); $Up and $Down: a block for each series, of lines
#        depth, gain, its error, product, norm ratio, its error, cosine, its error; title, xlabel
set multiplot layout passes,3 title title noenhanced font ',9' margins char 9.5, char 2, char 4, char 4 spacing char 11.5, char 4
set key off
set xrange [] noextend
set offsets 0.4, 0.4, graph 0.05, graph 0.05
low(value, error) = error > 0 ? value - error : NaN
do for [p = 1:passes] {
    data = p == 1 ? '$Up' : '$Down'
    what = p == 1 ? 'signal' : 'gradient'
    if (p == passes) { set xlabel xlabel offset 0,0.5 }
    set ylabel 'coherent gain of the ' . what offset 1,0
    if (p == 1) { set key bottom left noenhanced font ',7' samplen 1.5 } else { set key off }
    plot for [i = 1:series] data index i-1 using 1:2 with points linestyle (i - 1) % 8 + 1 title Names[i], \
         for [i = 1:series] data index i-1 using 1:(low($2, $3)):(0):(2 * $3) with vectors heads size graph 0.006,90 nofilled linestyle (i - 1) % 8 + 1 notitle, \
         for [i = 1:series] data index i-1 using 1:4 with lines linestyle (i - 1) % 8 + 1 dashtype 2 notitle
    set key off
    set ylabel 'norm ratio of the ' . what offset 1,0
    plot for [i = 1:series] data index i-1 using 1:5 with linespoints linestyle (i - 1) % 8 + 1 notitle, \
         for [i = 1:series] data index i-1 using 1:(low($5, $6)):(0):(2 * $6) with vectors heads size graph 0.006,90 nofilled linestyle (i - 1) % 8 + 1 notitle
    set ylabel 'cosine of the ' . what offset 1,0
    plot for [i = 1:series] data index i-1 using 1:7 with linespoints linestyle (i - 1) % 8 + 1 notitle, \
         for [i = 1:series] data index i-1 using 1:(low($7, $8)):(0):(2 * $8) with vectors heads size graph 0.006,90 nofilled linestyle (i - 1) % 8 + 1 notitle
}
unset multiplot
