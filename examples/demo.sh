#!/bin/sh
# make demo: installs the requirements, builds memtrace, records GPT-2 small (document 001's model) on two ranks with DDP, and reports the
# peak. Then the same job runs out of memory on a simulated card of 12 GiB, and the report explains the failure from the traces. If there is
# a GPU, the first part runs on it.
set -eu
cd "$(dirname "$0")/.."
tests/setup.sh
make -s -j"$(nproc)"
python=$(tests/python-env.sh active)
traces=build/demo
rm -rf "$traces"

say() { printf '\n\033[1m$ %s\033[0m\n' "$*" | { [ -t 1 ] && cat || sed 's/\x1b\[[0-9]*m//g'; }; "$@"; }
torchrun() { echo "$python" -m torch.distributed.run --nproc-per-node "$1" --standalone; }

if "$python" -c 'import torch, sys; sys.exit(not torch.cuda.is_available())' 2>/dev/null; then
	gpus=$("$python" -c 'import torch; print(min(2, torch.cuda.device_count()))')
	# shellcheck disable=SC2046
	say build/memtrace run -o "$traces/train" -- $(torchrun "$gpus") examples/train_gpt2.py
else
	echo "No GPU here: on the simulated H100."
	# shellcheck disable=SC2046
	say build/memtrace simulate --gpu H100-80GB --gpus 2 -o "$traces/train" -- $(torchrun 2) examples/train_gpt2.py
fi
say build/memtrace report "$traces/train"

echo
echo "The same job on a card of 12 GiB:"
# shellcheck disable=SC2046
say build/memtrace simulate --memory 12GiB --gpus 2 -o "$traces/oom" -- $(torchrun 2) examples/train_gpt2.py 2>"$traces/oom.err" || true
grep -E 'OutOfMemoryError|^memtrace:' "$traces/oom.err" | head -n 3
say build/memtrace report "$traces/oom"
