/* The layout of an interpreter, and its check. The interpreter here is made of the structures
 * below, whose offsets the compiler knows; its table says them as `_PyRuntime` does from 3.13 on.
 * Where an offset stands in the table is pylayout.def's, which tests/real/test_pylayout.py compares
 * with CPython's headers. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../sim/forks.h"
#include "python/pylayout.h"

struct type {
	int unused;
};
static struct type code_type, text_type;

struct text {
	void *count, *type;
	int64_t length;
	uint32_t state;
	char characters[8];
};

struct copies {
	int64_t count;
	char *code[2];
};

struct code {
	void *count, *type;
	struct text *file, *name;
	struct copies *copies;
	int line, unused[5], version;
	char bytecode[64];
};

struct frame {
	uintptr_t code; /* the lowest bits are the interpreter's */
	struct frame *previous;
	char *instruction;
	int copy;
	uint8_t owner;
};

struct thread {
	char unused[32];
	void *interpreter;
	struct frame *frame;
};

/* The interpreter's table for 3.MINOR. */
static const uint64_t *table_of(int minor, int free_threaded)
{
	static uint64_t table[128];

	memset(table, 0xff, sizeof(table));
	memcpy(table, "xdebugpy", 8);
	table[2] = (uint64_t)free_threaded;
#define AT(position, structure, field) \
	if ((position) >= 0)           \
	table[position] = offsetof(struct structure, field)
#define OFFSETS(number, thread_interpreter, thread_frame, frame_code, frame_instr, frame_previous, \
		frame_owner, frame_copy, code_line, code_file, code_name, code_bytecode,           \
		code_copies, ob_type, str_state, str_length, str_ascii)                            \
	if (minor == (number)) {                                                                   \
		AT(thread_interpreter, thread, interpreter);                                       \
		AT(thread_frame, thread, frame);                                                   \
		AT(frame_code, frame, code);                                                       \
		AT(frame_instr, frame, instruction);                                               \
		AT(frame_previous, frame, previous);                                               \
		AT(frame_owner, frame, owner);                                                     \
		AT(frame_copy, frame, copy);                                                       \
		AT(code_line, code, line);                                                         \
		AT(code_file, code, file);                                                         \
		AT(code_name, code, name);                                                         \
		AT(code_bytecode, code, bytecode);                                                 \
		AT(code_copies, code, copies);                                                     \
		AT(ob_type, text, type);                                                           \
		AT(str_state, text, state);                                                        \
		AT(str_length, text, length);                                                      \
		AT(str_ascii, text, characters);                                                   \
	}
#include "python/pylayout.def"
	return table;
}

/* Two frames of one function, and between them one without Python code. KIND: the first bit of the
 * width in the state of a str. */
static struct {
	struct text file, name;
	struct copies copies;
	struct code code;
	char copy[64];
	struct frame frames[3];
	struct thread thread;
} made;

static void make(int kind)
{
	memset(&made, 0, sizeof(made));
	made.file = made.name = (struct text){ NULL, &text_type, 3, 1u << kind, "abc" };
	made.code = (struct code){
		.type = &code_type, .file = &made.file, .name = &made.name, .copies = &made.copies
	};
	made.copies = (struct copies){ 2, { made.code.bytecode, made.copy } };
	made.frames[0] = (struct frame){ (uintptr_t)&made.code | 1, &made.frames[1],
					 made.code.bytecode + 10, 0, 0 };
	made.frames[1] = (struct frame){ 0, &made.frames[2], NULL, 0, PYLAYOUT_NOT_CODE };
	made.frames[2] =
		(struct frame){ (uintptr_t)&made.code, NULL, made.code.bytecode - 2, 0, 0 };
	made.thread.frame = &made.frames[0];
}

static int check(const struct layout *l)
{
	return pylayout_check(l, &made.thread, &code_type, &text_type);
}

static void layouts_come_from_the_table(void **state)
{
	static const int minors[] = { 13, 14, 15 };
	struct layout l;

	(void)state;
	for (size_t i = 0; i < sizeof(minors) / sizeof(minors[0]); i++)
		for (int free_threaded = 0; free_threaded < 2; free_threaded++) {
			const int copies = free_threaded && minors[i] > 13;

			assert_int_equal(
				pylayout_find(&l, minors[i], table_of(minors[i], free_threaded)),
				0);
			assert_int_equal(l.thread_frame, 40);
			assert_int_equal(l.frame_copy,
					 copies ? (int)offsetof(struct frame, copy) : -1);
			assert_int_equal(l.code_copies,
					 copies ? (int)offsetof(struct code, copies) : -1);
			assert_int_equal(l.code_version, offsetof(struct code, version));
			assert_int_equal(l.str_length, 16);
			make(copies ? 8 : 2);
			assert_int_equal(check(&l), 1);
		}
	/* a version without a row of its own has the last row's */
	assert_int_equal(pylayout_find(&l, 99, table_of(15, 0)), 0);
	assert_int_equal(l.thread_frame, 40);
}

static void unknown_tables_are_refused(void **state)
{
	uint64_t other[128];
	struct layout l;

	(void)state;
	memcpy(other, table_of(14, 0), sizeof(other));
	other[0]++;
	assert_int_equal(pylayout_find(&l, 14, other), -1);
	assert_int_equal(pylayout_find(&l, 14, NULL), -1);
	assert_int_equal(pylayout_find(&l, 8, table_of(14, 0)), -1);
	/* PyThreadState.frame and PyFrameObject.f_code of Python 3.9 need no table */
	assert_int_equal(pylayout_find(&l, 9, NULL), 0);
	assert_true(l.thread_frame == 24 && l.frame_code == 32 && l.instr_unit == 1);
	/* an offset that no object has */
	memcpy(other, table_of(14, 0), sizeof(other));
	other[26] = 1u << 20;
	assert_int_equal(pylayout_find(&l, 14, other), 0);
	assert_int_equal(l.thread_frame, 0);
}

static int find_free_threaded(struct layout *l)
{
	make(8);
	return pylayout_find(l, 14, table_of(14, 1));
}

static void frames_that_do_not_fit_are_refused(void **state)
{
	struct type other;
	struct layout l;

	(void)state;
	assert_int_equal(find_free_threaded(&l), 0);
	made.frames[0].copy = 1; /* this thread has a copy of the bytecode */
	assert_int_equal(check(&l), -1);
	made.frames[0].instruction = made.copy + 10;
	assert_int_equal(check(&l), 1);
	made.frames[0].copy = -1;
	assert_int_equal(check(&l), -1);
	make(8);
	made.frames[0].copy = 1;
	made.code.copies = (struct copies *)8; /* no memory */
	assert_int_equal(check(&l), -1);
	make(8);
	made.frames[2].instruction = (char *)((uintptr_t)made.code.bytecode + (1u << 24));
	assert_int_equal(check(&l), -1);
	make(8);
	made.frames[2].owner = 9;
	assert_int_equal(check(&l), -1);
	make(8);
	made.code.type = &other;
	assert_int_equal(check(&l), -1);
	make(8);
	made.name.type = &other;
	assert_int_equal(check(&l), -1);
	make(8);
	made.file.state = 3u << 8; /* characters have 1, 2 or 4 bytes */
	assert_int_equal(check(&l), -1);
	make(8);
	made.frames[2].previous = (struct frame *)16;
	assert_int_equal(check(&l), -1);
}

static void threads_without_python_decide_nothing(void **state)
{
	struct layout l;

	(void)state;
	assert_int_equal(find_free_threaded(&l), 0);
	made.thread.frame = NULL;
	assert_int_equal(check(&l), 0);
	made.thread.frame = &made.frames[1];
	made.frames[1].previous = NULL;
	assert_int_equal(check(&l), 0);
	assert_int_equal(pylayout_check(&l, (void *)8, &code_type, &text_type), -1);
}

/* From now on the kernel answers the question "can this be read?" with ERROR. */
static int answer_always(int error)
{
	struct sock_filter rules[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_rt_sigprocmask, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = { sizeof(rules) / sizeof(rules[0]), rules };

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/* An emulator's kernel may look at the first argument before the memory: reads are then another
 * system call's. */
static void another_kernel_is_asked_in_another_way(void **state)
{
	struct layout l;
	int status;
	pid_t pid;

	(void)state;
	pid = fork_job();
	if (!pid) {
		if (!answer_always(EINVAL) || find_free_threaded(&l) != 0)
			end_job(2);
		if (check(&l) != 1)
			end_job(3);
		made.frames[2].previous = (struct frame *)16;
		end_job(check(&l) == -1 ? 0 : 4);
	}
	waitpid(pid, &status, 0);
	assert_int_equal(status, 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(another_kernel_is_asked_in_another_way),
		cmocka_unit_test(layouts_come_from_the_table),
		cmocka_unit_test(unknown_tables_are_refused),
		cmocka_unit_test(frames_that_do_not_fit_are_refused),
		cmocka_unit_test(threads_without_python_decide_nothing),
	};

	return cmocka_run_group_tests_name("layout of Python", tests, NULL, NULL);
}
