/* A configuration for each test, and the reason why it was refused. */
#ifndef MEMTRACE_TEST_CONFIG_FIXTURE_H
#define MEMTRACE_TEST_CONFIG_FIXTURE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "config/config.h"

static struct config config;
static struct err why;

static int setup(void **state)
{
	(void)state;
	memset(&why, 0, sizeof(why));
	config_init(&config);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	config_release(&config);
	return 0;
}

#define T(name) cmocka_unit_test_setup_teardown(name, setup, teardown)

#endif
