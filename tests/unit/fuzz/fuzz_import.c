/*
 * The readers of other tools' files (PyTorch's memory snapshot, the profiler's trace) and the
 * replay of what they make of hostile ones. Seeds are in tests/unit/fuzz/corpus/import;
 * test_fuzz_import.c runs them, and mutations of them, without libFuzzer.
 */
#include "replay/replay.h"
#include "trace/trace.h"

#include <stdlib.h>

#include "inputs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct replay_options options = { .keep_live = 1 };
	struct err e = { 0 };
	struct replay replay;
	struct trace t;

	if (!trace_open_memory(&t, data, size, &e)) {
		replay_trace(&replay, &t, &options);
		replay_release(&replay);
	}
	trace_release(&t);
	return 0;
}
