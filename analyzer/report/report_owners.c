#include "report/report_owners.h"

#include "trace/event.h"
#include "util/order.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bytes *curve_of(const struct timeline *t, enum owner o, bytes *peak)
{
	bytes *curve = xcalloc(t->used, sizeof(*curve));

	for (size_t i = 0; i < t->used; i++) {
		curve[i] = timeline_peak(t, i, o);
		*peak = curve[i] > *peak ? curve[i] : *peak;
	}
	return curve;
}

void report_add_owners(struct rank *r, const struct device *d, bytes beyond)
{
	r->owners = xcalloc(OWNERS, sizeof(*r->owners));
	r->owner_points = d->owner_timeline ? d->owner_timeline->used : 0;
	for (enum owner o = 0; o < OWNERS; o++) {
		struct owner_row row = {
			.key = owner_key(o),
			.title = owner_title(o),
			.is_always_listed = owner_is_always_listed(o),
			.at_peak =
				d->owners_at_device_peak[o] + (o == OWNER_UNEXPLAINED ? beyond : 0),
		};

		row.peak = row.at_peak > 0 ? row.at_peak : 0;
		if (d->owner_timeline)
			row.curve = curve_of(d->owner_timeline, o, &row.peak);
		if (row.peak || row.at_peak || row.is_always_listed)
			r->owners[r->owner_count++] = row;
		else
			free(row.curve);
	}
}

/* The driver reported the free memory: the part of the rest that no call explains is unexplained.
 */
void report_add_failure_owners(struct oom *o, const struct failure *f, bytes total)
{
	bytes known = 0;

	memcpy(o->by_owner, f->owners, sizeof(o->by_owner));
	if (total == UNKNOWN_BYTES || o->free == UNKNOWN_BYTES)
		return;
	for (enum owner k = 0; k < OWNERS; k++)
		if (k != OWNER_UNEXPLAINED)
			known = bytes_add(known, o->by_owner[k]);
	o->by_owner[OWNER_UNEXPLAINED] = total - o->free - known;
}

bytes report_pinned_peak(const struct host *host, int is_imported)
{
	return is_imported && !host->pinned_peak ? UNKNOWN_BYTES : host->pinned_peak;
}

void report_add_beside(struct rank *r, const struct device *d, const struct host *host)
{
	r->imported_peak = r->imported ? UNKNOWN_BYTES : d->imported_peak;
	r->managed_peak = r->imported ? UNKNOWN_BYTES : d->managed_peak;
	r->host_pinned_peak = report_pinned_peak(host, r->imported);
	r->host_registered_peak = r->imported ? UNKNOWN_BYTES : host->registered_peak;
}

/* Parses a number and moves `at` behind it; -1: there is none, or it is too large. */
static int64_t take_number(struct str *at)
{
	int64_t n = at->length && isdigit((unsigned char)*at->at) ? 0 : -1;

	for (; at->length && isdigit((unsigned char)*at->at); at->at++, at->length--)
		n = n < 0 || n > INT64_MAX / 10 - 1 ? -1 : n * 10 + (*at->at - '0');
	return n;
}

/* The value of NAME= in "size=8 rank=3 parent=17", or -1. */
static int64_t word_of(struct str text, const char *name)
{
	size_t n = strlen(name);

	for (size_t i = 0; i + n < text.length; i++) {
		struct str value = { text.at + i + n, text.length - i - n };

		if ((!i || text.at[i - 1] == ' ') && !memcmp(text.at + i, name, n))
			return take_number(&value);
	}
	return -1;
}

static int small(int64_t n)
{
	return n < 0 || n > INT32_MAX ? NO_RANK : (int)n;
}

static int by_id(const void *key, const void *row)
{
	int64_t x = *(const int64_t *)key, y = ((const struct comm_row *)row)->id;

	return ORDER(x, y);
}

/* The communicator of a meta entry whose key is PREFIX and a sequence number, or NULL. */
static struct comm_row *comm_of(const struct rank *r, size_t known, struct str key,
				const char *prefix)
{
	const size_t skip = strlen(prefix);
	int64_t id;

	if (key.length <= skip || memcmp(key.at, prefix, skip))
		return NULL;
	key = (struct str){ key.at + skip, key.length - skip };
	id = take_number(&key);
	if (id < 0 || key.length)
		return NULL;
	return bsearch(&id, r->comms, known, sizeof(*r->comms), by_id);
}

/* Reads the meta entries of communicators: comm:SEQUENCE = "size=8 rank=3 parent=SEQUENCE|-",
 * comm-used:SEQUENCE = BYTES. */
static void add_words(struct rank *r, size_t known, const struct tables *t)
{
	for (size_t i = 0; i < t->meta_count; i++) {
		struct str text = t->meta[i].value;
		struct comm_row *row = comm_of(r, known, t->meta[i].key, MT_META_COMM);

		if (row) {
			row->size = small(word_of(text, "size="));
			row->rank = small(word_of(text, "rank="));
			row->parent = word_of(text, "parent=");
		}
		row = comm_of(r, known, t->meta[i].key, MT_META_COMM_USED);
		if (row) {
			int64_t used = take_number(&text);
			if (used < 0 || used > RECORD_MAX_BYTES)
				continue;
			row->bytes = bytes_add(row->bytes, used - row->used);
			row->used = used;
		}
	}
}

/* Communicators without an id, which were created in a gap, come last. */
void report_add_communicators(struct rank *r, const struct device *d, const struct tables *t)
{
	const struct communicators *c = &d->comms;
	size_t known = 0;

	r->comms = xcalloc(c->count, sizeof(*r->comms));
	r->comm_count = c->count;
	r->comms_seen = c->seen;
	for (int has_id = 1; has_id >= 0; has_id--)
		for (size_t i = 0, at = has_id ? 0 : known; i < c->count; i++) {
			const struct communicator *x = &c->list[i];

			if ((x->sequence <= INT64_MAX) != has_id)
				continue;
			known += (size_t)has_id;
			r->comms[at++] = (struct comm_row){
				.id = has_id ? (int64_t)x->sequence : -1,
				.parent = -1,
				.size = NO_RANK,
				.rank = NO_RANK,
				.bytes = x->bytes,
				.created_s = (double)x->created_ns / 1e9,
				.destroyed_s = (double)x->destroyed_ns / 1e9,
				.destroyed = x->destroyed_ns != UINT64_MAX,
			};
		}
	add_words(r, known, t);
}
