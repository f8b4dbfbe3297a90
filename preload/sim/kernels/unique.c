/* The number of different items, as unique(), coalesce() and similar functions ask for it: equal
 * neighbours are one. If items cannot be compared here, or are too many, all count as different:
 * the host reads the number and allocates by it. */
#include "kernels/computed.h"

#include <string.h>

struct items {
	const char *in, *values_in;
	char *out, *values_out; /* the first item of each run, and its value, if there are values */
	int64_t *lengths;       /* of the runs, if they are asked for */
	uint64_t count;
	struct element item, value;
};

static bool readable(const struct items *s)
{
	uint64_t bytes = s->count * s->item.size;
	return s->item.size && s->count <= COMPUTED_PLACES && launch_device(s->in, bytes) &&
	       launch_device(s->out, bytes) &&
	       (!s->lengths || launch_device(s->lengths, s->count * sizeof *s->lengths)) &&
	       (!s->value.size || (launch_device(s->values_in, s->count * s->value.size) &&
				   launch_device(s->values_out, s->count * s->value.size)));
}

/* The number of runs; `out` may be `in`. */
static uint64_t keep_firsts(const struct items *s)
{
	size_t size = s->item.size, value = s->value.size;
	uint64_t kept = 0;
	for (uint64_t i = 0; i < s->count; i++) {
		const char *item = s->in + i * size;
		if (kept && !memcmp(s->out + (kept - 1) * size, item, size)) {
			if (s->lengths)
				s->lengths[kept - 1]++;
			continue;
		}
		memmove(s->out + kept * size, item, size);
		if (value)
			memmove(s->values_out + kept * value, s->values_in + i * value, value);
		if (s->lengths)
			s->lengths[kept] = 1;
		kept++;
	}
	return kept;
}

/* Argument `runs` points to the number of runs, an integer of the type that it declares. */
static bool unify(const struct launch *l, const struct items *s, unsigned runs)
{
	static const char *const equalities[] = { "equal_to<", "Equality" };
	char *to = *(char **)l->arguments[runs];
	struct element type = element_of(l, runs);
	bool compared =
		readable(s) && (strstr(l->name, equalities[0]) || strstr(l->name, equalities[1]));
	if (compared)
		launch_reads(s->in, s->count * s->item.size);
	uint64_t kept = compared ? keep_firsts(s) : s->count;
	launch_writes(to, type.size);
	if (compared)
		launch_writes(s->out, kept * s->item.size);
	if (compared && s->lengths)
		launch_writes(s->lengths, kept * sizeof *s->lengths);
	if (!type.type || !launch_device(to, type.size))
		return false;
	number_store(to, type.type, kept);
	return compared;
}

/* (in, flags, out, number, tiles, select, equality, items, ...) */
bool compute_unique(const struct launch *l)
{
	struct items s = { .in = *(char **)l->arguments[0],
			   .out = *(char **)l->arguments[2],
			   .count = *(unsigned *)l->arguments[7],
			   .item = element_of(l, 0) };
	return unify(l, &s, 3);
}

/* (in, out, equality, number, items, ...) */
bool compute_unique_agent(const struct launch *l)
{
	struct items s = { .in = *(char **)l->arguments[0],
			   .out = *(char **)l->arguments[1],
			   .count = *(unsigned *)l->arguments[4],
			   .item = element_of(l, 0) };
	return unify(l, &s, 3);
}

static bool unique_by_key(const struct launch *l, unsigned runs, unsigned items)
{
	struct items s = { .in = *(char **)l->arguments[0],
			   .values_in = *(char **)l->arguments[1],
			   .out = *(char **)l->arguments[2],
			   .values_out = *(char **)l->arguments[3],
			   .count = *(unsigned *)l->arguments[items],
			   .item = element_of(l, 0),
			   .value = element_of(l, 1) };
	return unify(l, &s, runs);
}

/* (keys in, values in, keys out, values out, number, tiles, equality, items, ...) */
bool compute_unique_by_key(const struct launch *l)
{
	return unique_by_key(l, 4, 7);
}

/* (keys in, values in, keys out, values out, equality, number, items, ...) */
bool compute_unique_by_key_agent(const struct launch *l)
{
	return unique_by_key(l, 5, 6);
}

/* (in, out, ones, lengths, number, tiles, first tile, equality, plus, items, ...) */
bool compute_run_lengths(const struct launch *l)
{
	struct items s = { .in = *(char **)l->arguments[0],
			   .out = *(char **)l->arguments[1],
			   .count = *(unsigned *)l->arguments[9],
			   .item = element_of(l, 0) };
	if (element_of(l, 3).type == NUMBER_INT64)
		s.lengths = *(int64_t **)l->arguments[3];
	return unify(l, &s, 4);
}

/* (items, in, int *out): whether an item differs from the one before it */
bool compute_differences(const struct launch *l)
{
	uint64_t items = *(uint64_t *)l->arguments[0];
	const char *in = *(char **)l->arguments[1];
	int *out = *(int **)l->arguments[2];
	size_t size = element_of(l, 1).size;
	if (items > COMPUTED_PLACES) {
		launch_leaves(l, out, items * sizeof *out);
		return true;
	}
	if (!size || !launch_device(in, items * size) || !launch_device(out, items * sizeof *out))
		return false;
	launch_reads(in, items * size);
	launch_writes(out, items * sizeof *out);
	for (uint64_t i = 0; i < items; i++)
		out[i] = i && memcmp(in + i * size, in + (i - 1) * size, size);
	return true;
}

/* (items, in, places, out) */
bool compute_scatter(const struct launch *l)
{
	uint64_t items = *(uint64_t *)l->arguments[0];
	const int64_t *in = *(int64_t **)l->arguments[1], *places = *(int64_t **)l->arguments[2];
	int64_t *out = *(int64_t **)l->arguments[3];
	if (items > COMPUTED_PLACES) {
		launch_leaves(l, out, items * sizeof *out);
		return true;
	}
	if (!launch_device(in, items * sizeof *in) ||
	    !launch_device(places, items * sizeof *places) ||
	    !launch_device(out, items * sizeof *out))
		return false;
	launch_reads(in, items * sizeof *in);
	launch_reads(places, items * sizeof *places);
	launch_writes(out, items * sizeof *out);
	for (uint64_t i = 0; i < items; i++)
		if (places[i] >= 0 && (uint64_t)places[i] < items)
			out[places[i]] = in[i];
	return true;
}
