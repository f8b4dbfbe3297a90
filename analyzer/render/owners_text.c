#include "render/owners_text.h"
#include "estimate/device.h"
#include "util/order.h"

#include <stdlib.h>
#include <string.h>

#define COMMS_SHOWN 8
#define CURVE_ROOM 60 /* columns */
#define TITLE_WIDTH 24

enum { THOUSANDTHS = 1000 };

/* In thousandths of the whole. */
struct spread {
	int low, high;
};

/* Every part of a context contributes by its bytes on that GPU. */
static struct spread of_context(const struct gpu *gpu)
{
	const int eager = 0, cuda = 0;
	int64_t threads = gpu_threads(gpu), whole = 0, least = 0, most = 0;

#define CONTEXT_PART(id, when, fixed, per_thread, low, high)            \
	if (when) {                                                     \
		int64_t part = (fixed) + (int64_t)(per_thread)*threads; \
                                                                        \
		whole += part;                                          \
		least += part * (low);                                  \
		most += part * (high);                                  \
	}
#include "../../preload/sim/device/context.def"
	return (struct spread){ (int)(least / whole), (int)(most / whole) };
}

static struct spread of_nccl(const struct gpu *gpu)
{
	struct spread s = { THOUSANDTHS, THOUSANDTHS };

#define NCCL_SPREAD(sm, least, most) \
	s = gpu->capability >= (sm) ? (struct spread){ least, most } : s;
#include "../../preload/sim/nccl/nccl.def"
	return s;
}

int is_modelled(const struct rank *r, const char *owner)
{
	return r->simulated && (!strcmp(owner, "nccl") || !strcmp(owner, "context"));
}

void modelled_bounds(const struct rank *r, const char *owner, bytes size, bytes *low, bytes *high)
{
	const struct gpu *gpu = gpu_find(r->gpu ? r->gpu : "");
	struct spread s;

	if (!gpu)
		gpu = gpu_find("H100-80GB");
	s = strcmp(owner, "nccl") != 0 ? of_context(gpu) : of_nccl(gpu);
	*low = size / THOUSANDTHS * s.low;
	*high = size / THOUSANDTHS * s.high;
}

/* A peak that belongs to no total. */
static void put_apart(struct page *p, const char *what, bytes peak)
{
	struct buf b = { 0 };

	if (peak <= 0)
		return;
	buf_addf(&b, "%s: ", what);
	page_size(p, &b, peak);
	buf_puts(&b, ", in no total");
	page_field(p, "", b.text, 0);
	buf_release(&b);
}

/* A line of the table: an owner, or one of the two parts of PyTorch's. */
struct owner_line {
	const char *title;
	bytes at_peak;
	const struct owner_row *curve; /* NULL: none */
	int is_modelled;               /* the size comes from a table of the simulated device */
};

static int by_bytes(const void *a, const void *b)
{
	const struct owner_line *x = a, *y = b;

	if (x->at_peak != y->at_peak)
		return ORDER(y->at_peak, x->at_peak);
	return strcmp(x->title, y->title);
}

/* The sum of the lines: the device's peak, or the highest level that is in the trace. */
static bytes recorded_device(const struct rank *r)
{
	const struct point *p = &r->device_peak;

	return p->unrecorded ? p->reserved + p->other + p->untracked : r->peak_device;
}

/* Did the owner ever have more than 1 % of the device's peak? */
static int matters(const struct rank *r, const struct owner_row *o)
{
	return o->peak > recorded_device(r) / 100;
}

/* Returns the number of lines: at most one more than owners. */
static size_t lines_of(const struct rank *r, struct owner_line *lines)
{
	size_t n = 0;

	for (size_t i = 0; i < r->owner_count; i++) {
		const struct owner_row *o = &r->owners[i];
		bytes beyond = o->at_peak - r->device_peak.reserved;

		if (!o->at_peak && !matters(r, o) && strcmp(o->key, "unexplained"))
			continue;
		lines[n++] = (struct owner_line){ o->title, o->at_peak, matters(r, o) ? o : NULL,
						  is_modelled(r, o->key) };
		if (strcmp(o->key, "pytorch"))
			continue;
		lines[n - 1].title = "PyTorch's allocator";
		if (beyond > 0 && !r->counted_from_runtime) {
			lines[n - 1].at_peak -= beyond;
			lines[n++] = (struct owner_line){ "PyTorch, beside it", beyond, NULL, 0 };
		}
	}
	qsort(lines, n, sizeof(*lines), by_bytes);
	return n;
}

static void put_line(struct page *p, const struct rank *r, const struct owner_line *line)
{
	struct buf size = { 0 };
	bytes whole = recorded_device(r);
	char *title;
	int size_width = p->style->raw_bytes ? 20 : 10;
	size_t used = (size_t)(PAGE_ROW + size_width + 8) + TITLE_WIDTH,
	       room = (size_t)p->style->width;

	page_size(p, &size, line->at_peak);
	buf_addf(p->out, "%*s%*s %3.0f %%  ", PAGE_ROW, "", size_width, size.text,
		 whole > 0 ? 100.0 * (double)line->at_peak / (double)whole : 0);
	buf_release(&size);
	title = xasprintf("%s%s", line->title, line->is_modelled ? " (modelled)" : "");
	if (!line->curve || !r->owner_points || used + 8 > room) {
		buf_addf(p->out, "%s\n", title);
		free(title);
		return;
	}
	buf_addf(p->out, "%-*s", TITLE_WIDTH, title);
	free(title);
	room -= used;
	page_curve(p, line->curve->curve, r->owner_points, line->curve->peak,
		   room < CURVE_ROOM ? room : CURVE_ROOM);
	buf_puts(p->out, "\n");
}

static void put_device(struct page *p, const struct rank *r)
{
	const bytes recorded = recorded_device(r);
	struct buf b = { 0 };

	page_size(p, &b, r->peak_device);
	buf_puts(&b, " at its peak, ");
	if (r->device_peak.unrecorded)
		buf_puts(&b, "at a moment that is not in the trace");
	if (r->device_peak.unrecorded && recorded > 0) {
		buf_puts(&b, "; ");
		page_size(p, &b, recorded);
		buf_puts(&b, " at the " MOMENT_IN_TRACE ", ");
	}
	if (recorded > 0) {
		buf_addf(&b, "%.2f s; ", r->device_peak.time_s);
		page_size(p, &b, recorded - r->device_peak.reserved);
		buf_puts(&b, " of it outside PyTorch's allocator");
	}
	page_field(p, "device", b.text, 0);
	buf_release(&b);
}

/* The bounds of the lines that are modelled. */
static void put_bounds(struct page *p, const struct rank *r)
{
	struct buf b = { 0 };

	for (size_t i = 0; i < r->owner_count; i++) {
		const struct owner_row *o = &r->owners[i];
		bytes low, high;

		if (!o->at_peak || !is_modelled(r, o->key))
			continue;
		modelled_bounds(r, o->key, o->at_peak, &low, &high);
		buf_addf(&b, "%s%s ", b.length ? "; " : "", o->title);
		page_size(p, &b, o->at_peak);
		buf_puts(&b, ", -");
		page_size(p, &b, o->at_peak - low);
		buf_puts(&b, " +");
		page_size(p, &b, high - o->at_peak);
	}
	if (b.length)
		page_field(p, "modelled", b.text, 0);
	buf_release(&b);
}

void put_owners(struct page *p, const struct rank *r)
{
	struct owner_line *lines;
	size_t count;

	if (r->peak_device == UNKNOWN_BYTES)
		return;
	lines = xcalloc(r->owner_count + 1, sizeof(*lines));
	count = lines_of(r, lines);
	if (r->peak_device > 0) {
		put_device(p, r);
		for (size_t i = 0; i < count && recorded_device(r) > 0; i++)
			put_line(p, r, &lines[i]);
		if (recorded_device(r) > 0)
			put_bounds(p, r);
	}
	put_apart(p, "imported from other processes", r->imported_peak);
	put_apart(p, "managed memory, virtual until touched", r->managed_peak);
	free(lines);
}

static int by_size(const void *a, const void *b)
{
	const struct comm_row *x = *(const struct comm_row *const *)a,
			      *y = *(const struct comm_row *const *)b;

	if (x->size != y->size)
		return ORDER(y->size, x->size);
	return ORDER(x->created_s, y->created_s);
}

static void put_lifetime(struct page *p, double from, double to, int ended)
{
	if (ended)
		buf_addf(p->out, "%.1f to %.1f s", from, to);
	else
		buf_addf(p->out, "%.1f s to the end", from);
}

static void put_comm_row(struct page *p, bytes size, const char *what)
{
	struct buf b = { 0 };

	page_size(p, &b, size);
	buf_addf(p->out, "%*s%*s  %-*s ", PAGE_ROW, "", p->style->raw_bytes ? 20 : 10, b.text,
		 TITLE_WIDTH - 8, what);
	buf_release(&b);
}

static void put_comm(struct page *p, const struct comm_row *c)
{
	struct buf what = { 0 };

	if (c->size == NO_RANK)
		buf_puts(&what, "size unknown");
	else if (c->rank == NO_RANK)
		buf_addf(&what, "size %d", c->size);
	else
		buf_addf(&what, "rank %d of %d", c->rank, c->size);
	put_comm_row(p, c->bytes, what.text);
	put_lifetime(p, c->created_s, c->destroyed_s, c->destroyed);
	buf_puts(p->out, c->parent < 0 ? "\n" : ", split\n");
	buf_release(&what);
}

/* Communicators of one size, as one line. Returns how many there are. */
static size_t put_same_size(struct page *p, const struct comm_row *const *rows, size_t count)
{
	struct buf what = { 0 };
	bytes size = 0;
	double last = 0;
	int ended = 1;
	size_t n = 0;

	for (; n < count && rows[n]->size == rows[0]->size; n++) {
		size = bytes_add(size, rows[n]->bytes);
		ended &= rows[n]->destroyed;
		last = rows[n]->destroyed_s > last ? rows[n]->destroyed_s : last;
	}
	if (rows[0]->size == NO_RANK)
		buf_addf(&what, "%zu, size unknown", n);
	else
		buf_addf(&what, "%zu of size %d", n, rows[0]->size);
	put_comm_row(p, size, what.text);
	put_lifetime(p, rows[0]->created_s, last, ended);
	buf_puts(p->out, "\n");
	buf_release(&what);
	return n;
}

void put_comms(struct page *p, const struct rank *r)
{
	const struct comm_row **rows = xcalloc(r->comm_count, sizeof(*rows));
	struct buf b = { 0 };
	bytes took = 0;

	for (size_t i = 0; i < r->comm_count; i++) {
		rows[i] = &r->comms[i];
		took = bytes_add(took, r->comms[i].bytes);
	}
	if (r->comm_count) {
		buf_addf(&b, "%llu %s, which took ", (unsigned long long)r->comms_seen,
			 r->comms_seen == 1 ? "communicator" : "communicators");
		page_size(p, &b, took);
		buf_puts(&b, " of the device when made and first used");
		page_field(p, "nccl", b.text, 0);
	}
	if (r->comm_count > COMMS_SHOWN) {
		qsort(rows, r->comm_count, sizeof(*rows), by_size);
		for (size_t i = 0; i < r->comm_count;)
			i += put_same_size(p, rows + i, r->comm_count - i);
	} else {
		for (size_t i = 0; i < r->comm_count; i++)
			put_comm(p, rows[i]);
	}
	buf_release(&b);
	free(rows);
}

/* Less pinned host memory than this says nothing: PyTorch itself pins some. */
#define MIN_HOST (INT64_C(16) << 20)

void put_host(struct page *p, const struct rank *r)
{
	struct buf b = { 0 };

	if (r->host_pinned_peak >= MIN_HOST) {
		buf_puts(&b, "pinned host memory: up to ");
		page_size(p, &b, r->host_pinned_peak);
	}
	if (r->host_registered_peak >= (b.length ? 1 : MIN_HOST)) {
		buf_puts(&b, b.length ? "; registered beside it: up to "
				      : "host memory registered as pinned: up to ");
		page_size(p, &b, r->host_registered_peak);
	}
	if (b.length)
		page_field(p, "host", b.text, 0);
	buf_release(&b);
}
