/*
 * NVTX ranges as phases (MEMTRACE_NVTX=1). Each library that uses NVTX 3 has its own copy of it.
 * At its first call, the copy loads the library that NVTX_INJECTION64_PATH names and calls
 * InitializeInjectionNvtx2() there. The variable is set for this process if nobody set it: a
 * profiler that did is left alone.
 *
 * Ranges of the default domain are the job's own; those of other domains are the libraries'.
 */
#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/export.h"
#include "base/text.h"
#include "marks/marks.h"
#include "process/settings.h"
#include "symbols/resolve.h"

#define VARIABLE "NVTX_INJECTION64_PATH"
#define MAX_DEPTH 32 /* of ranges of a thread; deeper ones are not recorded */

/* From NVTX's nvtxTypes.h. */
enum { TABLE_CALLBACKS = 1, MODULE_CORE = 1, MESSAGE_ASCII = 1 };
enum core_function {
	CORE_MARK_EX = 1,
	CORE_MARK_A = 2,
	CORE_RANGE_START_EX = 4,
	CORE_RANGE_START_A = 5,
	CORE_RANGE_END = 7,
	CORE_RANGE_PUSH_EX = 8,
	CORE_RANGE_PUSH_A = 9,
	CORE_RANGE_PUSH_W = 10,
	CORE_RANGE_POP = 11,
	CORE_FUNCTIONS
};

typedef void any_function(void);

struct export_table {
	size_t struct_size;
	int (*functions)(int module, any_function ****table, unsigned *count);
};

struct attributes {
	uint16_t version, size;
	uint32_t category;
	int32_t color_type;
	uint32_t color;
	int32_t payload_type, reserved;
	uint64_t payload;
	int32_t message_type;
	const char *message;
};

static __thread struct {
	unsigned depth;
	uint64_t phase[MAX_DEPTH];
} open_ranges __attribute__((tls_model("initial-exec")));

/* PyTorch's names of operators contain numbers and shapes, which differ at every call:
 * "aten::mm, seq = 7, op_id = 3, sizes = [[2, 3]]". */
static uint64_t begin(const char *name)
{
	static const char *const rest[] = { ", seq = ", ", op_id = ", ", op_ids = ", ", sizes = " };
	size_t length = name ? strnlen(name, MARK_NAME_BYTES) : 0;
	char text[MARK_NAME_BYTES + 1];

	if (!length)
		return 0;
	memcpy(text, name, length);
	text[length] = 0;
	for (unsigned i = 0; i < sizeof(rest) / sizeof(rest[0]); i++) {
		char *at = strstr(text, rest[i]);

		if (at)
			*at = 0;
	}
	return memtrace_phase_begin(text);
}

static const char *message_of(const struct attributes *a)
{
	return a && a->size >= sizeof(*a) && a->message_type == MESSAGE_ASCII ? a->message : NULL;
}

static int push(const char *name)
{
	unsigned depth = open_ranges.depth++;

	if (depth < MAX_DEPTH)
		open_ranges.phase[depth] = begin(name);
	return (int)depth;
}

static int push_attributes(const struct attributes *a)
{
	return push(message_of(a));
}

static int push_wide(const void *name)
{
	(void)name;
	return push(NULL);
}

static int pop(void)
{
	if (!open_ranges.depth)
		return -1;
	open_ranges.depth--;
	if (open_ranges.depth < MAX_DEPTH)
		memtrace_phase_end(open_ranges.phase[open_ranges.depth]);
	return (int)open_ranges.depth;
}

static uint64_t start_attributes(const struct attributes *a)
{
	return begin(message_of(a));
}

static void mark_attributes(const struct attributes *a)
{
	memtrace_mark(message_of(a));
}

static any_function *const replacements[CORE_FUNCTIONS] = {
	[CORE_MARK_EX] = (any_function *)mark_attributes,
	[CORE_MARK_A] = (any_function *)memtrace_mark,
	[CORE_RANGE_START_EX] = (any_function *)start_attributes,
	[CORE_RANGE_START_A] = (any_function *)begin,
	[CORE_RANGE_END] = (any_function *)memtrace_phase_end,
	[CORE_RANGE_PUSH_EX] = (any_function *)push_attributes,
	[CORE_RANGE_PUSH_A] = (any_function *)push,
	[CORE_RANGE_PUSH_W] = (any_function *)push_wide,
	[CORE_RANGE_POP] = (any_function *)pop,
};

/* Called by a copy of NVTX. Returns 1 if this library takes its calls. */
EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id));
EXPORT int InitializeInjectionNvtx2(const void *(*export_table)(uint32_t id))
{
	const struct export_table *callbacks;
	any_function ***table = NULL;
	unsigned count = 0;

	/* A child has the variable too, and may not have the setting. */
	if (!settings_nvtx() || settings_disabled())
		return 0;
	callbacks = export_table(TABLE_CALLBACKS);
	if (!callbacks || callbacks->struct_size < sizeof(*callbacks) ||
	    !callbacks->functions(MODULE_CORE, &table, &count) || !table)
		return 0;
	for (unsigned i = 0; i < CORE_FUNCTIONS && i < count; i++)
		if (replacements[i] && table[i])
			*table[i] = replacements[i];
	return 1;
}

__attribute__((constructor)) static void offer_to_nvtx(void)
{
	static struct text path, directory;
	int e = errno;

	if (!settings_nvtx() || settings_disabled() || getenv(VARIABLE))
		return;
	(void)resolve_module(&path, path.s, sizeof(path.s));
	if (path.s[0] != '/' && getcwd(directory.s, sizeof(directory.s))) {
		directory.n = strlen(directory.s);
		text_str(&directory, "/");
		text_str(&directory, path.s);
	}
	if (path.s[0])
		(void)setenv(VARIABLE, path.s[0] == '/' ? path.s : directory.s, 0);
	errno = e;
}
