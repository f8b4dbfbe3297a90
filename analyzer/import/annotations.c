#define _GNU_SOURCE /* strncasecmp */
#include "import/annotations.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/hash.h"

/* A phase that ends is looked for among the innermost open ones. */
#define MOST_OPEN 64

#define PROFILER_STEP "ProfilerStep#"

struct annotated_name {
	struct str name;
	uint32_t stack;
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

/* The number of a name that is "step" or "iteration" with a number, and nothing else but signs;
 * -1: it is another name. */
static int64_t step_number(struct str name)
{
	static const char *const words[] = { "train_step",    "training_step", "train step",
					     "training step", "step",          "iteration",
					     "iter" };
	const char *at = name.at, *end = name.at + name.length;
	int64_t number = 0;

	while (at < end && !isalnum((unsigned char)*at))
		at++;
	for (size_t i = 0; i < ARRAY_SIZE(words); i++) {
		size_t n = strlen(words[i]);

		if ((size_t)(end - at) > n && !strncasecmp(at, words[i], n)) {
			at += n;
			break;
		}
		if (i + 1 == ARRAY_SIZE(words))
			return -1;
	}
	while (at < end && !isalnum((unsigned char)*at))
		at++;
	if (at == end || !isdigit((unsigned char)*at))
		return -1;
	for (; at < end && isdigit((unsigned char)*at) && number < INT32_MAX; at++)
		number = number * 10 + (*at - '0');
	while (at < end && !isalnum((unsigned char)*at))
		at++;
	return at == end ? number : -1;
}

static void find_steps(struct annotations *a)
{
	int64_t last = -1;
	int profiler = 0;

	for (size_t i = 0; i < a->count && !profiler; i++)
		profiler = is_of_profiler(a->list[i].name);
	for (size_t i = 0; i < a->count; i++) {
		struct annotation *at = &a->list[i];
		int64_t number = step_number(at->name);

		if (profiler) {
			at->is_step = is_of_profiler(at->name);
		} else if (at->is_end) {
			at->is_step = number >= 0 && number == last;
		} else if (number > last) {
			last = number;
			at->is_step = 1;
		}
	}
}

static int same(struct str a, struct str b)
{
	return a.length == b.length && !memcmp(a.at, b.at, a.length);
}

/* The innermost open phase of the name is that which ends. */
static void find_ends(struct annotations *a)
{
	size_t open[MOST_OPEN], n = 0;
	uint32_t phases = 0;

	for (size_t i = 0; i < a->count; i++) {
		struct annotation *at = &a->list[i];
		size_t k = n;

		if (at->is_step)
			continue;
		if (!at->is_end && n < MOST_OPEN) {
			at->phase = ++phases;
			open[n++] = i;
		}
		if (!at->is_end)
			continue;
		while (k-- > 0)
			if (same(a->list[open[k]].name, at->name))
				break;
		if (k == SIZE_MAX)
			continue;
		at->phase = a->list[open[k]].phase;
		memmove(&open[k], &open[k + 1], (n - k - 1) * sizeof(*open));
		n--;
	}
}

/* A stack whose only frame is the name. */
static uint32_t stack_of(struct annotations *a, struct image *i, uint32_t module, struct str name)
{
	struct annotated_name *found;

	HASH_FIND(hh, a->names, name.at, name.length, found);
	if (!found) {
		const struct mt_frame frame = { .function = image_string(i, name) };
		const uint32_t words[] = { module, image_frame(i, &frame) };

		found = xcalloc(1, sizeof(*found));
		found->name = name;
		found->stack = image_stack(i, words, ARRAY_SIZE(words));
		HASH_ADD_KEYPTR(hh, a->names, found->name.at, name.length, found);
	}
	return found->stack;
}

static void put(struct annotations *a, struct image *i, uint32_t module,
		const struct annotation *at)
{
	struct mt_record r = { .time_ns = at->at_ns,
			       .device = MT_NO_DEVICE,
			       .thread = MT_NO_THREAD };

	if (at->is_step && !at->is_end) {
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
	find_steps(a);
	find_ends(a);
	for (size_t k = 0; k < a->count; k++)
		put(a, i, module, &a->list[k]);
	free(a->list);
	HASH_RELEASE(a->names);
	*a = (struct annotations){ 0 };
}
