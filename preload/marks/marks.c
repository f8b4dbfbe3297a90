#define _GNU_SOURCE
#include "marks/marks.h"

#include <errno.h>
#include <memtrace/fnv.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/export.h"
#include "base/lock.h"
#include "record/event.h"
#include "record/recorder.h"
#include "record/state.h"
#include "record/tables.h"
#include "record/writer.h"

#define MAX_EARLY 64  /* phases that are open before the recording begins; others are not known */
#define MAX_OPEN 4096 /* a keyframe holds all open phases; others are not recorded */

/* Names share the tables with the stacks of allocations, and take a quarter of their room at most
 * (the tables have a quarter of the budget). A report lists no more than MAX_NAMES. */
#define MAX_NAMES 4096
#define BYTES_OF_NAME 192 /* in the tables: string, frame and stack */
#define OTHER_NAMES "(other names)"

/*
 * A phase from before the recording. `phase` is one of
 *
 *   0                 the slot is free
 *   BEING_WRITTEN     its name is copied
 *   a number          the phase is open and not recorded
 *   number | GIVEN    marks_begin() records its begin
 *   GIVEN             the same, and it ended meanwhile: marks_begin() records the end too
 */
#define BEING_WRITTEN UINT64_MAX
#define GIVEN (1ull << 63)
static struct early {
	_Atomic uint64_t phase;
	char name[MARK_NAME_BYTES + 1];
} early[MAX_EARLY];
static _Atomic unsigned early_count; /* slots that are not free */

static _Atomic uint64_t phases, steps, names;
static _Atomic int64_t open_count;

static size_t name_length(const char *name)
{
	return strnlen(name, MARK_NAME_BYTES);
}

static uint64_t key_of(const char *name, size_t length)
{
	return fnv_add(FNV_START, name, length) | 1;
}

static int names_are_full(void)
{
	const uint64_t room = recorder_header()->budget / 16 / BYTES_OF_NAME;

	return atomic_load(&names) >= (room < MAX_NAMES ? room : MAX_NAMES);
}

/* The stack whose only frame has this name; that of OTHER_NAMES if the job has too many. */
static uint32_t stack_of(const char *name)
{
	size_t length = name_length(name);
	uint64_t key = key_of(name, length);
	uint32_t stack, text, nowhere, frame;

	if (tables_known_stack(key, &stack))
		return stack;
	if (names_are_full()) {
		name = OTHER_NAMES;
		length = strlen(OTHER_NAMES);
		key = key_of(name, length);
		if (tables_known_stack(key, &stack))
			return stack;
	}
	text = tables_string(name, length);
	nowhere = text ? tables_string("", 0) : 0;
	frame = nowhere ? tables_frame(text, nowhere, 0) : 0;
	stack = frame ? tables_stack(key, 0, &frame, 1) : MT_NO_STACK;
	if (stack != MT_NO_STACK)
		atomic_fetch_add(&names, 1);
	return stack;
}

static void free_early(struct early *slot)
{
	atomic_store(&slot->phase, 0);
	atomic_fetch_sub(&early_count, 1);
}

static void keep_early(uint64_t phase, const char *name)
{
	size_t length = name_length(name);

	for (unsigned i = 0; i < MAX_EARLY; i++) {
		uint64_t empty = 0;

		if (!atomic_compare_exchange_strong(&early[i].phase, &empty, BEING_WRITTEN))
			continue;
		atomic_fetch_add(&early_count, 1);
		memcpy(early[i].name, name, length);
		early[i].name[length] = 0;
		atomic_store(&early[i].phase, phase);
		break;
	}
	/* The recording may have begun meanwhile, and marks_begin() before this phase was kept. */
	marks_begin();
}

/* Ends a phase whose begin is not recorded, or just being recorded. Returns 0 if it is neither. */
static int end_early(uint64_t phase)
{
	for (unsigned i = 0; i < MAX_EARLY && atomic_load(&early_count); i++) {
		uint64_t kept = phase, given = phase | GIVEN;

		if (atomic_load(&early[i].phase) != kept && atomic_load(&early[i].phase) != given)
			continue;
		if (atomic_compare_exchange_strong(&early[i].phase, &kept, BEING_WRITTEN)) {
			free_early(&early[i]);
			return 1;
		}
		if (atomic_compare_exchange_strong(&early[i].phase, &given, GIVEN))
			return 1;
	}
	return 0;
}

EXPORT uint64_t memtrace_phase_begin(const char *name)
{
	uint64_t phase;
	int e = errno;

	if (!name)
		return 0;
	if (atomic_fetch_add(&open_count, 1) >= MAX_OPEN) {
		atomic_fetch_sub(&open_count, 1);
		return 0;
	}
	phase = atomic_fetch_add(&phases, 1) + 1;
	if (recording_already())
		event_write(MT_PHASE_BEGIN, MT_NO_DEVICE, phase, 0, stack_of(name));
	else if (recording_may_be())
		keep_early(phase, name);
	errno = e;
	return phase;
}

/* Ends without a begin do not make the count negative. */
static void count_end(void)
{
	int64_t n = atomic_load(&open_count);

	while (n > 0 && !atomic_compare_exchange_weak(&open_count, &n, n - 1))
		;
}

EXPORT void memtrace_phase_end(uint64_t phase)
{
	int e = errno;

	if (!phase || phase > atomic_load(&phases))
		return;
	count_end();
	if (!end_early(phase) && recording_already())
		event_write(MT_PHASE_END, MT_NO_DEVICE, phase, 0, MT_NO_STACK);
	errno = e;
}

EXPORT void memtrace_step(void)
{
	uint64_t count = atomic_fetch_add(&steps, 1) + 1;
	int e = errno;

	if (recording_already())
		event_write(MT_STEP, MT_NO_DEVICE, 0, (int64_t)count, MT_NO_STACK);
	errno = e;
}

EXPORT void memtrace_mark(const char *name)
{
	int e = errno;

	if (name && recording_already())
		event_write(MT_MARK, MT_NO_DEVICE, 0, 0, stack_of(name));
	errno = e;
}

EXPORT int memtrace_levels(unsigned device, uint64_t levels[5])
{
	const struct mt_device *d;

	if (!recording_already() || device >= MT_MAX_DEVICES)
		return -1;
	d = &recorder_header()->device[device];
	levels[0] = __atomic_load_n(&d->allocated, __ATOMIC_RELAXED);
	levels[1] = __atomic_load_n(&d->allocated_peak, __ATOMIC_RELAXED);
	levels[2] = __atomic_load_n(&d->reserved, __ATOMIC_RELAXED);
	levels[3] = __atomic_load_n(&d->reserved_peak, __ATOMIC_RELAXED);
	levels[4] = __atomic_load_n(&d->device_peak, __ATOMIC_RELAXED);
	return 0;
}

EXPORT int memtrace_flush(unsigned limit_ms)
{
	const struct timespec pause = { .tv_nsec = 1000000 };
	uint64_t start = now_ns();
	struct writer_control *c;
	uint32_t passes;
	int e = errno;

	if (!recording_already())
		return -1;
	c = recorder_control();
	passes = atomic_load(&c->passes);
	/* The pass that runs now may have begun before the last record: the next one has it. */
	while (atomic_load(&c->passes) - passes < 2) {
		if (now_ns() - start > limit_ms * 1000000ull) {
			errno = e;
			return -1;
		}
		writer_wake(c);
		nanosleep(&pause, NULL);
	}
	errno = e;
	return atomic_load(&c->state) == WRITER_WRITING ? 0 : -1;
}

EXPORT int memtrace_trace(char *path, size_t bytes)
{
	const struct writer_control *c;
	size_t directory, name;

	if (!recording_already())
		return -1;
	c = recorder_control();
	directory = strlen(c->directory);
	name = strlen(c->name);
	if (directory + 1 + name + 1 > bytes)
		return -1;
	memcpy(path, c->directory, directory);
	path[directory] = '/';
	memcpy(path + directory + 1, c->name, name + 1);
	return 0;
}

void marks_begin(void)
{
	if (atomic_load(&recording_state) != RECORDING_ON)
		return;
	for (unsigned i = 0; i < MAX_EARLY && atomic_load(&early_count); i++) {
		uint64_t phase = atomic_load(&early[i].phase), given = phase | GIVEN;

		if (!phase || phase & GIVEN ||
		    !atomic_compare_exchange_strong(&early[i].phase, &phase, given))
			continue;
		event_write(MT_PHASE_BEGIN, MT_NO_DEVICE, phase, 0, stack_of(early[i].name));
		if (!atomic_compare_exchange_strong(&early[i].phase, &given, BEING_WRITTEN))
			event_write(MT_PHASE_END, MT_NO_DEVICE, phase, 0, MT_NO_STACK);
		free_early(&early[i]);
	}
}
