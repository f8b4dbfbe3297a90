#define _GNU_SOURCE
#include "python/pystack.h"

#include <stdatomic.h>
#include <stddef.h>
#include <string.h>

#include "python/pylayout.h"
#include "python/pystring.h"
#include "record/last_event.h"
#include "record/recorder.h"
#include "symbols/resolve.h"
#include "record/tables.h"

#define MAX_FRAMES PYLAYOUT_MAX_FRAMES
#define PLACE_FRAMES 12 /* a line of the job's with the modules that it calls */
#define WITHIN_FRAMES 256
#define MODE_FRAMES 8   /* a function, and modes (TorchFunctionMode) that its call goes through */
#define LOOK_AGAIN 1024 /* events without a Python until new libraries are searched for one */

enum { UNTRIED, ABSENT, UNVERIFIED, ON, OFF };

static struct {
	atomic_int state;
	struct layout layout;
	int (*initialized)(void);            /* Py_IsInitialized */
	void *(*this_thread)(void);          /* PyGILState_GetThisThreadState */
	int (*line)(void *code, int offset); /* PyCode_Addr2Line: reads only */
	int64_t (*hash)(void *object);       /* PyObject_Hash: a str or bytes keeps its hash */
	void *(*main)(void);                 /* PyInterpreterState_Main */
	void *(*of_thread)(void *);          /* PyThreadState_GetInterpreter */
	int64_t (*number)(void *);           /* PyInterpreterState_GetID: reads only */
	const void *main_interpreter;        /* it lives as long as the process */
	const void *code_type, *unicode_type, *bytes_type;
	atomic_uint missed;        /* events without a Python */
	unsigned long long loaded; /* number of libraries at the last search */
} py;

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

/* ---- the interpreter ---- */

#define FIRST_KEY 0x9e3779b97f4a7c15u
#define NEXT_KEY 0xd1342543de82ef95u
#define OTHER_KEY 0xda942042e4dd58b5u

/* Two keys for each frame. They are powers, not multiples: with multiples, stacks with the same
 * frames at other positions collide. */
static uint64_t keys[MAX_FRAMES + 1][2];

static void make_keys(void)
{
	uint64_t key = FIRST_KEY;

	for (unsigned n = 0; n <= MAX_FRAMES; n++, key *= NEXT_KEY) {
		keys[n][0] = key;
		keys[n][1] = key << 32 | key >> 32;
	}
}

/* Finds the interpreter and the layout of its version. It may be the program itself, which comes
 * before this library. A process without Python has no stacks and needs no note; Python may be
 * loaded later. */
static void find_python(void)
{
	const char *(*version)(void);
	const char *v;
	int minor = 0;

	make_keys();
	py.loaded = resolve_loaded();
	*(void **)&version = resolve_anywhere("Py_GetVersion");
	*(void **)&py.initialized = resolve_anywhere("Py_IsInitialized");
	*(void **)&py.this_thread = resolve_anywhere("PyGILState_GetThisThreadState");
	*(void **)&py.line = resolve_anywhere("PyCode_Addr2Line");
	*(void **)&py.hash = resolve_anywhere("PyObject_Hash");
	*(void **)&py.main = resolve_anywhere("PyInterpreterState_Main");
	*(void **)&py.of_thread = resolve_anywhere("PyThreadState_GetInterpreter");
	*(void **)&py.number = resolve_anywhere("PyInterpreterState_GetID");
	py.code_type = resolve_anywhere("PyCode_Type");
	py.unicode_type = resolve_anywhere("PyUnicode_Type");
	py.bytes_type = resolve_anywhere("PyBytes_Type");
	if (!version || !py.initialized || !py.this_thread || !py.line || !py.hash || !py.main ||
	    !py.number || !py.code_type || !py.unicode_type || !py.bytes_type) {
		atomic_store(&py.state, ABSENT);
		return;
	}
	v = version();
	tables_meta(MT_META_VERSION, "python", v, strcspn(v, " "));
	if (v[0] == '3' && v[1] == '.')
		for (const char *p = v + 2; *p >= '0' && *p <= '9' && minor < 1000; p++)
			minor = minor * 10 + (*p - '0');
	if (pylayout_find(&py.layout, minor, resolve_anywhere("_PyRuntime")) != 0)
		off("this version of Python is not known: no Python stacks");
	else
		atomic_store(&py.state, UNVERIFIED);
}

static int verify(const void *thread)
{
	int fits = pylayout_check(&py.layout, thread, py.code_type, py.unicode_type);

	if (fits == 1 &&
	    (!py.of_thread || FIELD(const void *, thread, py.layout.thread_interpreter) !=
				      py.of_thread((void *)(uintptr_t)thread)))
		fits = -1;
	switch (fits) {
	case 1:
		py.main_interpreter = py.main();
		__atomic_fetch_or(&recorder_header()->flags, MT_FLAG_STACKS, __ATOMIC_RELAXED);
		atomic_store(&py.state, ON);
		return 1;
	case 0:
		return 0; /* no Python frame on this thread yet: try on the next event */
	case -2:
		return off("the interpreter's layout could not be checked here: no Python stacks");
	default:
		return off("the interpreter's layout could not be verified: no Python stacks");
	}
}

/* Is it time to look for a Python that was loaded after the first event? */
static int is_time_to_look(void)
{
	unsigned missed = atomic_load_explicit(&py.missed, memory_order_relaxed) + 1;

	atomic_store_explicit(&py.missed, missed, memory_order_relaxed);
	return missed % LOOK_AGAIN == 0 && resolve_loaded() != py.loaded;
}

/*
 * Returns the calling thread's state if its stack can be read, else NULL. It is NULL once the
 * interpreter finalizes: thread states are then freed, while C++ threads may still free blocks.
 * Py_IsInitialized() is called last: the state existed when it answered. Before the first stack it
 * is called first, because the slot of the state may not exist yet.
 */
static const void *readable_thread(void)
{
	const void *thread;

	switch (atomic_load_explicit(&py.state, memory_order_acquire)) {
	case ON:
		thread = py.this_thread();
		return thread && py.initialized() ? thread : NULL;
	case UNVERIFIED:
		thread = py.initialized() ? py.this_thread() : NULL;
		return thread && verify(thread) ? thread : NULL;
	case ABSENT:
		if (!is_time_to_look())
			return NULL;
		/* fall through */
	case UNTRIED:
		find_python();
		return atomic_load(&py.state) == UNVERIFIED ? readable_thread() : NULL;
	default:
		return NULL;
	}
}

static const void *first_frame(const void *thread)
{
	const struct layout *l = &py.layout;
	const void *f = FIELD(const void *, thread, l->thread_frame);

	if (f && l->cframe_current >= 0)
		f = FIELD(const void *, f, l->cframe_current);
	return f;
}

/* ---- one frame ---- */

/* The code of a frame without code. Since 3.12 there is such a frame between C and Python. */
static const uint64_t no_code[512];

/* CODE and OWNER are offsets in the frame. OWNER -1: all frames have code. */
static inline const void *code_at(const void *frame, int code, int owner)
{
	const void *c = (const void *)(FIELD(uintptr_t, frame, code) & ~(uintptr_t)7);

	return owner >= 0 && FIELD(uint8_t, frame, owner) >= PYLAYOUT_NOT_CODE ? no_code : c;
}

static const void *code_of(const void *frame)
{
	return code_at(frame, py.layout.frame_code, py.layout.frame_owner);
}

static uint64_t instruction(const void *frame)
{
	const struct layout *l = &py.layout;

	return l->instr_unit ? FIELD(uint32_t, frame, l->frame_instr)
			     : FIELD(uint64_t, frame, l->frame_instr);
}

/* The hash of the content that a str or bytes keeps; -1 before the first call for it. */
static inline uint64_t content(const void *object)
{
	return FIELD(uint64_t, object, 24);
}

/*
 * The interpreter of THREAD, as a number. Each interpreter numbers its code objects itself; after
 * its end another one may have the same address, and the same numbers. 0: the main one.
 */
static inline uint64_t interpreter_of(const void *thread)
{
	const void *i = FIELD(const void *, thread, py.layout.thread_interpreter);

	return __builtin_expect(i == py.main_interpreter, 1)
		       ? 0
		       : (uint64_t)py.number((void *)(uintptr_t)i) * OTHER_KEY;
}

/*
 * The identity of CODE, different from that of another code object at the same address before or
 * later. Since 3.12 each code object has its own number. Before, the identity is the content of its
 * line, name, file and line table: these objects also get the same addresses again.
 */
static inline uint64_t number(const void *code, int version)
{
	return FIELD(uint32_t, code, version);
}

static inline uint64_t contents(const void *code, int line, int name, int file, int lines)
{
	return FIELD(uint32_t, code, line) + content(FIELD(const void *, code, name)) +
	       content(FIELD(const void *, code, file)) * 3 +
	       content(FIELD(const void *, code, lines)) * 5;
}

static uint64_t identity(const void *code)
{
	const struct layout *l = &py.layout;

	return l->code_version >= 0
		       ? number(code, l->code_version)
		       : contents(code, l->code_line, l->code_name, l->code_file, l->code_lines);
}

/* The bytecode of CODE that FRAME runs: a free-threaded build has a copy for each thread. */
static uintptr_t bytes_of(const void *frame, const void *code)
{
	const struct layout *l = &py.layout;
	int32_t copy = l->frame_copy >= 0 ? FIELD(int32_t, frame, l->frame_copy) : 0;

	return copy ? FIELD(uintptr_t, FIELD(const void *, code, l->code_copies), 8 + 8 * copy)
		    : (uintptr_t)code + (unsigned)l->code_bytecode;
}

static uint32_t new_frame_id(const void *frame, const void *code)
{
	const struct layout *l = &py.layout;
	uint64_t instr = instruction(frame);
	uint32_t name, file;
	int offset, line;

	name = pystring_id(&py.layout, FIELD(const void *, code, l->code_name));
	file = name ? pystring_id(&py.layout, FIELD(const void *, code, l->code_file)) : 0;
	offset = l->instr_unit ? (int)instr * l->instr_unit : (int)(instr - bytes_of(frame, code));
	line = py.line((void *)(uintptr_t)code, offset);
	if (line < 0)
		line = FIELD(int, code, l->code_line);
	return file ? tables_frame(name, file, (uint32_t)line) : 0;
}

/* ---- the stack ---- */

static uint64_t start_hash(uint32_t module)
{
	return (module + 1) * FIRST_KEY;
}

static inline uint64_t finish_hash(uint64_t hash)
{
	hash ^= hash >> 32;
	return hash ? hash : 1;
}

/*
 * The hash of a stack is a sum of products (identity + key) * (instruction + key), each frame has
 * its own keys. No product waits for another, so the cost is that of reading the chain of frames.
 * Each of the two identities of code has its own loop.
 */
static uint64_t hash_numbered(const void *frame, uint64_t hash)
{
	const int code = py.layout.frame_code, owner = py.layout.frame_owner;
	const int instr = py.layout.frame_instr, version = py.layout.code_version;
	const int previous = py.layout.frame_previous;
	unsigned n = 0;

	for (; frame && n < MAX_FRAMES; n++) {
		hash += (number(code_at(frame, code, owner), version) + keys[n][0]) *
			(FIELD(uint64_t, frame, instr) + keys[n][1]);
		frame = FIELD(const void *, frame, previous);
	}
	return frame ? hash + keys[n][0] : hash; /* there are deeper frames */
}

static uint64_t hash_contents(const void *frame, uint64_t hash)
{
	const int code = py.layout.frame_code, instr = py.layout.frame_instr;
	const int line = py.layout.code_line, name = py.layout.code_name;
	const int file = py.layout.code_file, lines = py.layout.code_lines;
	const int previous = py.layout.frame_previous;
	const uint64_t mask = py.layout.instr_unit ? UINT32_MAX : UINT64_MAX;
	unsigned n = 0;

	for (; frame && n < MAX_FRAMES; n++) {
		const void *c = FIELD(const void *, frame, code);
		hash += (contents(c, line, name, file, lines) + keys[n][0]) *
			((FIELD(uint64_t, frame, instr) & mask) + keys[n][1]);
		frame = FIELD(const void *, frame, previous);
	}
	return frame ? hash + keys[n][0] : hash;
}

static uint64_t hash_stack(const void *frame, uint32_t module, uint64_t interpreter)
{
	uint64_t hash = start_hash(module) + interpreter;

	return finish_hash(py.layout.code_version >= 0 ? hash_numbered(frame, hash)
						       : hash_contents(frame, hash));
}

/* Makes OBJECT keep the hash of its content. Returns 1 if it did not keep one before. */
static int settle(const void *object, const void *type)
{
	return FIELD(const void *, object, py.layout.type) == type &&
	       content(object) == UINT64_MAX && py.hash((void *)(uintptr_t)object) != -1;
}

/* Makes every object of the stack that identity() reads keep its hash. Returns 1 if one did not
 * before. */
static int settle_stack(const void *frame)
{
	const struct layout *l = &py.layout;
	int changed = 0;

	for (unsigned n = 0; l->code_version < 0 && frame && n < MAX_FRAMES; n++) {
		const void *code = code_of(frame);
		if (code != no_code) {
			changed |= settle(FIELD(const void *, code, l->code_name), py.unicode_type);
			changed |= settle(FIELD(const void *, code, l->code_file), py.unicode_type);
			changed |= settle(FIELD(const void *, code, l->code_lines), py.bytes_type);
		}
		frame = FIELD(const void *, frame, l->frame_previous);
	}
	return changed;
}

/* The id of FRAME; 0: there is no room. *NONE: the frame has no Python code. */
static uint32_t frame_id(const void *frame, uint64_t interpreter, int *none)
{
	const void *code = code_of(frame);
	uint64_t key;
	uint32_t id;

	*none = code == no_code || FIELD(const void *, code, py.layout.type) != py.code_type;
	if (*none)
		return 0;
	key = finish_hash((identity(code) + keys[0][0]) * (instruction(frame) + keys[0][1]) +
			  interpreter);
	id = tables_known_frame(key);
	if (!id) {
		id = new_frame_id(frame, code);
		if (id)
			tables_learn_frame(key, id);
	}
	return id;
}

static uint32_t add_stack(uint64_t hash, uint32_t module, uint64_t interpreter, const void *frame)
{
	uint32_t ids[MAX_FRAMES + 1], n = 0, stack;
	int none;

	for (unsigned i = 0; frame && i < MAX_FRAMES; i++) {
		ids[n] = frame_id(frame, interpreter, &none);
		if (!ids[n] && !none)
			return tables_unknown_stack(hash, module);
		n += !none;
		frame = FIELD(const void *, frame, py.layout.frame_previous);
	}
	if (frame) {
		uint32_t deeper = tables_string(MT_DEEPER, strlen(MT_DEEPER));
		uint32_t nowhere = deeper ? tables_string("", 0) : 0;
		ids[n] = nowhere ? tables_frame(deeper, nowhere, 0) : 0;
		if (!ids[n++])
			return tables_unknown_stack(hash, module);
	}
	stack = tables_stack(hash, module, ids, n);
	return stack ? stack : tables_unknown_stack(hash, module);
}

uint32_t pystack_module_stack(uint32_t module)
{
	uint64_t hash = finish_hash(start_hash(module));
	uint32_t stack;

	return tables_known_stack(hash, &stack) ? stack : tables_stack(hash, module, NULL, 0);
}

static uint64_t instructions_from(const void *frame)
{
	uint64_t mixed = 0;

	for (unsigned i = 0; frame && i < PLACE_FRAMES; i++) {
		mixed = (mixed + (uintptr_t)frame) * OTHER_KEY + instruction(frame);
		frame = FIELD(const void *, frame, py.layout.frame_previous);
	}
	return mixed;
}

struct pystack_place pystack_place(void)
{
	const void *thread = readable_thread(), *frame = thread ? first_frame(thread) : NULL;

	return (struct pystack_place){ frame, instructions_from(frame) };
}

int pystack_is_within(const struct pystack_place *place)
{
	const void *thread = readable_thread(), *frame = thread ? first_frame(thread) : NULL;

	for (unsigned i = 0; frame && i < WITHIN_FRAMES; i++) {
		if (frame == place->frame)
			return instructions_from(frame) == place->instructions;
		frame = FIELD(const void *, frame, py.layout.frame_previous);
	}
	return 0;
}

int pystack_runs(const char *name)
{
	const void *thread = readable_thread(), *frame = thread ? first_frame(thread) : NULL;

	for (unsigned i = 0; frame && i < MODE_FRAMES; i++) {
		const void *code = code_of(frame);

		if (code != no_code && FIELD(const void *, code, py.layout.type) == py.code_type &&
		    pystring_ends(&py.layout, FIELD(const void *, code, py.layout.code_name), name))
			return 1;
		frame = FIELD(const void *, frame, py.layout.frame_previous);
	}
	return 0;
}

uint32_t pystack_current(uint32_t module)
{
	const void *thread = readable_thread(), *frame;
	uint64_t hash, interpreter;
	uint32_t stack;

	if (!thread)
		return pystack_module_stack(module);
	frame = first_frame(thread);
	interpreter = interpreter_of(thread);
	last_event.thread = thread;
	last_event.frame = frame;
	last_event.code = frame ? code_of(frame) : NULL;
	hash = hash_stack(frame, module, interpreter);
	if (tables_known_stack(hash, &stack))
		return stack;
	if (tables_are_closed())
		return tables_unknown_stack(hash, module);
	if (settle_stack(frame)) {
		hash = hash_stack(frame, module, interpreter);
		if (tables_known_stack(hash, &stack))
			return stack;
	}
	return add_stack(hash, module, interpreter, frame);
}
