#define _GNU_SOURCE /* memmem() */
#include "attribution/frames.h"

#include "attribution/activity.h"
#include "util/glob.h"
#include "util/hash.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* The number of a SIGNATURE row among those rows: what __COUNTER__ gave before does not matter. */
enum { FIRST_SIGNATURE = __COUNTER__ + 1 };

static const struct row {
	const char *file, *function;
	uint32_t value; /* enum stack_flag, or enum block_hint << STACK_HINT_SHIFT */
	uint32_t kind;  /* enum frame_kind */
	stack_tags tags;
	uint64_t signature; /* one bit */
} rows[] = {
#define FLAG(flag, file, function) { file, function, STACK_##flag, 0, 0, 0 },
#define HINT(hint, file, function) { file, function, HINT_##hint << STACK_HINT_SHIFT, 0, 0, 0 },
#define TAG(tag, file, function) { file, function, 0, 0, TAGGED(tag), 0 },
#define FRAME(kind, file, function) { file, function, 0, FRAME_##kind, 0, 0 },
#define SIGNATURE(key, value, file, function) \
	{ file, function, 0, 0, 0, UINT64_C(1) << (__COUNTER__ - FIRST_SIGNATURE) },
#include "attribution/frames.def"
#undef FLAG
#undef HINT
#undef TAG
#undef FRAME
#undef SIGNATURE
};

#define ROWS ARRAY_SIZE(rows)

const struct signature signatures[] = {
#define FLAG(flag, file, function)
#define HINT(hint, file, function)
#define TAG(tag, file, function)
#define FRAME(kind, file, function)
#define SIGNATURE(key, value, file, function) { #key, value, file, function },
#include "attribution/frames.def"
#undef FLAG
#undef HINT
#undef TAG
#undef FRAME
#undef SIGNATURE
};
const size_t signature_count = ARRAY_SIZE(signatures);

const char *stack_tag_name(enum stack_tag tag)
{
	static const char *const names[] = {
#define TAG(id, meaning) #id,
#include "attribution/tags.def"
#undef TAG
	};

	return names[tag];
}
static_assert(ARRAY_SIZE(signatures) <= 64, "signatures are bits of one number");

/* The rows whose file pattern a path matches, one bit each. Few files have many frames, so a path
 * is matched once. */
struct file_rows {
	uint64_t rows[(ROWS + 63) / 64];
	int done;
};

/* The rows that one frame matches, together. */
struct frame_info {
	uint32_t flags, kinds;
	enum block_hint hint; /* of the first HINT row */
	stack_tags tags;
	uint64_t signatures;
};

#define STACK_OF_OPTIMIZER (STACK_OPTIMIZER | STACK_CLIPPING | STACK_ZERO_GRAD)

/* The ranks of a job have the same frames: the matches of a frame are kept for the next trace, up
 * to a limit. */
#define MAX_KNOWN 65536
#define MAX_KNOWN_TEXT 1024

struct known_frame {
	UT_hash_handle hh;
	struct frame_info info;
	char text[]; /* the file, 1 if names are bare or 0, the function */
};

static struct known_frame *known;
static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;

/* The frames of one trace. */
struct frame_reader {
	const struct tables *t;
	struct file_rows *files; /* of each string */
	int bare;                /* has_bare_names() */
};

/* Rows of any file are of Python's functions: an operator whose name is alike is called by others
 * than these. */
static int is_of_file(const struct row *r, struct str file)
{
	return str_matches(file, r->file) &&
	       !(str_matches(file, MT_OPERATORS) && !strcmp(r->file, "*"));
}

static const struct file_rows *rows_of_file(const struct frame_reader *r, uint32_t file)
{
	struct file_rows *f = &r->files[file];

	for (size_t i = 0; i < ROWS && !f->done; i++)
		if (is_of_file(&rows[i], tables_string(r->t, file)))
			f->rows[i / 64] |= UINT64_C(1) << i % 64;
	f->done = 1;
	return f;
}

/* Does a function match a row? A bare name ("forward" instead of "Linear.forward") does not show
 * the class of a method: the row has to name the file that defines it, or any class. */
static int is_function_of(struct str function, const struct row *r, int bare)
{
	const char *method = bare ? strrchr(r->function, '.') : NULL;
	const struct str file = { r->file, strlen(r->file) };

	if (str_matches(function, r->function))
		return 1;
	if (!method || !strcmp(method, ".*"))
		return 0;
	return (str_matches(file, "*.py") || !strncmp(r->function, "*.", strlen("*."))) &&
	       str_matches(function, method + strlen("."));
}

/* Python before 3.11, and PyTorch's snapshots, give functions bare names. */
static int has_bare_names(const struct tables *t)
{
	for (size_t i = 1; i < t->frame_count; i++) {
		struct str file = tables_string(t, t->frames[i].file);
		struct str function = tables_string(t, t->frames[i].function);

		if (str_matches(file, "*.py") && memchr(function.at, '.', function.length))
			return 0;
	}
	return 1;
}

static struct frame_info read_frame(const struct frame_reader *reader, const struct mt_frame *f)
{
	const struct file_rows *file = rows_of_file(reader, f->file);
	struct str function = tables_string(reader->t, f->function);
	struct frame_info s = { 0 };

	for (size_t word = 0; word < ARRAY_SIZE(file->rows); word++)
		for (uint64_t left = file->rows[word]; left; left &= left - 1) {
			const struct row *r = &rows[word * 64 + (size_t)__builtin_ctzll(left)];

			if (s.hint && stack_hint(r->value))
				continue;
			if (!is_function_of(function, r, reader->bare))
				continue;
			s.tags |= r->tags;
			s.kinds |= r->kind;
			s.signatures |= r->signature;
			if (stack_hint(r->value))
				s.hint = stack_hint(r->value);
			else
				s.flags |= r->value;
		}
	if (s.kinds & FRAME_WRAPPER)
		s.kinds = (s.kinds & ~(uint32_t)FRAME_FORWARD) | FRAME_LIBRARY;
	return s;
}

/* Like read_frame(), for a frame that may have been read before. The lock is held. */
static struct frame_info find_frame(const struct frame_reader *r, const struct mt_frame *f)
{
	struct str file = tables_string(r->t, f->file), function = tables_string(r->t, f->function);
	size_t length = file.length + 1 + function.length;
	char text[MAX_KNOWN_TEXT];
	struct known_frame *k;

	if (length > sizeof(text))
		return read_frame(r, f);
	memcpy(text, file.at, file.length);
	text[file.length] = (char)r->bare;
	memcpy(text + file.length + 1, function.at, function.length);
	HASH_FIND(hh, known, text, length, k);
	if (!k && HASH_COUNT(known) >= MAX_KNOWN)
		return read_frame(r, f);
	if (!k) {
		k = xcalloc(1, sizeof(*k) + length);
		k->info = read_frame(r, f);
		memcpy(k->text, text, length);
		HASH_ADD_KEYPTR(hh, known, k->text, length, k);
	}
	return k->info;
}

/* The stack enters a closure, which is the job's own code. Optimizer.step() only calls it, so the
 * frames around it show nothing of its activity. LBFGS calls it under no_grad(), and switches the
 * gradients on again. */
static void enter_closure(struct stack_info *info, enum block_hint *hint)
{
	info->tags &= ~TAGGED(ANY_STEP);
	if (!(info->flags & STACK_OPTIMIZER))
		return;
	info->flags &= ~(uint32_t)(STACK_OF_OPTIMIZER | STACK_NO_GRAD | STACK_EVALUATION);
	info->flags |= STACK_CLOSURE;
	info->tags &= ~(TAGGED(OPTIMIZER) | TAGGED(STATE));
	*hint = HINT_NOTHING;
}

/* Joins the frames of a stack, from the outermost to the innermost. */
static struct stack_info read_stack(const struct tables *t, const struct stack *p,
				    const struct frame_info *frames)
{
	struct stack_info info = { .flags = p->frame_count ? STACK_FRAMES : 0 };
	const uint32_t model = STACK_MODULE | STACK_LOSS;
	enum block_hint hint = HINT_NOTHING;
	uint32_t around = 0; /* the hash of the frames outside of the optimizer */

	for (uint32_t i = p->frame_count; i-- > 0;) {
		struct frame_info s = frames[p->frames[i]];

		if (s.kinds & FRAME_CLOSURE)
			enter_closure(&info, &hint);
		info.tags |= s.tags;
		if (info.flags & model)
			s.flags &= ~(uint32_t)(STACK_NO_GRAD | STACK_EVALUATION);
		/* What a constructor calls is a forward pass like any other. */
		if (s.kinds & FRAME_FORWARD)
			info.flags &= ~(uint32_t)STACK_INIT;
		info.flags |= s.flags;
		if (info.flags & model)
			info.model_hash = (info.model_hash ^ p->frames[i]) * 0x9e3779b97f4a7c15u;
		else
			info.caller_hash = (info.caller_hash ^ p->frames[i]) * 0x9e3779b1u;
		if (!(info.flags & STACK_OF_OPTIMIZER))
			around = info.caller_hash;
		/* A constructor hides the hints of the frames around it: its object's blocks are
		 * its own. So does a forward pass, which allocates activations. */
		if (!s.hint && !(s.flags & STACK_INIT) && !(s.kinds & FRAME_FORWARD))
			continue;
		hint = s.hint;
		info.line = t->frames[p->frames[i]].line;
	}
	if (!(info.flags & model) && info.flags & STACK_OF_OPTIMIZER)
		info.caller_hash = around;
	info.flags |= (uint32_t)hint << STACK_HINT_SHIFT;
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

			/* Without any stack in the trace, only threads tell activities apart. */
			if (!(any & STACK_FRAMES) && thread == THREAD_MAIN)
				a = ACTIVITY_MAIN;
			info[i].activity[thread] = (uint8_t)a;
		}
}

/* Is PyTorch's caching allocator in this module? */
static int is_allocator(const struct tables *t, uint32_t module)
{
	const struct meta *renamed = tables_meta(t, MT_META_ALLOCATOR);
	struct str path = tables_module(t, module);

	return str_matches(path, "*libc10_cuda.so*") ||
	       (renamed && path.length && path.length == renamed->value.length &&
		!memcmp(path.at, renamed->value.at, path.length));
}

void frames_attribute(struct tables *t)
{
	struct frame_reader r = {
		.t = t,
		.files = xcalloc(t->string_count, sizeof(*r.files)),
		.bare = has_bare_names(t),
	};
	struct frame_info *frames = xcalloc(t->frame_count, sizeof(*frames));

	t->stack_info = xcalloc(t->stack_count, sizeof(*t->stack_info));
	t->frame_kinds = xcalloc(t->frame_count, sizeof(*t->frame_kinds));
	pthread_mutex_lock(&known_lock);
	for (size_t i = 1; i < t->frame_count; i++) {
		frames[i] = find_frame(&r, &t->frames[i]);
		if (frames[i].tags & TAGGED(EVALUATE))
			frames[i].kinds |= FRAME_EVALUATE;
		t->frame_kinds[i] = (unsigned char)frames[i].kinds;
		t->signatures |= frames[i].signatures;
	}
	pthread_mutex_unlock(&known_lock);
	for (size_t i = 1; i < t->stack_count; i++) {
		t->stack_info[i] = read_stack(t, &t->stacks[i], frames);
		if (is_allocator(t, t->stacks[i].module))
			t->stack_info[i].flags |= STACK_PYTORCH;
	}
	add_activities(t->stack_info, t->stack_count);
	free(r.files);
	free(frames);
}

struct model_folder {
	UT_hash_handle hh;
	struct str name;
	size_t frames;
};

/* The name after `before` in a path, up to the next "/"; empty: there is none. */
static struct str folder_after(struct str path, const char *before, size_t length)
{
	const char *at = memmem(path.at, path.length, before, length), *end;

	if (!at)
		return (struct str){ "", 0 };
	at += length;
	end = memchr(at, '/', (size_t)(path.at + path.length - at));
	return (struct str){ at, end ? (size_t)(end - at) : 0 };
}

struct str signature_folder(const struct tables *t, const struct signature *s)
{
	struct model_folder *all = NULL, *one;
	struct str best = { "", 0 };
	size_t most = 0;

	for (size_t i = 1; i < t->frame_count; i++) {
		/* the pattern is "*BEFORE*" */
		struct str name = folder_after(tables_string(t, t->frames[i].file), s->file + 1,
					       strlen(s->file) - 2);

		if (!name.length)
			continue;
		HASH_FIND(hh, all, name.at, name.length, one);
		if (!one) {
			one = xcalloc(1, sizeof(*one));
			one->name = name;
			HASH_ADD_KEYPTR(hh, all, one->name.at, name.length, one);
		}
		one->frames++;
		if (one->frames > most) {
			most = one->frames;
			best = one->name;
		}
	}
	HASH_RELEASE(all);
	return best;
}
