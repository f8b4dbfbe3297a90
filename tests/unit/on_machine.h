/* A new machine for each test, and its allocated bytes. */
#ifndef MEMTRACE_TEST_ON_MACHINE_H
#define MEMTRACE_TEST_ON_MACHINE_H

#include <string.h>

#include "torch/machine.h"

#define MIB (INT64_C(1) << 20)
#define ON_MACHINE(test) cmocka_unit_test_setup_teardown(test, start_machine, end_machine)

static struct machine m;
static struct tape tape;

static inline int start_machine(void **state)
{
	struct allocator_settings settings = { 0 };

	(void)state;
	machine_init(&m, &settings, 0);
	memset(&tape, 0, sizeof(tape));
	m.tape = &tape;
	return 0;
}

static inline int end_machine(void **state)
{
	(void)state;
	machine_release(&m);
	return 0;
}

static inline int64_t allocated(void)
{
	return allocator_totals(m.allocator)->allocated;
}

#endif
