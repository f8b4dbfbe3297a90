#define _GNU_SOURCE
#include "pystack.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "resolve.h"
#include "tables.h"
#include "text.h"

#define MAX_FRAMES 128
#define OWNED_BY_C_STACK \
	3 /* _PyInterpreterFrame.owner: an entry frame without Python code, 3.12 on */

struct layout {
	int minor, thread_frame, cframe_current, frame_code, frame_instr, frame_previous,
		frame_owner;
	int code_line, code_file, code_name, code_qualname, code_bytecode, ascii, compact, utf8,
		utf8_length;
};

static const struct layout layouts[] = {
#define PYTHON(...) { __VA_ARGS__ },
#include "pylayout.def"
#undef PYTHON
};

enum { UNTRIED, UNVERIFIED, ON, OFF };

static struct {
	atomic_int state;
	const struct layout *layout;
	int (*initialized)(void);            /* Py_IsInitialized */
	void *(*this_thread)(void);          /* PyGILState_GetThisThreadState */
	int (*line)(void *code, int offset); /* PyCode_Addr2Line: reads only */
	const void *code_type, *unicode_type;
} py;

#define FIELD(type, object, offset) \
	(*(type const *)(const void *)((const char *)(object) + (offset)))

void pystack_forget(void)
{
	atomic_store(&py.state, UNTRIED);
}

static int off(const char *why)
{
	tables_meta(MT_META_NOTE, "python stacks", why, strlen(why));
	atomic_store(&py.state, OFF);
	return 0;
}

/* Finds the interpreter, which may be the program itself and so before us, and the row for its
 * version. A process without Python has no stacks and needs no note. */
static void find_python(void)
{
	const char *(*version)(void);
	const char *v;
	int minor = 0;

	*(void **)&version = resolve_anywhere("Py_GetVersion");
	*(void **)&py.initialized = resolve_anywhere("Py_IsInitialized");
	*(void **)&py.this_thread = resolve_anywhere("PyGILState_GetThisThreadState");
	*(void **)&py.line = resolve_anywhere("PyCode_Addr2Line");
	py.code_type = resolve_anywhere("PyCode_Type");
	py.unicode_type = resolve_anywhere("PyUnicode_Type");
	if (!version || !py.initialized || !py.this_thread || !py.line || !py.code_type ||
	    !py.unicode_type) {
		atomic_store(&py.state, OFF);
		return;
	}
	v = version();
	tables_meta(MT_META_VERSION, "python", v, strcspn(v, " "));
	if (v[0] == '3' && v[1] == '.')
		for (const char *p = v + 2; *p >= '0' && *p <= '9' && minor < 1000; p++)
			minor = minor * 10 + (*p - '0');
	for (size_t i = 0; i < sizeof(layouts) / sizeof(layouts[0]); i++)
		if (layouts[i].minor == minor)
			py.layout = &layouts[i];
	if (!py.layout || py.layout->minor != minor)
		off("this version of Python is not known: no Python stacks");
	else
		atomic_store(&py.state, UNVERIFIED);
}

static const void *first_frame(const void *thread)
{
	const struct layout *l = py.layout;
	const void *f = FIELD(const void *, thread, l->thread_frame);

	if (f && l->cframe_current >= 0)
		f = FIELD(const void *, f, l->cframe_current);
	return f;
}

/* Reads without risk: a wrong address is an error, not a fault. */
static int peek(const void *object, int offset, void *out, size_t n)
{
	struct iovec to = { out, n }, from = { (char *)(uintptr_t)object + offset, n };

	return process_vm_readv(getpid(), &to, 1, &from, 1, 0) == (ssize_t)n ? 0 : -1;
}

static int is_a(const void *object, const void *type)
{
	const void *t;

	return peek(object,
		    offsetof(
			    struct {
				    long refs;
				    void *type;
			    },
			    type),
		    &t, sizeof(t)) == 0 &&
	       t == type;
}

/* Is this a frame as the layout says? 1 yes, 0 no, -1 one of the C stack's, which says nothing. */
static int check_frame(const void *frame)
{
	const struct layout *l = py.layout;
	const void *code, *name, *file;
	uint64_t instr = 0;
	uint8_t owner;

	if (l->frame_owner >= 0 && (peek(frame, l->frame_owner, &owner, 1) != 0 || owner > 4))
		return 0;
	if (l->frame_owner >= 0 && owner == OWNED_BY_C_STACK)
		return -1;
	if (peek(frame, l->frame_code, &code, sizeof(code)) != 0 || !is_a(code, py.code_type) ||
	    peek(code, l->code_file, &file, sizeof(file)) != 0 || !is_a(file, py.unicode_type) ||
	    peek(code, l->code_name, &name, sizeof(name)) != 0 || !is_a(name, py.unicode_type))
		return 0;
	if (l->code_bytecode < 0)
		return peek(frame, l->frame_instr, &instr, sizeof(int)) == 0 && instr < 1u << 24;
	return peek(frame, l->frame_instr, &instr, sizeof(instr)) == 0 &&
	       instr - ((uintptr_t)code + (unsigned)l->code_bytecode) + 2 < 1u << 24;
}

/* Follows the whole chain with safe reads once. Every frame must check, and at least one must be
 * Python's. */
static int verify(const void *thread)
{
	const struct layout *l = py.layout;
	const void *f;
	int good = 0, depth = 0;

	if (peek(thread, l->thread_frame, &f, sizeof(f)) != 0 ||
	    (f && l->cframe_current >= 0 && peek(f, l->cframe_current, &f, sizeof(f)) != 0))
		return off("the interpreter's layout could not be verified: no Python stacks");
	for (; f && depth < MAX_FRAMES; depth++) {
		int is = check_frame(f);
		if (is == 0 || peek(f, l->frame_previous, &f, sizeof(f)) != 0)
			return off(
				"the interpreter's layout could not be verified: no Python stacks");
		good += is > 0;
	}
	if (!good)
		return 0; /* no Python frame on this thread yet: try on the next event */
	atomic_store(&py.state, ON);
	return 1;
}

/* A str's characters as UTF-8. */
static void text_unicode(struct text *t, const void *u)
{
	const struct layout *l = py.layout;
	uint64_t n = FIELD(uint64_t, u, 16);
	uint32_t state = FIELD(uint32_t, u, 32);
	unsigned width = state >> 2 & 7;
	const char *data = (const char *)u + l->compact;

	if (!(state >> 5 & 1))
		return; /* not compact: none that the compiler makes */
	if (state >> 6 & 1) {
		text_bytes(t, (const char *)u + l->ascii, n);
		return;
	}
	for (uint64_t i = 0; i < n; i++) {
		uint32_t c = width == 1   ? ((const uint8_t *)data)[i]
			     : width == 2 ? ((const uint16_t *)(const void *)data)[i]
					  : ((const uint32_t *)(const void *)data)[i];
		char b[4];
		size_t k = 0;
		if (c < 0x80) {
			b[k++] = (char)c;
		} else if (c < 0x800) {
			b[k++] = (char)(0xc0 | c >> 6);
		} else if (c < 0x10000) {
			b[k++] = (char)(0xe0 | c >> 12);
			b[k++] = (char)(0x80 | (c >> 6 & 0x3f));
		} else {
			b[k++] = (char)(0xf0 | c >> 18);
			b[k++] = (char)(0x80 | (c >> 12 & 0x3f));
			b[k++] = (char)(0x80 | (c >> 6 & 0x3f));
		}
		if (c >= 0x80)
			b[k++] = (char)(0x80 | (c & 0x3f));
		text_bytes(t, b, k);
	}
}

static uint32_t frame_id(const void *code, uint64_t instr)
{
	const struct layout *l = py.layout;
	struct text name, file;
	int offset, line;

	if (FIELD(const void *, code, 8) != py.code_type)
		return 0;
	name.n = file.n = 0;
	text_unicode(&name, FIELD(const void *, code,
				  l->code_qualname >= 0 ? l->code_qualname : l->code_name));
	text_unicode(&file, FIELD(const void *, code, l->code_file));
	offset = l->code_bytecode < 0 ? (int)instr * 2
				      : (int)(instr - (uintptr_t)code - (unsigned)l->code_bytecode);
	line = py.line((void *)(uintptr_t)code, offset);
	if (line < 0)
		line = FIELD(int, code, l->code_line);
	return tables_frame(tables_string(name.s, name.n), tables_string(file.s, file.n),
			    (uint32_t)line);
}

static uint64_t instruction(const void *frame)
{
	const struct layout *l = py.layout;

	return l->code_bytecode < 0 ? FIELD(uint32_t, frame, l->frame_instr)
				    : FIELD(uint64_t, frame, l->frame_instr);
}

/* 3.12 puts a frame of a code object of its own between C and Python: nobody's code. */
static int is_entry(const void *frame)
{
	const int owner = py.layout->frame_owner;

	return owner >= 0 && FIELD(uint8_t, frame, owner) == OWNED_BY_C_STACK;
}

static uint32_t add_place(uint64_t hash, uint32_t module, const void *frame)
{
	const struct layout *l = py.layout;
	uint32_t ids[MAX_FRAMES], n = 0, id;

	for (; frame && n < MAX_FRAMES; frame = FIELD(const void *, frame, l->frame_previous)) {
		if (is_entry(frame))
			continue;
		id = frame_id(FIELD(const void *, frame, l->frame_code), instruction(frame));
		if (id)
			ids[n++] = id;
	}
	return tables_add_place(hash, module, ids, n);
}

static uint64_t start_hash(uint32_t module)
{
	return (module + 1) * 0x9e3779b97f4a7c15u;
}

uint32_t pystack_module_place(uint32_t module)
{
	uint64_t hash = start_hash(module);
	uint32_t place = tables_find_place(hash);

	return place ? place : tables_add_place(hash, module, NULL, 0);
}

/* NULL from the moment the interpreter finalizes: threads' states go then, while C++ threads may
 * still free blocks. */
static const void *this_thread(void)
{
	return py.initialized() ? py.this_thread() : NULL;
}

/* The calling thread's state where its stack can be read, else NULL. */
static const void *readable_thread(void)
{
	const void *thread;

	switch (atomic_load_explicit(&py.state, memory_order_acquire)) {
	case ON:
		return this_thread();
	case UNTRIED:
		find_python();
		return readable_thread();
	case UNVERIFIED:
		thread = this_thread();
		return thread && verify(thread) ? thread : NULL;
	default:
		return NULL;
	}
}

/*
 * The hash of a stack is a sum of products (code + key) * (instruction + key), each frame with keys
 * of its own: no product waits for another, so that following the chain of frames is all it costs.
 * The keys are powers, not multiples: with multiples, stacks that differ in where the same frames
 * stand collide.
 */
static uint64_t hash_stack(const void *frame, uint32_t module)
{
	const struct layout *l = py.layout;
	const int code = l->frame_code, instr = l->frame_instr, previous = l->frame_previous;
	const uint64_t mask = l->code_bytecode < 0 ? UINT32_MAX : UINT64_MAX;
	uint64_t hash = start_hash(module), key = 0x9e3779b97f4a7c15u;

	for (unsigned n = 0; frame && n < MAX_FRAMES; n++) {
		hash += (FIELD(uint64_t, frame, code) + key) *
			((FIELD(uint64_t, frame, instr) & mask) + (key << 32 | key >> 32));
		key *= 0xd1342543de82ef95u;
		frame = FIELD(const void *, frame, previous);
	}
	hash ^= hash >> 32;
	return hash ? hash : 1;
}

uint32_t pystack_place(uint32_t module)
{
	const void *thread = readable_thread(), *frame;
	uint64_t hash;
	uint32_t place;

	if (!thread)
		return pystack_module_place(module);
	frame = first_frame(thread);
	hash = hash_stack(frame, module);
	place = tables_find_place(hash);
	return place ? place : add_place(hash, module, frame);
}
