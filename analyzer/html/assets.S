/* Embeds the files of build/page (see the Makefile) under the names of assets.h. */
	.section .rodata
.macro asset name, file
	.globl asset_\name, asset_\name\()_end
asset_\name:
	.incbin "\file"
asset_\name\()_end:
	.byte 0
.endm
	asset style, "page.css"
	asset body, "page.html"
	asset script, "page.js"
	asset echarts, "echarts.min.js"
	asset d3, "d3.min.js"
	asset flamegraph, "d3-flamegraph.min.js"
	asset licences, "licences.html"
	.section .note.GNU-stack,"",@progbits
