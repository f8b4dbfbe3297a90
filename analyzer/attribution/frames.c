#include "attribution/frames.h"

#include "attribution/activity.h"
#include "trace/tables.h"

#include <stdlib.h>
#include <string.h>

static const struct rule {
	const char *file, *function;
	uint32_t value; /* a flag, or enum makes << STACK_HINT_SHIFT */
	uint64_t marks;
} rules[] = {
#define DOING(flag, file, function) { file, function, STACK_##flag, 0 },
#define MAKES(what, file, function) { file, function, MAKES_##what << STACK_HINT_SHIFT, 0 },
#define TELLS(mark, file, function) { file, function, 0, MARKED(mark) },
#include "attribution/frames.def"
#undef DOING
#undef MAKES
#undef TELLS
};

#define RULES ARRAY_SIZE(rules)

/* The rules whose file a text is: found once for each, as files are few. */
struct matches {
	uint64_t rules[(RULES + 63) / 64];
	int done;
};

/* What a frame says. */
struct said {
	uint32_t flags;
	enum makes makes;
	uint64_t marks;
};

static const struct matches *matches_of(const struct tables *t, struct matches *files, uint32_t file)
{
	struct matches *m = &files[file];

	for (size_t i = 0; i < RULES && !m->done; i++)
		if (str_matches(tables_string(t, file), rules[i].file))
			m->rules[i / 64] |= UINT64_C(1) << i % 64;
	m->done = 1;
	return m;
}

static struct said frame_says(const struct tables *t, struct matches *files,
			      const struct mt_frame *f)
{
	const struct matches *file = matches_of(t, files, f->file);
	struct str function = tables_string(t, f->function);
	struct said s = { 0 };

	for (size_t word = 0; word < ARRAY_SIZE(file->rules); word++)
		for (uint64_t left = file->rules[word]; left; left &= left - 1) {
			const struct rule *r = &rules[word * 64 + (size_t)__builtin_ctzll(left)];

			if (s.makes && stack_hint(r->value))
				continue;
			if (!str_matches(function, r->function))
				continue;
			s.marks |= r->marks;
			if (stack_hint(r->value))
				s.makes = stack_hint(r->value);
			else
				s.flags |= r->value;
		}
	if (str_matches(function, "*.__init__"))
		s.flags |= STACK_INIT;
	return s;
}

/* The frames of a stack, from the outermost to the innermost. */
static struct stack_info stack_says(const struct tables *t, const struct stack *p,
				    const struct said *frames)
{
	struct stack_info info = { .flags = p->frame_count ? STACK_FRAMES : 0 };
	const uint32_t model = STACK_MODULE | STACK_LOSS;
	enum makes makes = MAKES_NOTHING;

	for (uint32_t i = p->frame_count; i-- > 0;) {
		struct said s = frames[p->frames[i]];

		info.marks |= s.marks;
		if (info.flags & model)
			s.flags &= ~(uint32_t)(STACK_NO_GRAD | STACK_EVALUATION);
		info.flags |= s.flags;
		if (info.flags & model)
			info.inside = (info.inside ^ p->frames[i]) * 0x9e3779b97f4a7c15u;
		else
			info.caller = (info.caller ^ p->frames[i]) * 0x9e3779b1u;
		/* Within another object's making, what is around it does not count. */
		if (!s.makes && !(s.flags & STACK_INIT))
			continue;
		makes = s.makes;
		info.line = t->frames[p->frames[i]].line;
	}
	info.flags |= (uint32_t)makes << STACK_HINT_SHIFT;
	return info;
}

static void add_activities(struct stack_info *info, size_t count)
{
	uint32_t any = 0;

	for (size_t i = 0; i < count; i++)
		any |= info[i].flags;
	for (size_t i = 0; i < count; i++)
		for (unsigned thread = 0; thread < ARRAY_SIZE(info->activity); thread++) {
			enum activity a = activity_of(thread, info[i].flags);

			/* Without any stacks, only threads tell something. */
			if (!(any & STACK_FRAMES) && thread == THREAD_MAIN)
				a = ACTIVITY_MAIN;
			info[i].activity[thread] = (uint8_t)a;
		}
}

/* Is it the module that PyTorch's caching allocator is in? */
static int is_allocator(const struct tables *t, uint32_t module)
{
	const struct meta *renamed = tables_meta(t, MT_META_ALLOCATOR);
	struct str path = tables_module(t, module);

	return str_matches(path, "*libc10_cuda.so*") ||
	       (renamed && path.length && path.length == renamed->value.length &&
		!memcmp(path.at, renamed->value.at, path.length));
}

struct stack_info *stacks_read(const struct tables *t)
{
	struct matches *files = xcalloc(t->string_count, sizeof(*files));
	struct said *frames = xcalloc(t->frame_count, sizeof(*frames));
	struct stack_info *info = xcalloc(t->stack_count, sizeof(*info));

	for (size_t i = 1; i < t->frame_count; i++)
		frames[i] = frame_says(t, files, &t->frames[i]);
	for (size_t i = 1; i < t->stack_count; i++) {
		const struct stack *p = &t->stacks[i];

		info[i] = stack_says(t, p, frames);
		if (is_allocator(t, p->module))
			info[i].flags |= STACK_PYTORCH;
	}
	add_activities(info, t->stack_count);
	free(files);
	free(frames);
	return info;
}
