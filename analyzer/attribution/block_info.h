/* What is known of the blocks of one moment: each one's birth and death, and what the others around it tell. */
#ifndef MEMTRACE_FACTS_H
#define MEMTRACE_FACTS_H

#include "attribution/lifetime.h"
#include "replay/replay.h"

#define FACTS_LINES 4 /* kinds of stacks that lines tell apart */

/* The live blocks of a stack. */
struct crowd {
	uint32_t last_step;             /* the youngest one's */
	uint32_t first_call, last_call; /* of the model, before their births */
	uint32_t blocks;
};

struct setting {
	const struct device *device;
	const struct tables *tables;
	uint64_t end_ns;       /* nothing counts behind it */
	size_t spans;          /* up to there */
	struct crowd *crowds;  /* of each stack */
	uint32_t *calls;       /* of a model, before each span */
	uint32_t *after;       /* of each span, the first one behind the next backward pass */
	bytes workspaces[3];   /* sizes that cuBLAS's can have; 0: none */
	int many_workspaces;   /* too many blocks of such a size come from a backward pass */
	int buckets_are_gradients; /* DDP's gradient_as_bucket_view */
	struct {
		uint32_t least, most;
	} lines[FACTS_LINES];
};

struct facts {
	const struct span *born, *died; /* NULL: not known; not dead */
	uint32_t born_flags, died_flags;
	enum makes makes;
	size_t backward_end; /* the first span behind the backward pass after its birth; setting.spans: none */
	struct crowd crowd;  /* it is one of */
	int at_once;         /* it was the last that was made, and gone before the next was */
	bytes bytes;
};

/* The lives are those of one device at one moment. */
void facts_begin(struct setting *c, const struct lives *l, const struct device *d,
		 const struct tables *t, uint64_t end_ns);
void facts_end(struct setting *c);

struct facts facts_of(const struct setting *c, const struct life *l);
enum makes facts_makes(const struct setting *c, const struct stack_info *p);

/* Has it the size of a workspace of cuBLAS's? */
int facts_is_workspace_size(const struct setting *c, bytes size);

/* Index of a span. */
static inline size_t facts_at(const struct setting *c, const struct span *s)
{
	return (size_t)(s - c->device->spans.list);
}

#endif
