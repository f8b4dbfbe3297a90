#!/bin/sh
# Records a job in a Docker container. The image needs nothing of memtrace, and its C library may be older than this system's: libmemtrace.so
# needs glibc 2.17. The traces are in ./traces.
#
#   docker.sh pytorch/pytorch:latest torchrun --nproc-per-node 2 train_gpt2.py
#   memtrace report traces
set -eu
preload=$(memtrace preload-path)
mkdir -p traces
exec docker run --rm --gpus all --shm-size 8g -v "$preload:/memtrace/libmemtrace.so:ro" -v "$PWD:$PWD" -w "$PWD" \
	-e LD_PRELOAD=/memtrace/libmemtrace.so -e "MEMTRACE_DIR=$PWD/traces" "$@"
