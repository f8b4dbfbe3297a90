#define _GNU_SOURCE /* memmem */
#include "import/profile.h"

#include <jansson.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "import/json_scan.h"
#include "util/hash.h"

/* Bytes that are kept of a name. */
#define MOST_NAME 1024u

struct kept_name {
	char *text;
	uint32_t index;
	UT_hash_handle hh;
};

/* The index of a name that is put into a table; a new one has the number of those before it. */
static uint32_t index_of(struct kept_name **all, const char *text, size_t length, int *is_new)
{
	struct kept_name *found;

	HASH_FIND(hh, *all, text, length, found);
	*is_new = !found;
	if (!found) {
		found = xcalloc(1, sizeof(*found));
		found->text = xasprintf("%.*s", (int)length, text);
		found->index = (uint32_t)HASH_COUNT(*all);
		HASH_ADD_KEYPTR(hh, *all, found->text, length, found);
	}
	return found->index;
}

static uint32_t name_of(struct profile *p, json_t *value)
{
	const char *text = json_string_value(value);
	int is_new;
	uint32_t index =
		index_of(&p->names, text ? text : "", text ? strnlen(text, MOST_NAME) : 0, &is_new);

	if (is_new) {
		p->name_texts = grow(p->name_texts, p->name_count, &p->name_room, sizeof(char *));
		p->name_texts[p->name_count++] =
			xasprintf("%.*s", (int)MOST_NAME, text ? text : "");
	}
	return index;
}

static uint32_t thread_of(struct profile *p, json_t *event)
{
	char key[48];
	int is_new, length = snprintf(key, sizeof(key), "%lld",
				      (long long)json_integer_value(json_object_get(event, "tid")));
	uint32_t index = index_of(&p->threads, key, (size_t)length, &is_new);

	p->thread_count += is_new != 0;
	return index;
}

/* Microseconds as nanoseconds; -1: no time. */
static int64_t time_of(json_t *event, const char *key)
{
	double us = json_number_value(json_object_get(event, key));

	return us >= 0 && us < 4e15 ? (int64_t)llround(us * 1000) : -1;
}

/* A number of bytes; `otherwise` if it is none. */
static int64_t bytes_of(json_t *arguments, const char *key, int64_t otherwise)
{
	json_int_t value = json_integer_value(json_object_get(arguments, key));

	return json_is_integer(json_object_get(arguments, key)) && value < BYTES_LIMIT &&
			       value > -BYTES_LIMIT
		       ? value
		       : otherwise;
}

#define CUDA 1 /* c10::DeviceType, also of ROCm */

static void add_memory(struct profile *p, json_t *event, int failed)
{
	json_t *a = json_object_get(event, "args");
	int64_t device = bytes_of(a, "Device Id", -1);
	struct profile_event m = {
		.at_ns = time_of(event, "ts"),
		.address = (uint64_t)json_integer_value(json_object_get(a, "Addr")),
		.bytes = bytes_of(a, "Bytes", 0),
		.allocated = bytes_of(a, "Total Allocated", -1),
		.reserved = bytes_of(a, "Total Reserved", -1),
		.thread = thread_of(p, event),
		.order = (uint32_t)p->event_count,
		.device = (uint8_t)device,
		.failed = failed != 0,
	};

	if (bytes_of(a, "Device Type", -1) != CUDA || device < 0 || device >= MT_MAX_DEVICES ||
	    m.at_ns < 0 || !m.bytes)
		return;
	p->events = grow(p->events, p->event_count, &p->event_room, sizeof(*p->events));
	p->events[p->event_count++] = m;
	if (!p->pid)
		p->pid = (uint32_t)json_integer_value(json_object_get(event, "pid"));
}

/* "file.py:12" is line 12. */
static uint32_t line_of(json_t *event)
{
	const char *from =
		json_string_value(json_object_get(json_object_get(event, "args"), "CallFrom"));
	const char *colon = from ? strrchr(from, ':') : NULL;

	return colon ? (uint32_t)strtoul(colon + 1, NULL, 10) : 0;
}

static void add_range(struct profile *p, json_t *event, enum range_kind kind)
{
	int64_t begin = time_of(event, "ts"), length = time_of(event, "dur");

	if (begin < 0 || length < 0)
		return;
	p->has_python |= kind == RANGE_PYTHON;
	p->ranges = grow(p->ranges, p->range_count, &p->range_room, sizeof(*p->ranges));
	p->ranges[p->range_count++] = (struct profile_range){
		.begin_ns = begin,
		.end_ns = begin + length,
		.thread = thread_of(p, event),
		.name = name_of(p, json_object_get(event, "name")),
		.line = kind == RANGE_PYTHON ? line_of(event) : 0,
		.kind = kind,
	};
}

static void add_event(struct profile *p, json_t *event)
{
	const char *name = json_string_value(json_object_get(event, "name"));
	const char *category = json_string_value(json_object_get(event, "cat"));

	if (!name || !category)
		return;
	if (!strcmp(name, "[memory]") || !strcmp(name, "[OutOfMemory]"))
		add_memory(p, event, name[1] == 'O');
	else if (!strcmp(category, "python_function"))
		add_range(p, event, RANGE_PYTHON);
	else if (!strcmp(category, "user_annotation"))
		add_range(p, event, RANGE_NAMED);
	else if (!strcmp(category, "cpu_op"))
		add_range(p, event,
			  strncmp(name, "autograd::engine", 16) ? RANGE_OPERATOR : RANGE_BACKWARD);
}

/* Most events are kernels and calls of the runtime: they are not parsed. */
static int is_of_interest(const struct buf *value)
{
	static const char *const words[] = { "emory]", "python_function", "user_annotation",
					     "cpu_op" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (memmem(value->text, value->length, words[i], strlen(words[i])))
			return 1;
	return 0;
}

static json_t *parse(struct json_scan *s)
{
	json_error_t why;
	json_t *value = json_loadb(s->value.text, s->value.length, JSON_DECODE_ANY, &why);

	if (!value)
		err_set(s->e, "not a profiler's trace: %s before byte %llu", why.text,
			(unsigned long long)(s->before + s->at));
	return value;
}

static int read_events(struct profile *p, struct json_scan *s)
{
	if (!json_scan_take(s, '['))
		return err_set(s->e, "not a profiler's trace: traceEvents is no list");
	if (json_scan_take(s, ']'))
		return 0;
	do {
		json_t *event;

		if (json_scan_value(s) < 0)
			return -1;
		if (!is_of_interest(&s->value))
			continue;
		event = parse(s);
		if (!event)
			return -1;
		add_event(p, event);
		json_decref(event);
	} while (json_scan_take(s, ','));
	return json_scan_take(s, ']') ? 0
				      : err_set(s->e, "not a profiler's trace: the text ends "
						      "within traceEvents");
}

static void take_devices(struct profile *p, json_t *devices)
{
	size_t i;
	json_t *device;

	json_array_foreach(devices, i, device)
	{
		int64_t id = bytes_of(device, "id", -1);
		const char *name = json_string_value(json_object_get(device, "name"));

		if (id < 0 || id >= MT_MAX_DEVICES || p->gpu[id])
			continue;
		p->gpu[id] = xasprintf("%.200s", name ? name : "");
		p->memory[id] = bytes_of(device, "totalGlobalMem", 0);
	}
}

/* A value of the outermost object. */
static void take_value(struct profile *p, const char *key, json_t *value)
{
	if (!strcmp(key, "deviceProperties"))
		take_devices(p, value);
	else if (!strcmp(key, "baseTimeNanoseconds"))
		p->base_ns = json_integer_value(value);
	else if (!strcmp(key, "host_name") && json_is_string(value) && !p->host)
		p->host = xasprintf("%.100s", json_string_value(value));
	if (!strcmp(key, "distributedInfo")) {
		int64_t rank = bytes_of(value, "rank", -1),
			size = bytes_of(value, "world_size", -1);

		p->rank = rank >= 0 && rank < INT32_MAX ? (int)rank : -1;
		p->world_size = size > 0 && size < INT32_MAX ? (int)size : -1;
	}
}

static int read_member(struct profile *p, struct json_scan *s, int *has_events)
{
	json_t *key, *value;
	int status = 0;

	if (json_scan_value(s) < 0 || !(key = parse(s)))
		return -1;
	if (!json_is_string(key) || !json_scan_take(s, ':')) {
		status = err_set(s->e, "not a profiler's trace: a key is missing");
	} else if (!strcmp(json_string_value(key), "traceEvents") && !*has_events) {
		*has_events = 1;
		status = read_events(p, s);
	} else if (json_scan_value(s) < 0 || !(value = parse(s))) {
		status = -1;
	} else {
		take_value(p, json_string_value(key), value);
		json_decref(value);
	}
	json_decref(key);
	return status;
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
