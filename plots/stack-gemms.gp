# What a rotation changes of the SQNR of every GEMM's output: layers across, GEMMs down, a panel for each recipe (UFP4's
# figure 12).
#
# Given: title, panels, Recipes; $Map: blocks that two blank lines part, of lines  layer row dSQNR; Rows, rows, layers, most
set multiplot layout 1,panels title title font ',9' margins char 21, char 14, char 4, char 5 spacing char 2
set palette defined (-1 '#0072B2', 0 '#FFFFFF', 1 '#D55E00')
set cbrange [-most:most]
unset key
unset grid
set border 0
set xrange [-0.5:layers - 0.5]
set yrange [rows - 0.5:-0.5]
set xlabel 'layer'
set xtics 0,(layers > 12 ? 4 : 1),layers - 1 scale 0
set ytics () noenhanced font ',7' scale 0
do for [i = 1:rows] { set ytics add (Rows[i] i - 1) }
do for [p = 1:panels] {
    set title Recipes[p] noenhanced
    if (p > 1) { set format y '' ; set ytics ('' 0) }
    if (p == panels) { set colorbox ; set cblabel 'change of SQNR in dB' offset 1.5, 0 } else { unset colorbox }
    plot $Map index p-1 using 1:2:3 with image pixels
}
unset multiplot
