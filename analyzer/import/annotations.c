#define _GNU_SOURCE /* strncasecmp */
#include "import/annotations.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/hash.h"

#define PROFILER_STEP "ProfilerStep#"

struct annotated_name {
	struct str name;
	uint32_t stack; /* whose only frame is the name; 0: not written yet */
	uint32_t open;  /* 1 + the index of the innermost beginning without its end */
	UT_hash_handle hh;
};

void annotations_add(struct annotations *a, uint64_t at_ns, int is_end, struct str name)
{
	if (a->count >= UINT32_MAX)
		return;
	a->list = grow(a->list, a->count, &a->room, sizeof(*a->list));
	a->list[a->count] = (struct annotation){
		.at_ns = at_ns, .name = name, .order = (uint32_t)a->count, .is_end = is_end
	};
	a->count++;
}

static int by_time(const void *a, const void *b)
{
	const struct annotation *x = a, *y = b;

	if (x->at_ns != y->at_ns)
		return x->at_ns < y->at_ns ? -1 : 1;
	return x->order < y->order ? -1 : 1;
}

static int is_of_profiler(struct str name)
{
	size_t n = strlen(PROFILER_STEP);

	return name.length > n && !memcmp(name.at, PROFILER_STEP, n);
}

/* Which word a name counts by that is "step" or "iteration" with a number, and nothing else but
 * signs; -1: it is another name. */
static int step_word(struct str name)
{
	static const char *const words[] = { "train_step",    "training_step", "train step",
					     "training step", "step",          "iteration",
					     "iter" };
	const char *at = name.at, *end = name.at + name.length;
	size_t word = 0, n = 0;

	while (at < end && !isalnum((unsigned char)*at))
		at++;
	for (; word < ARRAY_SIZE(words); word++) {
		n = strlen(words[word]);
		if ((size_t)(end - at) > n && !strncasecmp(at, words[word], n))
			break;
	}
	if (word == ARRAY_SIZE(words))
		return -1;
	at += n;
	while (at < end && !isalnum((unsigned char)*at))
		at++;
	if (at == end || !isdigit((unsigned char)*at))
		return -1;
	while (at < end && isdigit((unsigned char)*at))
		at++;
	while (at < end && !isalnum((unsigned char)*at))
		at++;
	return at == end ? (int)word : -1;
}

static struct annotated_name *name_of(struct annotations *a, struct str name)
{
	struct annotated_name *found;

	HASH_FIND(hh, a->names, name.at, name.length, found);
	if (!found) {
		found = xcalloc(1, sizeof(*found));
		found->name = name;
		HASH_ADD_KEYPTR(hh, a->names, found->name.at, name.length, found);
	}
	return found;
}

/* An end is that of the innermost open beginning of its name. */
static void find_pairs(struct annotations *a)
{
	for (uint32_t i = 0; i < a->count; i++) {
		struct annotation *at = &a->list[i];
		struct annotated_name *name = name_of(a, at->name);

		if (!at->is_end) {
			at->outer = name->open;
			name->open = i + 1;
		} else if (name->open) {
			at->pair = name->open;
			a->list[at->pair - 1].pair = i + 1;
			name->open = a->list[at->pair - 1].outer;
		}
	}
}

/*
 * The beginnings of steps: ProfilerStep if there are any, else those that count by the same word as
 * the first one. What begins and ends within a step is a part of it. Numbers may restart: each
 * epoch may count from 0.
 */
static void find_steps(struct annotations *a)
{
	int profiler = 0, first = -1;
	size_t until = 0; /* the index of the end of the last step */

	for (size_t i = 0; i < a->count && !profiler; i++)
		profiler = is_of_profiler(a->list[i].name);
	for (size_t i = 0; i < a->count; i++) {
		struct annotation *at = &a->list[i];
		int word = at->is_end || profiler ? -1 : step_word(at->name);

		if (at->is_end)
			continue;
		if (profiler)
			at->is_step = is_of_profiler(at->name);
		else if (word >= 0 && (first < 0 || word == first) &&
			 !(at->pair && at->pair <= until))
			at->is_step = 1;
		if (!at->is_step || profiler)
			continue;
		first = word;
		until = at->pair;
	}
}

/* Every other range is a phase. An end belongs to what began. */
static void find_phases(struct annotations *a)
{
	uint32_t phases = 0;

	for (size_t i = 0; i < a->count; i++) {
		struct annotation *at = &a->list[i];

		if (!at->is_end && !at->is_step)
			at->phase = ++phases;
		else if (at->is_end && at->pair)
			at->phase = a->list[at->pair - 1].phase;
	}
}

static uint32_t stack_of(struct annotations *a, struct image *i, uint32_t module, struct str name)
{
	struct annotated_name *found = name_of(a, name);

	if (!found->stack) {
		const struct mt_frame frame = { .function = image_string(i, name) };
		const uint32_t words[] = { module, image_frame(i, &frame) };

		found->stack = image_stack(i, words, ARRAY_SIZE(words));
	}
	return found->stack;
}

static void put(struct annotations *a, struct image *i, uint32_t module,
		const struct annotation *at)
{
	struct mt_record r = { .time_ns = at->at_ns,
			       .device = MT_NO_DEVICE,
			       .thread = MT_NO_THREAD };

	if (at->is_step) {
		r.kind = MT_STEP;
		r.bytes = ++a->steps;
	} else if (at->phase) {
		r.kind = at->is_end ? MT_PHASE_END : MT_PHASE_BEGIN;
		r.address = at->phase;
		r.stack = at->is_end ? MT_NO_STACK : stack_of(a, i, module, at->name);
	} else {
		return;
	}
	image_record(i, &r);
}

void annotations_finish(struct annotations *a, struct image *i, uint32_t module)
{
	if (a->count)
		qsort(a->list, a->count, sizeof(*a->list), by_time);
	find_pairs(a);
	find_steps(a);
	find_phases(a);
	for (size_t k = 0; k < a->count; k++)
		put(a, i, module, &a->list[k]);
	free(a->list);
	HASH_RELEASE(a->names);
	*a = (struct annotations){ 0 };
}
