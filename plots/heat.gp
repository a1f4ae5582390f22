# A measure over two axes as a map of colours.
#
# Given: $Data: lines  column row value
#        Columns, Names: names of columns and rows (from the top); columns, series, xlabel, ylabel (of the colours), title,
#        signed (1 where values of both signs occur), most (the largest magnitude)
set title title noenhanced font ',9'
set xlabel xlabel noenhanced
set cblabel ylabel noenhanced
unset key
unset grid
set border 0
set xrange [-0.5:columns - 0.5]
set yrange [series - 0.5:-0.5]
set rmargin at screen 0.86
set cbtics scale 0.3 font ',8'
set xtics rotate by 40 right font ',7' scale 0
small = series > 40 ? ',4.5' : ',7'
set ytics font small scale 0
set xtics ()
set ytics ()
do for [i = 1:columns] { set xtics add (Columns[i] i - 1) }
do for [i = 1:series] { set ytics add (Names[i] i - 1) }
if (signed) {
    set palette defined (-1 '#0072B2', 0 '#FFFFFF', 1 '#D55E00')
    set cbrange [-most:most]
} else {
    set palette defined (0 '#440154', 0.25 '#3B528B', 0.5 '#21918C', 0.75 '#5EC962', 1 '#FDE725')
}
plot $Data using 1:2:3 with image pixels
