#include "import/profile.h"

#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "import/json_scan.h"
#include "import/json_walk.h"
#include "util/hash.h"

/* Bytes that are kept of a name. */
#define MOST_NAME 1024u

/* Memory does not grow with the file behind these: compressed, hundreds of events take a byte. A
 * profile of 8 million events has more than a GB of text. */
#define MOST_EVENTS (UINT64_C(8) << 20)               /* ranges and events of memory */
#define MOST_NAMES (UINT64_C(256) << 20)              /* bytes of different names */
#define COST_OF_NAME (sizeof(struct kept_name) + 64u) /* and what the allocator adds */

struct kept_name {
	char *text;
	uint32_t index;
	UT_hash_handle hh;
};

/* The index of a name that is put into a table; a new one has the number of those before it. */
static uint32_t index_of(struct profile *p, struct kept_name **all, struct str text, int *is_new)
{
	struct kept_name *found;

	HASH_FIND(hh, *all, text.at, text.length, found);
	*is_new = !found;
	if (!found) {
		found = xcalloc(1, sizeof(*found));
		found->text = xcalloc(text.length + 1, 1);
		memcpy(found->text, text.at, text.length);
		found->index = (uint32_t)HASH_COUNT(*all);
		HASH_ADD_KEYPTR(hh, *all, found->text, text.length, found);
		p->name_bytes += COST_OF_NAME + text.length;
	}
	return found->index;
}

static char *text_of(struct str value)
{
	struct buf text = { 0 };

	json_walk_add_text(&text, value, MOST_NAME);
	return buf_take(&text);
}

/* Names are compared as they are written in the file. */
static uint32_t name_of(struct profile *p, struct str value)
{
	struct str written = { value.at, (size_t)smaller_of((int64_t)value.length, MOST_NAME) };
	int is_new;
	uint32_t index = index_of(p, &p->names, written, &is_new);

	if (is_new) {
		p->name_texts = grow(p->name_texts, p->name_count, &p->name_room, sizeof(char *));
		p->name_texts[p->name_count] = text_of(value);
		p->name_bytes += strlen(p->name_texts[p->name_count++]);
	}
	return index;
}

static int64_t integer_of(struct str value)
{
	int64_t n;

	return json_walk_integer(value, &n) ? n : 0;
}

static uint32_t thread_of(struct profile *p, struct str value)
{
	int64_t thread = integer_of(value);
	int is_new;
	uint32_t index = index_of(p, &p->threads,
				  (struct str){ (const char *)&thread, sizeof(thread) }, &is_new);

	p->thread_count += is_new != 0;
	return index;
}

#define MOST_MICROSECONDS INT64_C(4000000000000000)

/* A number with an exponent, or a negative one. */
static int64_t time_of_real(struct str value)
{
	char text[64] = "";
	double us;

	memcpy(text, value.at, (size_t)smaller_of((int64_t)value.length, sizeof(text) - 1));
	us = strtod(text, NULL);
	return us >= 0 && us < (double)MOST_MICROSECONDS ? (int64_t)llround(us * 1000) : -1;
}

/* Microseconds as nanoseconds, to the last digit: a double has no nanoseconds since 1970. -1: no
 * time. */
static int64_t time_of(struct str value)
{
	size_t i = 0;
	int64_t us = 0, part = 0, digit = 1000; /* tenths of a nanosecond */

	if (!value.length || (!isdigit((unsigned char)*value.at) && *value.at != '-'))
		return 0;
	for (; i < value.length && isdigit((unsigned char)value.at[i]); i++) {
		us = us * 10 + (value.at[i] - '0');
		if (us >= MOST_MICROSECONDS)
			return -1;
	}
	if (i && i < value.length && value.at[i] == '.')
		for (i++; i < value.length && isdigit((unsigned char)value.at[i]); i++) {
			part += (value.at[i] - '0') * digit;
			digit /= 10;
		}
	return i == value.length ? us * 1000 + (part + 5) / 10 : time_of_real(value);
}

/* A number of bytes; `otherwise` if it is none. */
static int64_t bytes_of(struct str value, int64_t otherwise)
{
	int64_t n;

	return json_walk_integer(value, &n) && n < BYTES_LIMIT && n > -BYTES_LIMIT ? n : otherwise;
}

/* The fields of an event that are read. */
enum event_key { NAME, CATEGORY, PROCESS, THREAD, TIME, DURATION, ARGUMENTS, EVENT_KEYS };

static const char *const event_keys[] = { "name", "cat", "pid", "tid", "ts", "dur", "args" };

static int has_room(const struct profile *p, struct err *e)
{
	if (p->event_count + p->range_count >= MOST_EVENTS)
		return err_set(e,
			       "the profile has more than %llu ranges and events of memory: "
			       "profile fewer steps",
			       (unsigned long long)MOST_EVENTS);
	if (p->name_bytes > MOST_NAMES)
		return err_set(e, "the profile has more than %llu MiB of different names",
			       (unsigned long long)(MOST_NAMES >> 20));
	return 0;
}

#define CUDA 1 /* c10::DeviceType, also of ROCm */

static int add_memory(struct profile *p, const struct str *of, int failed, struct err *e)
{
	enum { TYPE, DEVICE, ADDRESS, BYTES, ALLOCATED, RESERVED, KEYS };
	static const char *const keys[] = { "Device Type", "Device Id",       "Addr",
					    "Bytes",       "Total Allocated", "Total Reserved" };
	struct str a[KEYS];
	struct profile_event m = { .at_ns = time_of(of[TIME]), .failed = failed != 0 };
	int64_t device;

	if (json_walk_members(of[ARGUMENTS], keys, a, KEYS) < 0)
		return -1;
	device = bytes_of(a[DEVICE], -1);
	m.bytes = bytes_of(a[BYTES], 0);
	if (bytes_of(a[TYPE], -1) != CUDA || device < 0 || device >= MT_MAX_DEVICES ||
	    m.at_ns < 0 || !m.bytes)
		return 0;
	if (has_room(p, e) < 0)
		return -1;
	m.address = (uint64_t)integer_of(a[ADDRESS]);
	m.allocated = bytes_of(a[ALLOCATED], -1);
	m.reserved = bytes_of(a[RESERVED], -1);
	m.thread = thread_of(p, of[THREAD]);
	m.order = (uint32_t)p->event_count;
	m.device = (uint8_t)device;
	p->events = grow(p->events, p->event_count, &p->event_room, sizeof(*p->events));
	p->events[p->event_count++] = m;
	if (!p->pid)
		p->pid = (uint32_t)integer_of(of[PROCESS]);
	return 0;
}

/* "file.py:12" is line 12. */
static uint32_t line_of(struct str arguments)
{
	static const char *const keys[] = { "CallFrom" };
	struct str from;
	size_t i;
	uint32_t line = 0;

	if (json_walk_members(arguments, keys, &from, 1) < 0 || !from.length)
		return 0;
	for (i = from.length; i > 0 && from.at[i - 1] != ':'; i--)
		;
	for (; i && i < from.length && isdigit((unsigned char)from.at[i]); i++)
		line = line * 10 + (uint32_t)(from.at[i] - '0');
	return line;
}

static int add_range(struct profile *p, const struct str *of, enum range_kind kind, struct err *e)
{
	int64_t begin = time_of(of[TIME]), length = time_of(of[DURATION]);

	if (begin < 0 || length < 0)
		return 0;
	if (has_room(p, e) < 0)
		return -1;
	p->has_python |= kind == RANGE_PYTHON;
	p->ranges = grow(p->ranges, p->range_count, &p->range_room, sizeof(*p->ranges));
	p->ranges[p->range_count++] = (struct profile_range){
		.begin_ns = begin,
		.end_ns = begin + length,
		.thread = thread_of(p, of[THREAD]),
		.name = name_of(p, of[NAME]),
		.line = kind == RANGE_PYTHON ? line_of(of[ARGUMENTS]) : 0,
		.kind = kind,
	};
	return 0;
}

/* Most events are kernels and calls of the runtime: only their category is read. -1 without a
 * message: the text is damaged. */
static int add_event(struct profile *p, struct str text, struct err *e)
{
	static const char engine[] = "\"autograd::engine";
	struct str of[EVENT_KEYS];
	int is_backward;

	if (json_walk_members(text, event_keys, of, EVENT_KEYS) < 0)
		return -1;
	if (!of[NAME].length || *of[NAME].at != '"' || !of[CATEGORY].length)
		return 0;
	if (json_walk_is_text(of[NAME], "[memory]"))
		return add_memory(p, of, 0, e);
	if (json_walk_is_text(of[NAME], "[OutOfMemory]"))
		return add_memory(p, of, 1, e);
	if (json_walk_is_text(of[CATEGORY], "python_function"))
		return add_range(p, of, RANGE_PYTHON, e);
	if (json_walk_is_text(of[CATEGORY], "user_annotation"))
		return add_range(p, of, RANGE_NAMED, e);
	if (!json_walk_is_text(of[CATEGORY], "cpu_op"))
		return 0;
	is_backward = of[NAME].length > sizeof(engine) &&
		      !memcmp(of[NAME].at, engine, sizeof(engine) - 1);
	return add_range(p, of, is_backward ? RANGE_BACKWARD : RANGE_OPERATOR, e);
}

static struct str value_of(const struct json_scan *s)
{
	return (struct str){ s->value.text, s->value.length };
}

static int refuse(const struct json_scan *s)
{
	return err_set(s->e, "not a profiler's trace: damaged before byte %llu",
		       (unsigned long long)s->before + s->at);
}

static int read_events(struct profile *p, struct json_scan *s)
{
	if (!json_scan_take(s, '['))
		return err_set(s->e, "not a profiler's trace: traceEvents is no list");
	if (json_scan_take(s, ']'))
		return 0;
	do {
		if (json_scan_value(s) < 0)
			return -1;
		if (add_event(p, value_of(s), s->e) < 0)
			return s->e->text[0] ? -1 : refuse(s);
	} while (json_scan_take(s, ','));
	return json_scan_take(s, ']') ? 0
				      : err_set(s->e, "not a profiler's trace: the text ends "
						      "within traceEvents");
}

static int take_devices(struct profile *p, struct str devices)
{
	enum { ID, NAME_OF_GPU, MEMORY, KEYS };
	static const char *const keys[] = { "id", "name", "totalGlobalMem" };
	struct json_walk w;
	struct str device, of[KEYS];
	int status;

	json_walk_begin(&w, devices);
	while ((status = json_walk_next(&w, NULL, &device)) > 0) {
		int64_t id;

		if (json_walk_members(device, keys, of, KEYS) < 0)
			return -1;
		id = bytes_of(of[ID], -1);
		if (id < 0 || id >= MT_MAX_DEVICES || p->gpu[id])
			continue;
		p->gpu[id] = text_of(of[NAME_OF_GPU]);
		p->memory[id] = bytes_of(of[MEMORY], 0);
	}
	return status;
}

static int take_ranks(struct profile *p, struct str text)
{
	static const char *const keys[] = { "rank", "world_size" };
	struct str of[ARRAY_SIZE(keys)];
	int64_t rank, size;

	if (json_walk_members(text, keys, of, ARRAY_SIZE(keys)) < 0)
		return -1;
	rank = bytes_of(of[0], -1);
	size = bytes_of(of[1], -1);
	p->rank = rank >= 0 && rank < INT32_MAX ? (int)rank : -1;
	p->world_size = size > 0 && size < INT32_MAX ? (int)size : -1;
	return 0;
}

static int take_base(struct profile *p, struct str value)
{
	p->base_ns = integer_of(value);
	return 0;
}

static int take_host(struct profile *p, struct str value)
{
	if (!p->host && value.length && *value.at == '"')
		p->host = text_of(value);
	return 0;
}

/* The values of the outermost object that are read; others may be of any size. */
static const struct member {
	const char *key;
	int (*take)(struct profile *p, struct str value);
} members[] = {
	{ "deviceProperties", take_devices },
	{ "distributedInfo", take_ranks },
	{ "baseTimeNanoseconds", take_base },
	{ "host_name", take_host },
};

static const struct member *member_of(struct str key)
{
	for (size_t i = 0; i < ARRAY_SIZE(members); i++)
		if (json_walk_is_text(key, members[i].key))
			return &members[i];
	return NULL;
}

static int read_member(struct profile *p, struct json_scan *s, int *has_events)
{
	const struct member *m;
	int is_events;

	if (json_scan_value(s) < 0)
		return -1;
	m = member_of(value_of(s));
	is_events = json_walk_is_text(value_of(s), "traceEvents") && !*has_events;
	if (*s->value.text != '"' || !json_scan_take(s, ':'))
		return err_set(s->e, "not a profiler's trace: a key is missing");
	if (is_events) {
		*has_events = 1;
		return read_events(p, s);
	}
	if (!m)
		return json_scan_skip(s);
	if (json_scan_value(s) < 0)
		return -1;
	return m->take(p, value_of(s)) < 0 ? refuse(s) : 0;
}

static int read_all(struct profile *p, struct json_scan *s)
{
	int has_events = 0;

	if (!json_scan_take(s, '{'))
		return err_set(s->e, "neither a trace of memtrace nor of a profiler");
	while (json_scan_peek(s) != '}') {
		if (read_member(p, s, &has_events) < 0)
			return -1;
		if (!json_scan_take(s, ','))
			break;
	}
	if (!json_scan_take(s, '}'))
		return err_set(s->e, "not a profiler's trace: the text ends early");
	if (!has_events)
		return err_set(s->e, "a JSON file without traceEvents is no profiler's trace");
	if (!p->event_count)
		return err_set(s->e, "the profiler's trace has no memory events of a GPU: "
				     "torch.profiler.profile(profile_memory=True) records them");
	return 0;
}

int profile_read(struct profile *p, const void *data, size_t size, struct err *e)
{
	struct json_scan s;
	int status;

	*p = (struct profile){ .rank = -1, .world_size = -1 };
	status = json_scan_begin(&s, data, size, e);
	if (!status)
		status = read_all(p, &s);
	json_scan_release(&s);
	return status;
}

static void release_names(struct kept_name **all)
{
	for (struct kept_name *n = *all; n; n = n->hh.next)
		free(n->text);
	HASH_RELEASE(*all);
}

void profile_release(struct profile *p)
{
	release_names(&p->names);
	release_names(&p->threads);
	for (size_t i = 0; i < p->name_count; i++)
		free(p->name_texts[i]);
	for (int i = 0; i < MT_MAX_DEVICES; i++)
		free(p->gpu[i]);
	free(p->name_texts);
	free(p->events);
	free(p->ranges);
	free(p->host);
	*p = (struct profile){ 0 };
}
