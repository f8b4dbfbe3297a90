#include "top/frame_json.h"

#include <stdlib.h>

#include "json/json_util.h"

#define put_MAYBE_SECONDS(v) ((v) < 0 ? json_null() : json_real(v))

static json_t *categories_json(const struct live_device *d)
{
	json_t *j = json_object();

	for (enum category c = 0; c < CATEGORIES && d->tail.is_known; c++)
		set(j, category_key(c), json_integer(d->tail.by_category[c]));
	return j;
}

static json_t *owners_json(const struct live_device *d)
{
	json_t *j = json_object();

	for (enum owner o = 0; o < OWNERS && d->tail.is_known; o++)
		if (d->tail.by_owner[o])
			set(j, owner_key(o), json_integer(d->tail.by_owner[o]));
	return j;
}

static json_t *peak_json(const struct live_device *x)
{
	json_t *j = json_object();

#define DEVICE_PEAK PUT_MEMBER
#include "live/members.def"
	return j;
}

static void set_device(json_t *j, const struct live_device *x)
{
	const struct live_tail *tail = &x->tail;
	int has_trend = tail->trend.steps >= TREND_LEAST;

#define DEVICE PUT_MEMBER
#include "live/members.def"
#define TAIL PUT_MEMBER
#include "live/members.def"
}

static json_t *row_json(const struct process_row *r)
{
	const struct live_process *x = r->process;
	json_t *j = json_object();

#define ROW PUT_MEMBER
#include "live/members.def"
	if (x->why)
		return j;
#define READ_ROW PUT_MEMBER
#include "live/members.def"
	if (r->device)
		set_device(j, r->device);
	return j;
}

void frame_json(const struct folder *f, const struct row_choice *c, struct buf *out)
{
	json_t *j = json_object(), *list = json_array();
	size_t rows_count;
	struct process_row *rows = live_rows(f, c, &rows_count);
	char *line;

	for (size_t i = 0; i < rows_count; i++)
		if (json_array_append_new(list, row_json(&rows[i])) < 0)
			BUG("json");
	set(j, "time_s", json_real(f->time_s));
	set(j, "directory", text(f->path));
	set(j, "ranks", list);
	line = json_dumps(j, JSON_COMPACT);
	if (!line)
		BUG("json");
	buf_puts(out, line);
	buf_puts(out, "\n");
	free(line);
	free(rows);
	json_decref(j);
}
