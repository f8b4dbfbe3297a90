/*
 * The workspace that PyTorch gives each cuBLAS handle, by aten/src/ATen/cuda/CublasHandlePool.cpp,
 * parseChosenWorkspaceSize(): 32 MiB on compute capability 9.0 (from PyTorch 2.12 on, later ones
 * too), 8.125 MiB on others, unless CUBLAS_WORKSPACE_CONFIG is set.
 */
#ifndef MEMTRACE_CUBLAS_H
#define MEMTRACE_CUBLAS_H

#include "util/util.h"

#define CUBLAS_WORKSPACE_HOPPER (INT64_C(4096) * 8 << 10)            /* 33,554,432 bytes */
#define CUBLAS_WORKSPACE_OTHERS ((INT64_C(4096) * 2 + 16 * 8) << 10) /* 8,519,680 bytes */

/* The bytes of a CUBLAS_WORKSPACE_CONFIG: ":4096:2:16:8" is 2 of 4096 KiB and 8 of 16 KiB. -1 if
 * the text is no list of such pairs, or a number has more than 7 digits; 0 if it is empty. */
bytes cublas_workspace_parse(struct str config);

#endif
