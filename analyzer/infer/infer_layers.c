/* Finds the sizes that repeat in the order of a model's parameters, and the decoder layers that
 * they may be. */
#include "infer/infer_layers.h"

#include <stdlib.h>
#include <string.h>

#include "match/match_blocks.h"
#include "allocator/allocator.h"

/* Rows of a matrix at least; anything smaller is a vector. */
#define MIN_ROWS 24
#define MAX_TP 64

static int alike(bytes a, bytes b)
{
	bytes more = a > b ? a : b, less = a > b ? b : a;

	return a == b || (less > MAX_UNSPLIT_TAIL && more - less <= MAX_UNSPLIT_TAIL);
}

int size_fits(bytes size, wide wanted)
{
	wide block = (wanted + SMALLEST_BLOCK - 1) / SMALLEST_BLOCK * SMALLEST_BLOCK;

	return size == block ||
	       (block > MAX_UNSPLIT_TAIL && size > block && size <= block + MAX_UNSPLIT_TAIL);
}

static bytes bytes_of_run(const struct parameter_sizes *m, size_t start, size_t count)
{
	bytes sum = 0;

	for (size_t i = start; i < start + count; i++)
		sum = bytes_add(sum, m->sizes[i]);
	return sum;
}

/* Finds the run with most bytes in which each block is like the one a period before it. Of two that
 * cover as much, the shorter period wins. */
static bytes find_run(const struct parameter_sizes *m, size_t period, struct layers *best,
		      bytes most)
{
	size_t start = 0;

	for (size_t i = period; i <= m->count; i++) {
		size_t layers = (i - start) / period;

		if (i < m->count && alike(m->sizes[i], m->sizes[i - period]))
			continue;
		if (layers >= 2 && bytes_of_run(m, start, layers * period) > most) {
			most = bytes_of_run(m, start, layers * period);
			best->start = start;
			best->period = period;
			best->count = layers;
		}
		start = i - period + 1;
	}
	return most;
}

/* Does the run have blocks of one size only? Consecutive vectors are no layers. */
static int is_plain(const struct parameter_sizes *m, const struct layers *l)
{
	for (size_t i = 1; i < l->period; i++)
		if (!alike(m->sizes[l->start + i], m->sizes[l->start]))
			return 0;
	return 1;
}

static void fill_slots(const struct parameter_sizes *m, struct layers *l)
{
	for (size_t k = 0; k < l->period; k++) {
		l->slot[k] = m->sizes[l->start + k];
		for (size_t n = 1; n < l->count; n++) {
			bytes size = m->sizes[l->start + n * l->period + k];

			if (size < l->slot[k])
				l->slot[k] = size;
		}
	}
}

void layers_find(struct layers *l, const struct alloc_profile *c, enum parameter_source source)
{
	const struct parameter_sizes *m = &c->parameters[source];
	bytes most = 0;

	*l = (struct layers){ .source = source };
	for (size_t period = 2; period <= MAX_SLOTS; period++)
		most = find_run(m, period, l, most);
	if (l->count && is_plain(m, l))
		l->count = 0;
	if (l->count)
		fill_slots(m, l);
}

/* ---- hypotheses ---- */

struct hypothesis_search {
	const struct layers *l;
	const struct alloc_profile *profile;
	int64_t shards, world;
	int experts;
	bytes matrix[MAX_SLOTS];
	size_t slot[MAX_SLOTS]; /* index in the layer of each matrix */
	size_t matrices;
	struct layer_hypothesis *out;
	size_t count;
};

static wide bytes_of_rows(const struct hypothesis_search *y, const struct layer_hypothesis *r,
			  int64_t rows)
{
	return (wide)rows * r->hidden * r->width / y->shards;
}

static int64_t rows_at_most(const struct hypothesis_search *y, const struct layer_hypothesis *r,
			    bytes size)
{
	return (int64_t)((wide)size * y->shards / ((wide)r->hidden * r->width)) * r->tp;
}

/* The rows if the block has the largest possible unsplit tail. */
static int64_t least_rows(const struct hypothesis_search *y, const struct layer_hypothesis *r,
			  bytes size)
{
	wide row = (wide)r->hidden * r->width;
	bytes tail = size > MAX_UNSPLIT_TAIL ? MAX_UNSPLIT_TAIL : 0;

	return (int64_t)(((wide)(size - tail) * y->shards + row - 1) / row) * r->tp;
}

/* Rows of a matrix with hidden_size columns, of the whole model. If the size has a tail, the
 * roundest possible number. */
static int64_t rows_of(const struct hypothesis_search *y, const struct layer_hypothesis *r,
		       bytes size)
{
	wide row = (wide)r->hidden * r->width, whole = (wide)size * y->shards;
	int64_t most = (int64_t)(whole / row), least;

	if (whole % row == 0 || size <= MAX_UNSPLIT_TAIL)
		return most * r->tp;
	least = (int64_t)(((wide)(size - MAX_UNSPLIT_TAIL) * y->shards + row - 1) / row);
	for (int64_t by = INT64_C(1) << 20; by > 1; by /= 2)
		if (most / by * by >= least && most / by * by > 0)
			return most / by * by * r->tp;
	return most * r->tp;
}

static int fits(const struct hypothesis_search *y, const struct layer_hypothesis *r, bytes size,
		int64_t rows)
{
	return rows % r->tp == 0 && size_fits(size, bytes_of_rows(y, r, rows / r->tp));
}

static int has_vector(const struct hypothesis_search *y, const struct layer_hypothesis *r,
		      int64_t rows)
{
	for (size_t i = 0; i < y->l->period; i++)
		for (int width = 2; width <= 4; width += 2)
			if (y->l->slot[i] <= MAX_UNSPLIT_TAIL && rows % r->tp == 0 &&
			    size_fits(y->l->slot[i], (wide)rows / r->tp * width / y->shards))
				return 1;
	return 0;
}

static void add_hypothesis(struct hypothesis_search *y, struct layer_hypothesis r)
{
	if (r.ffn <= 0 || r.kv <= 0 || r.kv > r.hidden || r.hidden % r.kv ||
	    y->count >= MAX_HYPOTHESES)
		return;
	r.linear_bias = has_vector(y, &r, r.ffn);
	r.qkv_bias = !r.linear_bias && (has_vector(y, &r, r.hidden + 2 * r.kv) ||
					(r.kv < r.hidden && has_vector(y, &r, r.kv)));
	for (size_t i = 0; i < y->l->period; i++)
		r.vectors += size_fits(y->l->slot[i], (wide)r.hidden * r.width / y->shards);
	y->out[y->count++] = r;
}

/* Reads the feed-forward network from the matrices that attention leaves: up and down, or with a
 * gate in one matrix or two. */
static int read_mlp(const struct hypothesis_search *y, struct layer_hypothesis *r, const bytes *m,
		    size_t n)
{
	bytes less, more;

	if (!n)
		return 0;
	less = more = m[0];
	for (size_t i = 1; i < n; i++) {
		less = m[i] < less ? m[i] : less;
		more = m[i] > more ? m[i] : more;
	}
	r->ffn = rows_at_most(y, r, less);
	r->ffn_least = least_rows(y, r, less);
	r->gated = n == 3 || (n == 2 && !alike(less, more));
	if (n == 2 && r->gated)
		return rows_at_most(y, r, more) >= 2 * r->ffn_least &&
		       least_rows(y, r, more) <= 2 * r->ffn;
	return (n == 2 || n == 3) && alike(less, more);
}

/* ---- experts ---- */

/* Rows of the router, which has one for each expert and is allocated right after attention, or
 * after a vector; 0: none. *slot is its index. */
static int64_t router_rows(const struct hypothesis_search *y, const struct layer_hypothesis *r,
			   size_t after, size_t *slot)
{
	for (size_t k = 1; k < y->l->period; k++) {
		bytes size = y->l->slot[(after + k) % y->l->period];
		int64_t rows = rows_of(y, r, size) / r->tp;

		*slot = (after + k) % y->l->period;
		if (rows >= 2)
			return size_fits(size, bytes_of_rows(y, r, rows)) ? rows : 0;
	}
	return 0;
}

/* Reads a shared expert: up and down, or gate, up and down. The last matrix has its width. */
static int read_shared(const struct hypothesis_search *y, struct layer_hypothesis *r,
		       const bytes *m, size_t n)
{
	bytes less = n ? m[n - 1] : 0;

	r->shared = r->shared_least = 0;
	if (!n)
		return 1;
	for (size_t i = 0; i < n; i++)
		less = m[i] < less ? m[i] : less;
	r->shared = rows_at_most(y, r, less);
	r->shared_least = least_rows(y, r, less);
	return (n == 3 && alike(m[0], less) && alike(m[1], less) && alike(m[2], less)) ||
	       (n == 2 && (alike(m[0], m[1]) ||
			   (r->gated && rows_at_most(y, r, m[0]) >= 2 * r->shared_least)));
}

/* Reads the matrices of all experts from two tensors. */
static void read_stacked(struct hypothesis_search *y, struct layer_hypothesis r, const bytes *m,
			 size_t n)
{
	if (n < 2 || n > 5 || !read_mlp(y, &r, m, 2) || !read_shared(y, &r, m + 2, n - 2))
		return;
	r.experts_here = r.experts;
	r.ffn /= r.experts;
	r.ffn_least = (r.ffn_least + r.experts - 1) / r.experts;
	if (r.ffn >= r.ffn_least)
		add_hypothesis(y, r);
}

/* Is there, for each layer, a small block with so many rows of any element width? */
static int has_router(const struct hypothesis_search *y, const struct layer_hypothesis *r,
		      int64_t rows)
{
	for (size_t i = 0; i < y->profile->small.count; i++)
		for (int width = 2; width <= 4; width += 2)
			if (y->profile->small.list[i].count >= y->l->count &&
			    size_fits(y->profile->small.list[i].size,
				      (wide)rows * r->hidden * width))
				return 1;
	return 0;
}

/* Reads two matrices for each expert of this rank. A router that is allocated apart (Megatron's,
 * which is copied from the host) shows how many ranks share the experts. If it is not found, any
 * number may. */
static void read_each(struct hypothesis_search *y, struct layer_hypothesis r, const bytes *m,
		      size_t n)
{
	size_t same = 2;
	int seen = 0;

	while (same + 1 < n && alike(m[same], m[0]) && alike(m[same + 1], m[1]))
		same += 2;
	r.experts_here = (int64_t)same / 2;
	r.apart = 1;
	if (n < 2 || !read_mlp(y, &r, m, 2) || !read_shared(y, &r, m + same, n - same))
		return;
	if (r.experts) {
		if (r.experts % r.experts_here == 0)
			add_hypothesis(y, r);
		return;
	}
	for (int any = 0; any < 2 && !seen; any++)
		for (int64_t ranks = 1; ranks <= y->world; ranks++) {
			r.experts = r.experts_here * ranks;
			if (y->world % ranks == 0 && (any || has_router(y, &r, r.experts))) {
				seen = 1;
				r.no_router = any;
				add_hypothesis(y, r);
			}
		}
}

static void read_experts(struct hypothesis_search *y, struct layer_hypothesis r, const bytes *m,
			 size_t n, size_t first, size_t after)
{
	size_t router = after, before = y->count;
	/* a router with many rows counts as a matrix */
	int is_first;

	r.experts = router_rows(y, &r, after, &router);
	is_first = n && y->slot[first] == router;
	if (r.experts) {
		read_stacked(y, r, m + is_first, n - is_first);
		read_each(y, r, m + is_first, n - is_first);
	}
	if (y->count == before) {
		r.experts = 0;
		read_each(y, r, m, n);
	}
}

/* ---- attention ---- */

/* Reads the feed-forward network; `used` matrices from `first` on are attention's. */
static void read_rest(struct hypothesis_search *y, struct layer_hypothesis r, size_t first,
		      size_t used)
{
	bytes rest[MAX_SLOTS];
	size_t n = y->matrices - used, next = (first + used) % y->matrices;

	for (size_t i = 0; i < n; i++)
		rest[i] = y->matrix[(next + i) % y->matrices];
	if (y->experts)
		read_experts(y, r, rest, n, next, y->slot[(first + used - 1) % y->matrices]);
	else if (read_mlp(y, &r, rest, n))
		add_hypothesis(y, r);
}

/* Reads attention from four matrices: q, k, v and the output projection, in this order. */
static void read_separate(struct hypothesis_search *y, struct layer_hypothesis r, size_t first)
{
	bytes m[4];

	for (size_t i = 0; i < 4; i++)
		m[i] = y->matrix[(first + i) % y->matrices];
	if (!fits(y, &r, m[0], r.hidden) || !fits(y, &r, m[3], r.hidden) || !alike(m[1], m[2]))
		return;
	r.kv = rows_of(y, &r, m[1] < m[2] ? m[1] : m[2]);
	read_rest(y, r, first, 4);
}

/* Reads attention from two matrices: q, k and v in one, before the output projection or after it.
 */
static void read_fused(struct hypothesis_search *y, struct layer_hypothesis r, size_t first,
		       int out)
{
	bytes m[2] = { y->matrix[first], y->matrix[(first + 1) % y->matrices] };

	if (!fits(y, &r, m[out], r.hidden))
		return;
	r.kv = (rows_of(y, &r, m[!out]) - r.hidden) / 2;
	if (fits(y, &r, m[!out], r.hidden + 2 * r.kv))
		read_rest(y, r, first, 2);
}

static void read_attention(struct hypothesis_search *y, const struct layer_hypothesis *r)
{
	size_t n = y->matrices, before = y->count;

	if (n == 6 || n == 7 || (y->experts && n >= 6))
		for (size_t i = 0; i < n && y->count == before; i++)
			read_separate(y, *r, i);
	if (n != 4 && n != 5 && !(y->experts && n >= 4))
		return;
	for (size_t i = 0; i < n && y->count == before; i++) {
		read_fused(y, *r, i, 0);
		if (y->count == before)
			read_fused(y, *r, i, 1);
	}
}

static int is_inside(const struct layers *l, size_t i)
{
	return i >= l->start && i < l->start + l->count * l->period;
}

/* Reads the embedding, the output layer and the positions from the parameters outside the layers.
 */
static void read_ends(struct hypothesis_search *y, struct layer_hypothesis *r)
{
	const struct parameter_sizes *m = &y->profile->parameters[y->l->source];
	bytes vocabulary = 0;

	for (size_t i = 0; i < m->count; i++)
		if (!is_inside(y->l, i) && m->sizes[i] > vocabulary)
			vocabulary = m->sizes[i];
	if (bytes_of_rows(y, r, MIN_ROWS) > vocabulary)
		return;
	for (size_t i = 0; i < m->count; i++) {
		/* the positions are allocated beside the embedding, and not split among ranks */
		wide row = (wide)r->hidden * r->width / y->shards;

		if (is_inside(y->l, i))
			continue;
		if (alike(m->sizes[i], vocabulary)) {
			r->heads_seen++;
			if (m->sizes[i] < vocabulary)
				vocabulary = m->sizes[i];
		} else if (m->sizes[i] >= MIN_ROWS * row) {
			r->positions_most = rows_at_most(y, r, m->sizes[i]) / r->tp;
			r->positions_least = least_rows(y, r, m->sizes[i]) / r->tp;
		}
	}
	r->vocab_most = rows_at_most(y, r, vocabulary);
	r->vocab_least = least_rows(y, r, vocabulary);
}

static void read_one(struct hypothesis_search *y, int64_t hidden, int width, int64_t tp)
{
	struct layer_hypothesis r = { .hidden = hidden, .width = width, .tp = tp };
	size_t before = y->count;

	if (hidden < 64 || hidden > 1 << 20)
		return;
	for (size_t i = 0; i < y->count; i++)
		if (y->out[i].hidden == hidden && y->out[i].width == width && y->out[i].tp == tp)
			return;
	y->matrices = 0;
	for (size_t i = 0; i < y->l->period; i++)
		if (y->l->slot[i] >= bytes_of_rows(y, &r, MIN_ROWS) / tp) {
			y->slot[y->matrices] = i;
			y->matrix[y->matrices++] = y->l->slot[i];
		}
	read_attention(y, &r);
	for (size_t i = before; i < y->count; i++)
		read_ends(y, &y->out[i]);
}

/* hidden_size comes from the normalizations: h elements of 2 or 4 bytes, at least one a layer. */
size_t layers_interpret(const struct layers *l, const struct alloc_profile *c,
			const struct job_assumptions *job, struct layer_hypothesis *hypotheses)
{
	int64_t world = job->world < MAX_TP ? job->world : MAX_TP;
	struct hypothesis_search y = { .l = l,
				       .profile = c,
				       .out = hypotheses,
				       .world = world,
				       .experts = job->experts,
				       .shards = l->source == SOURCE_SHARDED ? job->shards : 1 };

	for (size_t i = 0; i < c->small.count + l->period; i++) {
		int inside = i >= c->small.count;
		bytes size = inside ? l->slot[i - c->small.count] : c->small.list[i].size;
		int64_t pieces = inside ? y.shards : 1;

		if (size > MAX_UNSPLIT_TAIL || pieces > 1 << 20 ||
		    (!inside && c->small.list[i].count < l->count))
			continue;
		for (int vector = 2; vector <= 4; vector += 2)
			for (int width = 2; width <= 4; width += 2)
				for (int64_t tp = 1; tp <= world; tp++)
					if (world % tp == 0 && size * pieces % vector == 0)
						read_one(&y, size * pieces / vector, width, tp);
	}
	return y.count;
}
