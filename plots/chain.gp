# What accumulates along a chain: coherent gain with the product of the expected gains, norm ratio and cosine, going up and
# coming down.
#
# Given: series, Names; passes (1 or 2); $Up and $Down: a block for each series, of lines
#        depth, gain, its error, product, norm ratio, cosine; title
set multiplot layout passes,3 title title noenhanced font ',9' margins char 9, char 2, char 4, char 4 spacing char 9, char 4
set key off
set errorbars small
set xrange [] noextend
set offsets 0.4, 0.4, graph 0.05, graph 0.05
do for [p = 1:passes] {
    data = p == 1 ? '$Up' : '$Down'
    what = p == 1 ? 'signal' : 'gradient'
    if (p == passes) { set xlabel 'depth (layers)' offset 0,0.5 }
    set ylabel 'coherent gain of the ' . what offset 1,0
    if (p == 1) { set key bottom left noenhanced font ',7' samplen 1.5 } else { set key off }
    plot for [i = 1:series] data index i-1 using 1:2:3 with yerrorbars linestyle (i - 1) % 8 + 1 title Names[i], \
         for [i = 1:series] data index i-1 using 1:4 with lines linestyle (i - 1) % 8 + 1 dashtype 2 notitle
    set key off
    set ylabel 'norm ratio of the ' . what offset 1,0
    plot for [i = 1:series] data index i-1 using 1:5 with linespoints linestyle (i - 1) % 8 + 1 notitle
    set ylabel 'cosine of the ' . what offset 1,0
    plot for [i = 1:series] data index i-1 using 1:6 with linespoints linestyle (i - 1) % 8 + 1 notitle
}
unset multiplot
