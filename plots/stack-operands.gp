# SQNR and bucket utilization of the inputs of the MLP's linear layers, and SQNR of their outputs, by layer, raw and rotated
# (UFP4's figures 4 to 7).
#
# Given: recipes, Names; $Fc1 and $Fc2: a block for each recipe, of lines
#        layer, SQNR raw and rotated, B_eff raw and rotated, SQNR of the output raw and rotated
set multiplot layout 2,3 margins char 9.5, char 2, char 4, char 4 spacing char 11.5, char 5
set xrange [] noextend
set offsets 0.3, 0.3, graph 0.05, graph 0.05
set key off
do for [fc = 1:2] {
    data = fc == 1 ? '$Fc1' : '$Fc2'
    what = fc == 1 ? 'up_proj' : 'down_proj'
    if (fc == 2) { set xlabel 'layer' offset 0,0.5 }
    do for [panel = 0:2] {
        set ylabel (panel == 0 ? 'SQNR of the input in dB' : panel == 1 ? 'B_eff of the input' : 'SQNR of the output in dB') offset 1,0 noenhanced
        set title what . (panel == 2 ? ', fprop output' : ', fprop input') noenhanced
        if (fc == 1 && panel == 0) { set key at screen 0.5, screen 0.995 center top maxrows 1 noenhanced font ',7' samplen 2 } else { set key off }
        raw = 2 + 2 * panel
        plot for [i = 1:recipes] data index i-1 using 1:raw with linespoints linestyle (i - 1) % 8 + 1 title Names[i], \
             for [i = 1:recipes] data index i-1 using 1:raw + 1 with linespoints linestyle (i - 1) % 8 + 1 dashtype 2 \
                 title (i == 1 ? 'dashed: rotated' : '')
    }
}
unset multiplot
