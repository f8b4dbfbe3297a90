/* The devices whose backward passes get names (backward/backward.h) while the live blocks are
 * followed. */
#ifndef MEMTRACE_BACKWARD_NAMES_H
#define MEMTRACE_BACKWARD_NAMES_H

#include "replay/replay.h"

struct backward_names {
	struct backward *of[MT_MAX_DEVICES];   /* NULL: no further name is asked for */
	unsigned count;                        /* of them, not NULL */
	int all;                               /* each block is asked for */
	unsigned char is_last[MT_MAX_DEVICES]; /* no later block of the device is asked for */
};

/* Makes `device.backward` of all devices ready. `all`: replay_options.name_all_blocks. */
void backward_names_init(struct backward_names *n, struct replay *r, const struct trace *t,
			 int all);
/* Names are asked for on a device. */
void backward_names_begin(struct backward_names *n, struct replay *r, int device);
/* Asks for the names of the live blocks. `is_last`: no later ones are asked for. */
void backward_names_want(struct backward_names *n, int device, int is_last);
/* Events are missing here. */
void backward_names_gap(struct backward_names *n);
/* No further name of the device is asked for. */
void backward_names_end(struct backward_names *n, int device);

/* An event of the tensor layer. `was`: the record that allocated what it frees, if it does. */
static inline void backward_names_event(struct backward_names *n, const struct mt_record *r,
					const struct mt_record *was)
{
	struct backward *b = r->device < MT_MAX_DEVICES ? n->of[r->device] : NULL;

	if (!b)
		return;
	if (r->kind == MT_TENSOR_FREE) {
		if (backward_notes(b, was))
			backward_free(b, r, was);
	} else if (r->kind == MT_TENSOR_OOM) {
		backward_failed(b);
	} else if (r->kind == MT_NODE) {
		backward_node(b, r);
	} else if (r->kind == MT_TENSOR_ALLOC && !backward_alloc(b, r) && n->is_last[r->device]) {
		backward_names_end(n, r->device);
	}
}

#endif
