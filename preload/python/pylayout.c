#include "python/pylayout.h"

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "base/peek.h"

#define COOKIE "xdebugpy" /* the first 8 bytes of _PyRuntime */

/* The fields of a PyObject and a str before 3.13; some are the same in later versions. */
#define TYPE 8
#define STR_LENGTH 16
#define STR_STATE 32
#define STR_KIND 2
#define STR_KIND_FREE_THREADED 8 /* from 3.14 on: `interned` has its own byte */
#define VERSION_BEHIND_LINE \
	24 /* co_version comes after co_firstlineno, with five int between them */

static const struct {
	int minor;
	struct layout layout;
} before_13[] = {
#define PYTHON(m, interpreter, thread, cframe, code, instr, unit, prev, owner, line, file, name, \
	       lines, version, bytecode, ascii, compact)                                         \
	{ m,                                                                                     \
	  { .thread_interpreter = interpreter,                                                   \
	    .thread_frame = thread,                                                              \
	    .cframe_current = cframe,                                                            \
	    .frame_code = code,                                                                  \
	    .frame_instr = instr,                                                                \
	    .frame_previous = prev,                                                              \
	    .frame_owner = owner,                                                                \
	    .instr_unit = unit,                                                                  \
	    .frame_copy = -1,                                                                    \
	    .code_copies = -1,                                                                   \
	    .code_line = line,                                                                   \
	    .code_file = file,                                                                   \
	    .code_name = name,                                                                   \
	    .code_lines = lines,                                                                 \
	    .code_version = version,                                                             \
	    .code_bytecode = bytecode,                                                           \
	    .type = TYPE,                                                                        \
	    .str_length = STR_LENGTH,                                                            \
	    .str_state = STR_STATE,                                                              \
	    .str_ascii = ascii,                                                                  \
	    .str_compact = compact,                                                              \
	    .str_kind = STR_KIND } },
#include "python/pylayout.def"
#undef PYTHON
};

/* Positions in the table of the interpreter. */
struct positions {
	int minor, thread_interpreter, thread_frame;
	int frame_code, frame_instr, frame_previous, frame_owner, frame_copy;
	int code_line, code_file, code_name, code_bytecode, code_copies, type, str_state,
		str_length, str_ascii;
};

static const struct positions since_13[] = {
#define OFFSETS(...) { __VA_ARGS__ },
#include "python/pylayout.def"
#undef OFFSETS
};

/* The offset at position AT. 0 if it is larger than any object; the check then refuses it. */
static int word(const uint64_t *table, int at)
{
	return table[at] < 4096 ? (int)table[at] : 0;
}

static void read_offsets(struct layout *l, const struct positions *p, const uint64_t *table)
{
	const int free_threaded = table[2] != 0;

	*l = (struct layout){
		.thread_interpreter = word(table, p->thread_interpreter),
		.thread_frame = word(table, p->thread_frame),
		.cframe_current = -1,
		.frame_code = word(table, p->frame_code),
		.frame_instr = word(table, p->frame_instr),
		.frame_previous = word(table, p->frame_previous),
		.frame_owner = word(table, p->frame_owner),
		.frame_copy = -1,
		.code_copies = -1,
		.code_line = word(table, p->code_line),
		.code_file = word(table, p->code_file),
		.code_name = word(table, p->code_name),
		.code_lines = -1,
		.code_bytecode = word(table, p->code_bytecode),
		.type = word(table, p->type),
		.str_length = word(table, p->str_length),
		.str_state = word(table, p->str_state),
		.str_ascii = word(table, p->str_ascii),
		.str_kind = STR_KIND,
	};
	l->code_version = l->code_line + VERSION_BEHIND_LINE;
	l->str_compact = l->str_ascii + 16;
	if (free_threaded && p->frame_copy >= 0) {
		l->frame_copy = word(table, p->frame_copy);
		l->code_copies = word(table, p->code_copies);
		l->str_kind = STR_KIND_FREE_THREADED;
	}
}

int pylayout_find(struct layout *l, int minor, const void *runtime)
{
	const struct positions *p = NULL;

	for (size_t i = 0; i < sizeof(before_13) / sizeof(before_13[0]); i++)
		if (before_13[i].minor == minor) {
			*l = before_13[i].layout;
			return 0;
		}
	for (size_t i = 0; i < sizeof(since_13) / sizeof(since_13[0]); i++)
		if (since_13[i].minor <= minor)
			p = &since_13[i];
	if (!p || !runtime || memcmp(runtime, COOKIE, 8) != 0)
		return -1;
	read_offsets(l, p, runtime);
	return 0;
}

static int is_a(const struct layout *l, const void *object, const void *type)
{
	const void *t;

	return peek(object, l->type, &t, sizeof(t)) == 0 && t == type;
}

static int is_text(const struct layout *l, const void *object, const void *type)
{
	uint32_t state;

	return is_a(l, object, type) && peek(object, l->str_state, &state, sizeof(state)) == 0 &&
	       (state >> l->str_kind & 7) <= 4 && (state >> l->str_kind & 7) != 3;
}

/* Finds the bytecode of CODE that FRAME runs. Returns 0 if it cannot be read. */
static int bytes_of(const struct layout *l, const void *frame, const void *code, uintptr_t *bytes)
{
	const void *copies;
	int32_t copy = 0;

	*bytes = (uintptr_t)code + (unsigned)l->code_bytecode;
	if (l->frame_copy < 0)
		return 1;
	if (peek(frame, l->frame_copy, &copy, sizeof(copy)) != 0 || copy < 0 || copy > 1 << 20 ||
	    peek(code, l->code_copies, &copies, sizeof(copies)) != 0)
		return 0;
	return !copy || peek(copies, 8 + 8 * copy, bytes, sizeof(*bytes)) == 0;
}

/* Does FRAME fit the layout? 1: yes; 0: no; -1: a frame without Python code, which decides nothing.
 */
static int check_frame(const struct layout *l, const void *frame, const void *code_type,
		       const void *unicode_type)
{
	const void *code, *name, *file;
	uint64_t instr = 0;
	uintptr_t bytes;
	uint8_t owner = 0;

	if (l->frame_owner >= 0 && (peek(frame, l->frame_owner, &owner, 1) != 0 || owner > 8))
		return 0;
	if (owner >= PYLAYOUT_NOT_CODE)
		return -1;
	if (peek(frame, l->frame_code, &code, sizeof(code)) != 0)
		return 0;
	code = (const void *)((uintptr_t)code & ~(uintptr_t)7);
	if (!is_a(l, code, code_type) || peek(code, l->code_file, &file, sizeof(file)) != 0 ||
	    !is_text(l, file, unicode_type) || peek(code, l->code_name, &name, sizeof(name)) != 0 ||
	    !is_text(l, name, unicode_type))
		return 0;
	if (l->instr_unit)
		return peek(frame, l->frame_instr, &instr, sizeof(int)) == 0 && instr < 1u << 24;
	return peek(frame, l->frame_instr, &instr, sizeof(instr)) == 0 &&
	       bytes_of(l, frame, code, &bytes) && instr - bytes + 2 < 1u << 24;
}

int pylayout_check(const struct layout *l, const void *thread, const void *code_type,
		   const void *unicode_type)
{
	const void *f = NULL, *known;
	int good = 0;

	if (peek(&f, 0, &known, sizeof(known)) != 0)
		return -2;
	if (peek(thread, l->thread_frame, &f, sizeof(f)) != 0 ||
	    (f && l->cframe_current >= 0 && peek(f, l->cframe_current, &f, sizeof(f)) != 0))
		return -1;
	for (int depth = 0; f && depth < PYLAYOUT_MAX_FRAMES; depth++) {
		int is = check_frame(l, f, code_type, unicode_type);
		if (is == 0 || peek(f, l->frame_previous, &f, sizeof(f)) != 0)
			return -1;
		good += is > 0;
	}
	return good > 0;
}
