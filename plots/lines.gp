# A measure over a numeric axis, one line for each series.
#
# Given: $Data: blocks that two blank lines part, each of lines  x y error
#        Names: the names of the blocks; series, xlabel, ylabel, title, log_x (0 or 1), errors (0 or 1)
set title title noenhanced font ',9'
set xlabel xlabel noenhanced
set ylabel ylabel noenhanced
set key outside right top noenhanced font ',7' samplen 1.5
set offsets graph 0.03, graph 0.03, graph 0.04, graph 0.04
if (log_x) { set logscale x 2 }
set errorbars small
if (errors) {
    plot for [i = 1:series] $Data index i-1 using 1:2:3 with yerrorlines linestyle (i - 1) % 8 + 1 title Names[i]
} else {
    plot for [i = 1:series] $Data index i-1 using 1:2 with linespoints linestyle (i - 1) % 8 + 1 title Names[i]
}
