#!/bin/sh
# Records a job in an Apptainer (Singularity) container. The image needs nothing of memtrace, and its C library may be older than this system's:
# libmemtrace.so needs glibc 2.17. The traces are in ./traces.
#
#   apptainer.sh pytorch.sif torchrun --nproc-per-node 2 train_gpt2.py
#   memtrace report traces
set -eu
preload=$(memtrace preload-path)
mkdir -p traces
exec apptainer exec --nv --bind "$preload:/memtrace/libmemtrace.so:ro" --bind "$PWD" --pwd "$PWD" \
	--env "LD_PRELOAD=/memtrace/libmemtrace.so,MEMTRACE_DIR=$PWD/traces" "$@"
