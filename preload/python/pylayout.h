/*
 * The layout of the interpreter's data that a stack needs, and a check of it on the first stack,
 * with reads that cannot fault.
 */
#ifndef PRELOAD_PYLAYOUT_H
#define PRELOAD_PYLAYOUT_H

#define PYLAYOUT_MAX_FRAMES 128
#define PYLAYOUT_NOT_CODE \
	3 /* _PyInterpreterFrame.owner from this value on: a frame without Python code */

/* A field of an object of the interpreter, by its offset. */
#define FIELD(type, object, offset) \
	(*(type const *)(const void *)((const char *)(object) + (offset)))

/* Offsets in bytes. -1: the field does not exist. */
struct layout {
	int thread_interpreter, thread_frame, cframe_current;
	int frame_code, frame_instr, frame_previous, frame_owner;
	int instr_unit; /* bytes; 0: `frame_instr` is an address, in the code's bytes or a copy */
	int frame_copy, code_copies; /* free-threaded build: number of the copy of the bytecode, and
					table of copies */
	int code_line, code_file, code_name, code_lines, code_version, code_bytecode;
	int type; /* type field of any object */
	int str_length, str_state, str_ascii, str_compact;
	int str_kind; /* first bit of the width in the state */
};

/* The layout of Python 3.MINOR, whose `_PyRuntime` is at RUNTIME (NULL: not exported). Returns 0,
 * or -1 if that layout is not known. */
int pylayout_find(struct layout *l, int minor, const void *runtime);

/* Follows the frames of THREAD with safe reads. 1: all frames fit L; 0: there is no Python frame
 * yet; -1: L does not fit; -2: no safe read is possible here. */
int pylayout_check(const struct layout *l, const void *thread, const void *code_type,
		   const void *unicode_type);

#endif
