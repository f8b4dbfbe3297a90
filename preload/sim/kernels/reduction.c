/* Reductions, counts and prefix sums of integers and booleans, if the host's actions depend on
 * them. A result in floating point is 0, so that the host reads a finite value. */
#include "device/common.h"
#include "kernels/computed.h"

#include <string.h>

/* ---- PyTorch's reduce_kernel<..., ReduceOp<input, operation, index, output, ...>>(ReduceOp): what
 * is known of ReduceOp's layout, which begins at its ReduceConfig */

enum { CONFIG_WORDS = 16, MAX_CONFIG = 64, MAX_ELEMENT = 64 };

enum result { NOTHING, SUM, PRODUCT, MAXIMUM, MINIMUM, ANY, ALL, ARGMAX, ARGMIN, OTHER, RESULTS };

struct reduction {
	enum number_type in, out;
	enum result gives[2]; /* one for each output */
	const int *config;    /* element size, inputs, outputs, ... */
	uint64_t inputs, outputs;
	bool contiguous; /* the reduced elements lie together */
	struct strided input, output;
	const char *from;
	char *to[2];
};

static bool is_place(enum result what)
{
	return what == ARGMAX || what == ARGMIN;
}

/* Positions are 64-bit integers, for elements of any type. */
static enum number_type type_of(const struct reduction *r, int output)
{
	return is_place(r->gives[output]) ? NUMBER_INT64 : r->out;
}

/* Is all memory that it reads and writes the device's? */
static bool in_memory(const struct reduction *r)
{
	uint64_t in = r->contiguous ? r->inputs * number_size(r->in) : strided_reach(&r->input, 0);
	uint64_t bases = strided_reach(&r->output, 1), out = strided_reach(&r->output, 0);
	for (int k = 0; k < 2 && r->gives[k]; k++)
		if (!launch_device(r->to[k],
				   (out / number_size(r->out) + 1) * number_size(type_of(r, k))))
			return false;
	return launch_device(r->from, bases + in + number_size(r->in));
}

static bool config_at(struct reduction *r, const char *op, size_t at)
{
	const int *c = r->config = (const int *)(op + at);
	/* the block's width, height and number of threads tell it from any other numbers; the size
	 * of an element, from itself four bytes on: one number is reduced by one thread */
	if (c[0] < 1 || c[0] > MAX_ELEMENT || c[1] < 1 || c[2] < 1 || c[11] < 1 || c[12] < 1 ||
	    c[13] > 1024 || c[11] > c[13] || c[12] > c[13] || c[11] * c[12] != c[13])
		return false;
	r->inputs = (uint64_t)c[1];
	r->outputs = (uint64_t)c[2];
	r->contiguous = *(const bool *)(c + 14);
	at += CONFIG_WORDS * sizeof(int);
	size_t size = strided_read(&r->input, op + at, 1);
	if (!size)
		return false;
	at += size;
	if (!(size = strided_read(&r->output, op + at, 2)))
		return false;
	at = round_up(at + size, 8);
	memcpy(&r->from, op + at, sizeof r->from);
	memcpy(r->to, op + at + 8, sizeof r->to);
	return in_memory(r);
}

/* The operation and its neutral element come first; their sizes differ. */
static bool read_reduction(struct reduction *r, const struct launch *l)
{
	const char *op = l->arguments[0], *types = launch_after(l, "ReduceOp<");
	r->in = launch_type(types);
	for (size_t at = 4; r->in && at <= MAX_CONFIG; at += 4)
		if (config_at(r, op, at))
			return true;
	return false;
}

static void know_results(struct reduction *r, const struct launch *l)
{
	static const struct {
		const char *functor;
		enum result gives[2];
	} known[] = {
		{ "sum_functor<", { SUM } },          { "MaxNanFunctor<", { MAXIMUM } },
		{ "MinNanFunctor<", { MINIMUM } },    { "::MinMaxOps<", { MINIMUM, MAXIMUM } },
		{ "or_kernel_cuda", { ANY } },        { "and_kernel_cuda", { ALL } },
		{ "::ArgMaxOps<", { ARGMAX } },       { "::ArgMinOps<", { ARGMIN } },
		{ "::MaxOps<", { MAXIMUM, ARGMAX } }, { "::MinOps<", { MINIMUM, ARGMIN } },
	};
	r->gives[0] = OTHER;
	for (size_t i = 0; i < LENGTH(known) && r->gives[0] == OTHER; i++)
		if (strstr(l->name, known[i].functor))
			memcpy(r->gives, known[i].gives, sizeof r->gives);
}

/* The fourth argument of ReduceOp<>, after the operation, which has commas of its own. */
static enum number_type output_type(const struct reduction *r, const struct launch *l)
{
	const char *at = launch_after(l, ", unsigned int, ");
	if (r->gives[0] == ANY || r->gives[0] == ALL)
		return NUMBER_BOOL;
	return at ? launch_type(at) : NUMBER_NONE;
}

/* `base` is an offset in the first output: the second's elements may be of another size. */
static void give(const struct reduction *r, uint64_t base, const number values[RESULTS])
{
	for (int k = 0; k < 2 && r->gives[k]; k++) {
		enum number_type type = type_of(r, k);
		number_store(r->to[k] + base / number_size(r->out) * number_size(type), type,
			     values[r->gives[k]]);
	}
}

/* The partial results of up to CHUNK outputs, after some of their inputs. */
struct partial {
	uint64_t sum[CHUNK], product[CHUNK];
	int64_t most[CHUNK], least[CHUNK];
	uint64_t most_at[CHUNK], least_at[CHUNK];
	unsigned char any[CHUNK], all[CHUNK];
};

/* The i-th input of each of `n` outputs. */
static void add_inputs(struct partial *p, const struct reduction *r, uint64_t i, const int64_t *x,
		       unsigned n)
{
	for (unsigned o = 0; o < n; o++)
		p->sum[o] += (uint64_t)x[o];
	if (r->gives[0] == SUM)
		return;
	for (unsigned o = 0; o < n; o++) {
		p->product[o] = (i ? p->product[o] : 1) * (uint64_t)x[o];
		if (!i || x[o] > p->most[o])
			p->most[o] = x[o], p->most_at[o] = i;
		if (!i || x[o] < p->least[o])
			p->least[o] = x[o], p->least_at[o] = i;
		p->any[o] |= x[o] != 0;
		p->all[o] &= x[o] != 0;
	}
}

static void give_all(const struct reduction *r, const struct partial *p, const uint64_t *to,
		     unsigned n)
{
	for (unsigned o = 0; o < n; o++)
		give(r, to[o],
		     (const number[RESULTS]){ [SUM] = (int64_t)p->sum[o],
					      [PRODUCT] = (int64_t)p->product[o],
					      [MAXIMUM] = p->most[o],
					      [MINIMUM] = p->least[o],
					      [ANY] = p->any[o],
					      [ALL] = p->all[o],
					      [ARGMAX] = p->most_at[o],
					      [ARGMIN] = p->least_at[o] });
}

/* `n` outputs side by side: their inputs are read in the order of memory, if it is theirs. */
static void reduce_across(const struct reduction *r, const uint64_t at[][CHUNK], unsigned n)
{
	struct partial p = { 0 };
	struct walk walk = { .layout = &r->input };
	uint64_t input[1][CHUNK];
	int64_t x[CHUNK];
	memset(p.all, 1, sizeof p.all);
	for (uint64_t i = 0; i < r->inputs; i++) {
		walk_next(&walk, input, 1);
		numbers_gather(x, r->from + input[0][0], at[1], r->in, n);
		add_inputs(&p, r, i, x, n);
	}
	give_all(r, &p, at[0], n);
}

/* One output, from CHUNK inputs at a time. */
static void reduce_along(const struct reduction *r, uint64_t to, uint64_t base)
{
	struct partial p = { .all = { 1 } };
	struct walk walk = { .layout = &r->input };
	uint64_t input[1][CHUNK], sum = 0;
	int64_t x[CHUNK];
	for (uint64_t done = 0; done < r->inputs; done += CHUNK) {
		unsigned n = r->inputs - done < CHUNK ? (unsigned)(r->inputs - done) : CHUNK;
		walk_next(&walk, input, n);
		numbers_gather(x, r->from + base, input[0], r->in, n);
		for (unsigned i = 0; i < n && r->gives[0] == SUM; i++)
			sum += (uint64_t)x[i];
		for (unsigned i = 0; i < n && r->gives[0] != SUM; i++)
			add_inputs(&p, r, done + i, &x[i], 1);
	}
	if (r->gives[0] == SUM)
		p.sum[0] = sum;
	give_all(r, &p, &to, 1);
}

static void reduce_all(struct reduction *r)
{
	struct walk walk = { .layout = &r->output };
	uint64_t at[2][CHUNK];
	if (r->contiguous)
		r->input = strided_row(r->inputs, 1, (const size_t[]){ number_size(r->in) });
	bool across = r->outputs > 1 && r->input.dimensions && r->output.dimensions &&
		      r->output.strides[0][1] < r->input.strides[0][0];
	for (uint64_t done = 0; done < r->outputs; done += CHUNK) {
		unsigned n = r->outputs - done < CHUNK ? (unsigned)(r->outputs - done) : CHUNK;
		walk_next(&walk, at, n);
		if (across)
			reduce_across(r, at, n);
		for (unsigned o = 0; o < n && !across; o++)
			reduce_along(r, at[0][o], at[1][o]);
	}
}

/* The launch reads and writes all of it. */
static void touches(const struct reduction *r)
{
	uint64_t in = r->contiguous ? r->inputs * number_size(r->in) : strided_reach(&r->input, 0);
	uint64_t bases = strided_reach(&r->output, 1), out = strided_reach(&r->output, 0);
	launch_reads(r->from, bases + in + number_size(r->in));
	for (int k = 0; k < 2 && r->gives[k]; k++)
		launch_writes(r->to[k],
			      (out / number_size(r->out) + 1) * number_size(type_of(r, k)));
}

/* A result that is not computed is that of a healthy job: sums of 0, only finite values; and the
 * positions of extremes are spread evenly, as the routing is. */
static void reduce_unread(const struct reduction *r)
{
	uint64_t base[ARGUMENTS];
	number values[RESULTS] = { [ALL] = 1 };
	for (uint64_t i = 0; i < r->outputs; i++) {
		strided_offsets(&r->output, i, base);
		values[ARGMAX] = values[ARGMIN] = i % r->inputs;
		give(r, base[0], values);
	}
}

bool compute_reduction(const struct launch *l)
{
	struct reduction r = { 0 };
	know_results(&r, l);
	r.out = output_type(&r, l);
	if (!r.out || !read_reduction(&r, l)) /* the host depends least on sums and means */
		return r.gives[0] == OTHER || r.gives[0] == SUM;
	bool known = r.gives[0] != OTHER && number_integral(r.in);
	if (known && r.inputs * r.outputs <= computed_most(r.in)) {
		touches(&r);
		reduce_all(&r);
		return true;
	}
	for (int k = 0; k < 2 && r.gives[k] && known; k++)
		launch_leaves(l, r.to[k],
			      (strided_reach(&r.output, 0) / number_size(r.out) + 1) *
				      number_size(type_of(&r, k)));
	if (r.outputs <= computed_most(r.out))
		reduce_unread(&r);
	return true;
}

/* torch.prod() is compiled when it is first used, into one kernel for each type, all of one name:
 * (ReduceJitOp), which is ReduceOp without the operation. Its neutral element tells integers from
 * floating point, and the next word has its size. */
bool compute_product(const struct launch *l)
{
	const char *op = l->arguments[0];
	struct reduction r = { .gives = { PRODUCT } };
	for (size_t at = 4; at <= MAX_CONFIG; at += 4) {
		int size = *(const int *)(op + at);
		r.in = NUMBER_NONE;
		if (size == 4 && *(const int32_t *)(op + at - 4) == 1)
			r.in = NUMBER_INT32;
		if (size == 8 && at >= 8 && *(const int64_t *)(op + at - 8) == 1)
			r.in = NUMBER_INT64;
		r.out = r.in;
		if (!r.in || !config_at(&r, op, at))
			continue;
		if (r.inputs * r.outputs <= computed_most(r.in)) {
			touches(&r);
			reduce_all(&r);
		} else {
			launch_leaves(l, r.to[0], strided_reach(&r.output, 0) + number_size(r.out));
		}
		return true;
	}
	return true; /* of floating point */
}

/* ---- CUB, as nonzero() and similar functions use it */

/* The data behind an iterator that makes NonZeroOp<type> of it: CUB's has the functor first. */
static const char *iterator_data(const struct launch *l, const void *iterator)
{
	const char *pointer;
	size_t at = strstr(l->name, "TransformInputIterator<") ? sizeof pointer : 0;
	memcpy(&pointer, (const char *)iterator + at, sizeof pointer);
	return pointer;
}

static bool flags_of(const struct launch *l, const void *iterator, uint64_t items,
		     const char **data, enum number_type *type)
{
	*type = launch_type(launch_after(l, "NonZeroOp<"));
	*data = iterator_data(l, iterator);
	bool good = *type && items <= computed_most(NUMBER_INT64) &&
		    launch_device(*data, items * number_size(*type));
	if (good)
		launch_reads(*data, items * number_size(*type));
	return good;
}

/* Up to CHUNK elements from the given one on: which are not zero? */
static unsigned flags_next(const char *data, enum number_type type, uint64_t from, uint64_t items,
			   int64_t x[CHUNK])
{
	static const uint64_t none[CHUNK];
	uint64_t at[CHUNK];
	unsigned n = items - from < CHUNK ? (unsigned)(items - from) : CHUNK;
	size_t size = number_size(type);
	if (number_floating(type) || type == NUMBER_UINT64) {
		for (unsigned i = 0; i < n; i++)
			x[i] = number_load(data + (from + i) * size, type) != 0;
		return n;
	}
	if (n == CHUNK && size == 1 && !memcmp(data + from, none, CHUNK)) {
		memset(x, 0, CHUNK * sizeof *x);
		return n;
	}
	for (unsigned i = 0; i < n; i++)
		at[i] = i * size;
	numbers_gather(x, data + from * size, at, type, n);
	return n;
}

/* (iterator, int *out, items, ...): one number, or one a block, which the next kernel adds up. */
bool compute_count(const struct launch *l)
{
	const char *data;
	enum number_type type;
	int *out = *(int **)l->arguments[1], total = 0;
	int64_t x[CHUNK];
	uint64_t items = *(unsigned *)l->arguments[2];
	unsigned parts = strstr(l->name, "SingleTile") ? 1 : l->columns;
	if (!launch_device(out, parts * sizeof *out))
		return false;
	memset(out, 0, parts * sizeof *out);
	if (!flags_of(l, l->arguments[0], items, &data, &type))
		return false;
	launch_writes(out, parts * sizeof *out);
	for (uint64_t i = 0, n; i < items; i += n) {
		n = flags_next(data, type, i, items, x);
		for (unsigned k = 0; k < n; k++)
			total += x[k] != 0;
	}
	*out = total;
	return true;
}

/* (int *parts, int *out, count, ...) */
bool compute_sum_of_parts(const struct launch *l)
{
	const int *parts = *(int **)l->arguments[0];
	int *out = *(int **)l->arguments[1], total = 0, count = *(int *)l->arguments[2];
	if (count < 0 || count > COMPUTED_PLACES || !launch_device(parts, (uint64_t)count * 4) ||
	    !launch_device(out, 4))
		return false;
	launch_reads(parts, (uint64_t)count * 4);
	launch_writes(out, 4);
	for (int i = 0; i < count; i++)
		total += parts[i];
	*out = total;
	return true;
}

/* (counting_iterator, iterator of flags, long *selected, int *number, tiles, select, equality,
 * items, ...): the flat positions of the elements that are not zero. */
bool compute_nonzero(const struct launch *l)
{
	const char *data;
	enum number_type type;
	int64_t *selected = *(int64_t **)l->arguments[2], first = *(int64_t *)l->arguments[0];
	int *number_out = *(int **)l->arguments[3], found = 0;
	int64_t x[CHUNK];
	uint64_t items = *(unsigned *)l->arguments[7];
	if (!flags_of(l, l->arguments[1], items, &data, &type))
		return false;
	for (uint64_t i = 0, n; i < items; i += n) {
		n = flags_next(data, type, i, items, x);
		for (unsigned k = 0; k < n; k++) {
			if (!x[k])
				continue;
			if (!launch_device(&selected[found], 8))
				return false;
			selected[found++] = first + (int64_t)(i + k);
		}
	}
	launch_writes(selected, (uint64_t)found * 8);
	launch_writes(number_out, 4);
	if (launch_device(number_out, 4))
		*number_out = found;
	return true;
}

/* <index>(long *places, index sizes[16], int dimensions, index count, ...): flat places become one
 * row of places a dimension, of which the flat ones are the first. */
bool compute_write_indices(const struct launch *l)
{
	enum number_type index = launch_type(launch_after(l, "write_indices<"));
	size_t size = number_size(index);
	int64_t *places = *(int64_t **)l->arguments[0];
	int dimensions = *(int *)l->arguments[2];
	if (!index || dimensions < 1 || dimensions > 16)
		return false;
	number items = number_load(l->arguments[3], index);
	if (items < 0 || items > COMPUTED_INTEGERS ||
	    !launch_device(places, (uint64_t)items * (uint64_t)dimensions * 8))
		return false;
	uint64_t count = (uint64_t)items;
	for (uint64_t i = 0; i < count; i++) {
		int64_t flat = places[i];
		for (int d = dimensions - 1; d >= 0; d--) {
			const char *at = (const char *)l->arguments[1] + (size_t)d * size;
			int64_t length = (int64_t)number_load(at, index);
			places[i + (uint64_t)d * count] = length > 0 ? flat % length : 0;
			flat /= length > 0 ? length : 1;
		}
	}
	return true;
}
