#include "places.h"

#include "activity.h"
#include "tables.h"

#include <stdlib.h>
#include <string.h>

static const struct rule {
	const char *file, *function;
	uint32_t value; /* a flag, or enum makes << PLACE_MAKES_SHIFT */
} rules[] = {
#define DOING(flag, file, function) { file, function, PLACE_##flag },
#define MAKES(what, file, function) { file, function, MAKES_##what << PLACE_MAKES_SHIFT },
#include "places.def"
#undef DOING
#undef MAKES
};

#define RULES ARRAY_SIZE(rules)

/* Which rules a text satisfies: found once for each text of the table, as file and as function. */
struct matches {
	uint64_t rules[(RULES + 63) / 64];
	int done;
};

/* What a frame says. */
struct said {
	uint32_t flags;
	enum makes makes;
};

struct reader {
	const struct tables *tables;
	struct matches *functions, *files; /* by string */
};

static const struct matches *matches_of(const struct reader *r, uint32_t string, int is_file)
{
	struct matches *m = &(is_file ? r->files : r->functions)[string];
	struct str text = tables_string(r->tables, string);

	for (size_t i = 0; i < RULES && !m->done; i++)
		if (str_matches(text, is_file ? rules[i].file : rules[i].function))
			m->rules[i / 64] |= UINT64_C(1) << i % 64;
	m->done = 1;
	return m;
}

static struct said frame_says(const struct reader *r, const struct mt_frame *f)
{
	const struct matches *function = matches_of(r, f->function, 0),
			     *file = matches_of(r, f->file, 1);
	struct said s = { 0 };

	for (size_t word = 0; word < ARRAY_SIZE(file->rules); word++)
		for (uint64_t both = function->rules[word] & file->rules[word]; both;
		     both &= both - 1) {
			uint32_t value = rules[word * 64 + (size_t)__builtin_ctzll(both)].value;

			if (!place_makes(value))
				s.flags |= value;
			else if (!s.makes)
				s.makes = place_makes(value);
		}
	if (str_matches(tables_string(r->tables, f->function), "*.__init__"))
		s.flags |= PLACE_INIT;
	return s;
}

/* The frames of a place, from the outermost to the innermost. */
static struct place_info place_says(const struct tables *t, const struct place *p,
				    const struct said *frames)
{
	struct place_info info = { .flags = p->frame_count ? PLACE_FRAMES : 0 };
	const uint32_t model = PLACE_MODULE | PLACE_LOSS;
	enum makes makes = MAKES_NOTHING;

	for (uint32_t i = p->frame_count; i-- > 0;) {
		struct said s = frames[p->frames[i]];

		if (info.flags & model)
			s.flags &= ~(uint32_t)PLACE_NO_GRAD;
		info.flags |= s.flags;
		if (!(info.flags & model))
			info.caller = (info.caller ^ p->frames[i]) * 0x9e3779b1u;
		/* Within another object's making, what is around it does not count. */
		if (!s.makes && !(s.flags & PLACE_INIT))
			continue;
		makes = s.makes;
		info.line = t->frames[p->frames[i]].line;
	}
	info.flags |= (uint32_t)makes << PLACE_MAKES_SHIFT;
	return info;
}

static void add_activities(struct place_info *info, size_t count)
{
	uint32_t any = 0;

	for (size_t i = 0; i < count; i++)
		any |= info[i].flags;
	for (size_t i = 0; i < count; i++)
		for (unsigned thread = 0; thread < ARRAY_SIZE(info->activity); thread++) {
			enum activity a = activity_of(thread, info[i].flags);

			/* Without any stacks, only threads tell something. */
			if (!(any & PLACE_FRAMES) && thread == THREAD_MAIN)
				a = ACTIVITY_MAIN;
			info[i].activity[thread] = (uint8_t)a;
		}
}

struct place_info *places_read(const struct tables *t)
{
	struct reader r = {
		.tables = t,
		.functions = xcalloc(t->string_count, sizeof(*r.functions)),
		.files = xcalloc(t->string_count, sizeof(*r.files)),
	};
	struct said *frames = xcalloc(t->frame_count, sizeof(*frames));
	struct place_info *info = xcalloc(t->place_count, sizeof(*info));

	for (size_t i = 1; i < t->frame_count; i++)
		frames[i] = frame_says(&r, &t->frames[i]);
	for (size_t i = 1; i < t->place_count; i++) {
		const struct place *p = &t->places[i];

		info[i] = place_says(t, p, frames);
		if (str_matches(tables_module(t, p->module), "*libc10_cuda.so*"))
			info[i].flags |= PLACE_PYTORCH;
	}
	add_activities(info, t->place_count);
	free(r.functions);
	free(r.files);
	free(frames);
	return info;
}
