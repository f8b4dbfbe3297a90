#include "trace/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "import/profile_trace.h"
#include "import/snapshot.h"
#include "trace/converted.h"

/* Reads what exists of [offset, offset + length). Returns its length. */
static size_t source_read(const struct source *s, uint64_t offset, void *to, size_t length)
{
	size_t done = 0;

	if (offset >= s->size)
		return 0;
	if (length > s->size - offset)
		length = (size_t)(s->size - offset);
	if (s->fd < 0) {
		memcpy(to, s->memory + offset, length);
		return length;
	}
	while (done < length) {
		ssize_t n = pread(s->fd, (char *)to + done, length - done, (off_t)(offset + done));

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		done += (size_t)n;
	}
	return done;
}

static int check_header(struct trace *t, struct err *e)
{
	struct mt_header *h = &t->header;
	const char *path = t->path;
	size_t got = source_read(&t->source, 0, h, sizeof(*h));

	if (!got || !h->magic[0])
		return err_set(
			e,
			"%s holds nothing yet: its writer has not come to write, or was stopped before it did",
			path);
	if (got < sizeof(h->magic) || memcmp(h->magic, MT_MAGIC, sizeof(h->magic)))
		return err_set(e, "%s is not a memtrace trace", path);
	if (got < 16)
		return err_set(e, "%s ends inside its header", path);
	if (h->byte_order != MT_BYTE_ORDER)
		return err_set(e, "%s was written on a machine with another byte order", path);
	if (h->version != MT_VERSION)
		return err_set(
			e,
			"this memtrace reads version %u, %s has version %u: use the memtrace that wrote it",
			MT_VERSION, path, h->version);
	if (got < sizeof(*h) || t->source.size < MT_HEADER_BYTES)
		return err_set(e, "%s ends inside its header", path);
	if (h->header_bytes != MT_HEADER_BYTES || h->record_bytes != sizeof(struct mt_record))
		return err_set(e, "%s is damaged: its header says %u bytes, records of %u", path,
			       h->header_bytes, h->record_bytes);
	h->host[sizeof(h->host) - 1] = '\0';
	h->job_id[sizeof(h->job_id) - 1] = '\0';
	h->run_id[sizeof(h->run_id) - 1] = '\0';
	if (h->segments > MT_MAX_SEGMENTS)
		h->segments = MT_MAX_SEGMENTS;
	if (h->tables > MT_MAX_TABLES)
		h->tables = MT_MAX_TABLES;
	return 0;
}

/* A lock is visible on its own host only. */
static enum lock_state ask_lock(const struct trace *t)
{
	struct flock lock = { .l_type = F_WRLCK, .l_whence = SEEK_SET };
	char host[sizeof(t->header.host)] = "";

	gethostname(host, sizeof(host) - 1);
	if (strcmp(host, t->header.host) || fcntl(t->source.fd, F_GETLK, &lock) < 0)
		return LOCK_UNKNOWN;
	return lock.l_type == F_UNLCK ? LOCK_FREE : LOCK_HELD;
}

/* Has the job's process ended? Its state in /proc is the word behind its name, which may hold any
 * character. */
static int job_has_ended(const struct trace *t)
{
	char path[64], stat[512];
	const char *after;
	FILE *f;
	size_t n;

	if (kill((pid_t)t->header.pid, 0) != 0 && errno == ESRCH)
		return 1;
	snprintf(path, sizeof(path), "/proc/%u/stat", t->header.pid);
	f = fopen(path, "re");
	if (!f)
		return 0;
	n = fread(stat, 1, sizeof(stat) - 1, f);
	fclose(f);
	stat[n] = '\0';
	after = strrchr(stat, ')');
	return after && after[1] == ' ' && after[2] == 'Z';
}

/* When a job has just ended, the recorder's writer still has records to write. That takes some
 * milliseconds, unless the file system stalls. All files of a command together wait no longer than
 * this. */
#define WRITER_MS 3000
static void wait_for_the_writer(struct trace *t)
{
	static _Atomic int waited_ms;
	const struct timespec pause = { .tv_nsec = 5000000 };

	while (t->lock == LOCK_HELD && t->header.state != MT_STATE_ENDED && job_has_ended(t) &&
	       atomic_fetch_add(&waited_ms, 5) < WRITER_MS) {
		nanosleep(&pause, NULL);
		t->lock = ask_lock(t);
	}
}

#define MOST_OF_OTHERS (UINT64_C(8) << 30)

/* A memory snapshot of PyTorch, or its profiler's trace, becomes a trace in memory. */
static struct converted *convert_file(struct trace *t, int is_pickle, const struct stat *of,
				      struct err *e)
{
	unsigned char *file, *image;
	struct err why = { 0 };
	uint64_t size = 0;
	size_t got;

	if (t->source.size > MOST_OF_OTHERS) {
		err_set(e, "%s: a file of more than 8 GiB is not read", t->path);
		return NULL;
	}
	file = xcalloc(1, t->source.size);
	got = source_read(&t->source, 0, file, t->source.size);
	image = is_pickle ? snapshot_to_trace(file, got, &size, &why)
			  : profile_to_trace(file, got, &size, &why);
	free(file);
	if (image)
		return converted_add(of, image, size,
				     is_pickle ? "a memory snapshot of PyTorch"
					       : "a trace of PyTorch's profiler");
	err_set(e, "%s: %s", t->path, why.text);
	return NULL;
}

/* `of`: the file; NULL: memory. */
static int convert(struct trace *t, const struct stat *of, struct err *e)
{
	unsigned char first[2] = { 0 };
	size_t got = source_read(&t->source, 0, first, sizeof(first));
	int is_pickle = got == sizeof(first) && snapshot_is_pickle(first);

	if (got < sizeof(first) || (!is_pickle && !profile_is_likely(first)))
		return 0;
	t->converted = of ? converted_find(of) : NULL;
	if (!t->converted)
		t->converted = convert_file(t, is_pickle, of, e);
	if (!t->converted)
		return -1;
	if (t->source.fd >= 0)
		close(t->source.fd);
	t->source = (struct source){ .fd = -1,
				     .memory = t->converted->bytes,
				     .size = t->converted->size };
	return 0;
}

static int read_header(struct trace *t, struct err *e)
{
	struct stat st;

	if (fstat(t->source.fd, &st) < 0)
		return err_set(e, "cannot read %s: %s", t->path, strerror(errno));
	if (!S_ISREG(st.st_mode))
		return err_set(e, "%s is not a file", t->path);
	t->source.size = (uint64_t)st.st_size;
	return convert(t, &st, e) < 0 ? -1 : check_header(t, e);
}

int trace_open_header(struct trace *t, const char *path, struct err *e)
{
	*t = (struct trace){ .path = xstrdup(path), .source.fd = -1 };
	t->source.fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	if (t->source.fd < 0)
		return err_set(e, "cannot open %s: %s", path, strerror(errno));
	if (read_header(t, e) < 0)
		return -1;
	t->lock = t->converted ? LOCK_UNKNOWN : ask_lock(t);
	if (t->lock != LOCK_HELD)
		return 0;
	wait_for_the_writer(t);
	return t->lock == LOCK_HELD ? 0 : read_header(t, e);
}

/* If two regions overlap, the file is damaged, and to read both could take for ever. Only the first
 * one is used. */
struct region {
	uint64_t offset, end;
	size_t segment;
};

static int by_offset(const void *a, const void *b)
{
	const struct region *x = a, *y = b;

	return x->offset < y->offset ? -1 : x->offset > y->offset;
}

static int by_sequence(const void *a, const void *b)
{
	const struct segment *x = a, *y = b;

	return x->first_sequence < y->first_sequence ? -1 : x->first_sequence > y->first_sequence;
}

/* Clips a run of records to the file. Returns -1 if its start is not inside. */
static int clip(struct trace *t, struct extent *x, uint64_t offset, uint64_t records)
{
	uint64_t fit;

	*x = (struct extent){ 0 };
	if (!records)
		return 0;
	if (offset < MT_HEADER_BYTES)
		return -1;
	fit = offset < t->source.size ? (t->source.size - offset) / sizeof(struct mt_record) : 0;
	if (fit < records)
		t->truncated = 1;
	*x = (struct extent){ .offset = offset, .records = records < fit ? records : fit };
	return 0;
}

static uint64_t lower_of(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

static void drop_overlaps(struct trace *t)
{
	struct region *all = xcalloc(t->segment_count * 2, sizeof(*all));
	char *bad = xcalloc(t->segment_count, 1);
	size_t n = 0, kept = 0;
	uint64_t end = 0;

	for (size_t i = 0; i < t->segment_count; i++) {
		const struct segment *s = &t->segments[i];
		const struct extent both[] = { s->events, s->keyframe };

		for (size_t k = 0; k < ARRAY_SIZE(both); k++)
			if (both[k].records)
				all[n++] = (struct region){
					both[k].offset,
					both[k].offset + both[k].records * sizeof(struct mt_record),
					i
				};
	}
	qsort(all, n, sizeof(*all), by_offset);
	for (size_t i = 0; i < n; i++) {
		if (all[i].offset < end)
			bad[all[i].segment] = 1;
		end = all[i].end > end ? all[i].end : end;
	}
	for (size_t i = 0; i < t->segment_count; i++) {
		if (bad[i])
			t->skipped_segments++;
		else
			t->segments[kept++] = t->segments[i];
	}
	t->segment_count = kept;
	free(all);
	free(bad);
}

static void find_gaps(struct trace *t)
{
	uint64_t next = 0, declared = 0;

	for (size_t i = 0; i < t->segment_count; i++) {
		struct segment *s = &t->segments[i];

		s->gap = s->first_sequence > next ? s->first_sequence - next : 0;
		s->given_up = s->first_sequence > declared ? s->first_sequence - declared : 0;
		next = s->first_sequence + s->events.records;
		declared = s->first_sequence + s->declared;
	}
}

static void load_segments(struct trace *t)
{
	const struct mt_header *h = &t->header;

	t->segments = xcalloc(h->segments, sizeof(*t->segments));
	for (uint64_t i = 0; i < h->segments; i++) {
		const struct mt_segment *from = &h->segment[i];
		struct segment *s = &t->segments[t->segment_count];

		/* The first bound keeps sequence numbers from wrapping; no job records 2^62 events.
		 */
		if (from->first_sequence == MT_UNKNOWN || !from->capacity)
			continue;
		if (from->first_sequence > UINT64_MAX / 4 ||
		    clip(t, &s->events, from->offset, lower_of(from->used, from->capacity)) < 0) {
			t->skipped_segments++;
			continue;
		}
		s->first_sequence = from->first_sequence;
		s->declared = lower_of(lower_of(from->used, from->capacity), UINT64_MAX / 4);
		s->has_keyframe = from->has_keyframe == 1 &&
				  !clip(t, &s->keyframe, from->keyframe_offset,
					lower_of(from->keyframe_records, from->keyframe_capacity));
		if (!s->has_keyframe)
			s->keyframe = (struct extent){ 0 };
		t->segment_count++;
	}
	drop_overlaps(t);
	qsort(t->segments, t->segment_count, sizeof(*t->segments), by_sequence);
	find_gaps(t);
}

static void load_tables(struct trace *t)
{
	uint64_t budget =
		t->source.size; /* overlapping tables cost no more memory than the file has bytes */

	for (uint64_t i = 0; i < t->header.tables; i++) {
		const struct mt_table *from = &t->header.table[i];
		uint64_t used = lower_of(from->used, from->capacity), got;
		unsigned char *region;

		if (!used || from->offset < MT_HEADER_BYTES || from->offset >= t->source.size) {
			t->truncated |= used != 0;
			continue;
		}
		if (used > t->source.size - from->offset) {
			used = t->source.size - from->offset;
			t->truncated = 1;
		}
		if (used > budget)
			break;
		budget -= used;
		region = xcalloc(used, 1);
		got = source_read(&t->source, from->offset, region, used);
		t->truncated |= got < used;
		tables_add_region(&t->tables, region, got);
	}
	tables_finish(&t->tables);
}

int trace_load(struct trace *t, struct err *e)
{
	(void)e;
	load_tables(t);
	load_segments(t);
	return 0;
}

int trace_open_memory(struct trace *t, const void *memory, uint64_t size, struct err *e)
{
	*t = (struct trace){ .path = xstrdup("memory"),
			     .source = { .fd = -1, .memory = memory, .size = size } };
	if (convert(t, NULL, e) < 0 || check_header(t, e) < 0)
		return -1;
	return trace_load(t, e);
}

void trace_release(struct trace *t)
{
	tables_release(&t->tables);
	free(t->segments);
	free(t->path);
	converted_release(t->converted);
	if (t->source.fd >= 0)
		close(t->source.fd);
	*t = (struct trace){ .source.fd = -1 };
}

size_t trace_read(const struct trace *t, const struct extent *x, uint64_t first,
		  struct mt_record *to, size_t most)
{
	if (first >= x->records)
		return 0;
	if (most > x->records - first)
		most = (size_t)(x->records - first);
	return source_read(&t->source, x->offset + first * sizeof(*to), to, most * sizeof(*to)) /
	       sizeof(*to);
}

int trace_changed(const struct trace *t)
{
	struct mt_header *now;
	int changed = 0;

	if (t->lock != LOCK_HELD)
		return 0;
	now = xcalloc(1, sizeof(*now));
	if (source_read(&t->source, 0, now, sizeof(*now)) == sizeof(*now))
		for (uint64_t i = 0; i < t->header.segments; i++)
			if (t->header.segment[i].first_sequence != MT_UNKNOWN)
				changed |= t->header.segment[i].first_sequence !=
					   now->segment[i].first_sequence;
	free(now);
	return changed;
}
