/*
 * Where the interpreter of this process keeps what a stack needs, and whether that is so: a layout
 * is checked on the first stack seen, with reads that cannot fault.
 */
#ifndef PRELOAD_PYLAYOUT_H
#define PRELOAD_PYLAYOUT_H

#define PYLAYOUT_MAX_FRAMES 128
#define PYLAYOUT_NOT_CODE \
	3 /* _PyInterpreterFrame.owner, from here on: a frame without Python code */

/* Offsets in bytes, -1: does not exist. */
struct layout {
	int thread_frame, cframe_current;
	int frame_code, frame_instr, frame_previous, frame_owner;
	int instr_unit; /* bytes; 0: `frame_instr` is an address, in the code's bytes or a copy */
	int frame_copy, code_copies; /* which copy of the code's bytes, of a free-threaded build */
	int code_line, code_file, code_name, code_lines, code_version, code_bytecode;
	int type; /* of any object */
	int str_length, str_state, str_ascii, str_compact;
	int str_kind; /* the bit of the state where the width begins */
};

/* The layout of Python 3.MINOR, whose `_PyRuntime` is at RUNTIME (NULL: not exported). Returns 0,
 * or -1 when it is not known. */
int pylayout_find(struct layout *l, int minor, const void *runtime);

/* Follows the frames of THREAD with safe reads. 1: all are as L says; 0: there is none of Python's
 * yet; -1: L does not hold; -2: nothing can be read safely here. */
int pylayout_check(const struct layout *l, const void *thread, const void *code_type,
		   const void *unicode_type);

#endif
