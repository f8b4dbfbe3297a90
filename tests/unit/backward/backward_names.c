/* Prints the names of the backward passes' blocks, for comparison with the nodes that the job
 * noted: backward_names TRACE. One line for each block without a stack on the first device: its
 * number among all allocations, its bytes and its name. */
#include "attribution/attribution.h"
#include "backward/backward.h"
#include "replay/replay.h"
#include "trace/visit.h"

#include <stdio.h>
#include <stdlib.h>

struct names {
	const struct tables *tables;
	const struct backward *backward;
	unsigned long allocs;
};

static void on_records(void *context, uint64_t segment, uint64_t first,
		       const struct mt_record *records, size_t count)
{
	struct names *n = context;

	(void)segment;
	(void)first;
	for (size_t i = 0; i < count; i++) {
		const struct mt_record *r = &records[i];
		struct buf name = { 0 };

		if (r->kind != MT_TENSOR_ALLOC || r->device)
			continue;
		origin_add_label(&n->backward->origins[backward_origin(n->backward, r)], n->tables,
				 &name);
		if (n->tables->thread_flags[r->thread] & THREAD_AUTOGRAD &&
		    backward_has_no_place(n->tables, r->stack))
			printf("%lu %lld %s\n", n->allocs, (long long)r->bytes,
			       name.length ? name.text : "");
		n->allocs++;
		buf_release(&name);
	}
}

static void nothing(void *context)
{
	(void)context;
}

static void no_keyframe(void *context, const struct mt_record *records, size_t count)
{
	(void)context;
	(void)records;
	(void)count;
}

static void no_segment(void *context, uint64_t segment)
{
	(void)context;
	(void)segment;
}

int main(int argc, char **argv)
{
	struct trace t;
	struct replay replay;
	struct replay_options options = { .name_all_blocks = 1 };
	struct err e = { "" };
	struct names n;
	struct record_visitor visitor = { .context = &n,
					  .keyframe_begin = nothing,
					  .keyframe = no_keyframe,
					  .keyframe_end = no_segment,
					  .records = on_records };

	if (argc < 2)
		return 2;
	if (trace_open_header(&t, argv[1], &e) < 0 || trace_load(&t, &e) < 0) {
		fprintf(stderr, "%s\n", e.text);
		return 1;
	}
	replay_trace(&replay, &t, &options);
	n = (struct names){ &t.tables, &replay.device[0].backward, 0 };
	trace_visit(&t, &visitor);
	replay_release(&replay);
	trace_release(&t);
	return 0;
}
