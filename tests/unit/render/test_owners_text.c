/* What the report says about who holds the device's memory. */
#include "json/report_json.h"
#include "render/report_text.h"
#include "owners_job.h"

#include <jansson.h>
#include <stdio.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

static void host_memory_is_a_line_of_its_own(void **state)
{
	struct style style = { .width = 100, .top = 10 };
	struct fixture *f = *state;
	const struct rank *r;

	fixture_event(f, MT_RESERVED, 0, MIB, NONE);
	fixture_event(f, MT_HOST_ALLOC, 0x1000, 20 * MIB, f->pytorch);
	write_event_on(&f->w, MT_NO_DEVICE, MT_PHYSICAL_ALLOC, 1, 4 * MIB, f->nccl, f->python);
	write_event_on(&f->w, MT_NO_DEVICE, MT_MAP, 0x8000, 4 * MIB, f->nccl, f->python);
	write_event_on(&f->w, MT_NO_DEVICE, MT_HOST_REGISTER, 0x9000, 6 * MIB, f->program,
		       f->python);
	fixture_event(f, MT_HOST_FREE, 0x1000, -20 * MIB, f->pytorch);
	fixture_event(f, MT_HOST_ALLOC, 0x1000, 10 * MIB, f->pytorch);
	fixture_event(f, MT_ALIAS_OPEN, 0x7000, 3 * MIB, f->pytorch);
	fixture_event(f, MT_ALIAS_CLOSE, 0x7000, -3 * MIB, f->pytorch);
	r = fixture_report(f);
	assert_int_equal(r->host_pinned_peak, 24 * MIB);
	assert_int_equal(r->host_registered_peak, 6 * MIB);
	assert_int_equal(r->imported_peak, 3 * MIB);
	assert_int_equal(r->peak_device, MIB);
	assert_int_equal(r->warning_count, 0);
	report_text(&f->report, &style, &f->out);
	assert_non_null(strstr(f->out.text,
			       "host        pinned host memory: up to 24.0 MiB; registered "
			       "beside it: up to 6.0 MiB\n"));
	assert_non_null(
		strstr(f->out.text, "imported from other processes: 3.0 MiB, in no total\n"));
}

static void owners_over_time(void **state)
{
	struct style style = { .width = 100, .top = 10 };
	struct fixture *f = *state;
	const struct rank *r;
	const struct owner_row *nccl;

	sample(f, 100 * MIB);
	fixture_event(f, MT_DEVICE_ALLOC, 0x1000, 300 * MIB, f->nccl); /* its own peak */
	fixture_event(f, MT_DEVICE_FREE, 0x1000, -300 * MIB, f->nccl);
	fixture_event(f, MT_DEVICE_ALLOC, 0x2000, 50 * MIB, f->libtorch);
	fixture_event(f, MT_DEVICE_ALLOC, 0x3000, MIB, f->cublas);
	fixture_event(f, MT_RESERVED, 0, 700 * MIB, NONE); /* the device's */
	r = fixture_report(f);
	assert_int_equal(r->owner_count, 5);
	nccl = &r->owners[1];
	assert_string_equal(nccl->key, "nccl");
	assert_int_equal(nccl->peak, 300 * MIB);
	assert_int_equal(nccl->at_peak, 0);
	assert_int_equal(r->owner_points, (6000000 >> 16) + 1);
	assert_int_equal(nccl->curve[(2000000 >> 16) - 1], 0);
	assert_int_equal(nccl->curve[(2500000 >> 16)], 300 * MIB);
	assert_int_equal(nccl->curve[r->owner_points - 1], 0);
	report_text(&f->report, &style, &f->out);
	assert_non_null(strstr(f->out.text,
			       "device      851.0 MiB at its peak, 0.01 s; 151.0 MiB of it "
			       "outside PyTorch's allocator\n"
			       "     700.0 MiB  82 %  PyTorch's allocator     "));
	assert_non_null(strstr(f->out.text, "     100.0 MiB  12 %  CUDA context            "));
	assert_non_null(strstr(f->out.text, "      50.0 MiB   6 %  PyTorch, beside it\n"
					    "       1.0 MiB   0 %  cuBLAS\n"
					    "           0 B   0 %  NCCL                    "));
	assert_non_null(strstr(f->out.text, "           0 B   0 %  unexplained\n"));
}

static long long number(const json_t *f, const char *key)
{
	const json_t *n = json_object_get(f, key);

	if (!json_is_integer(n))
		fail_msg("\"%s\" is no integer", key);
	return json_integer_value(n);
}

static void json_names_owners_and_communicators(void **state)
{
	struct fixture *f = *state;
	const json_t *rank, *owners, *comms;
	json_t *root;

	sample(f, 100 * MIB);
	fixture_event(f, MT_DEVICE_ALLOC, 0x1000, 30 * MIB, f->nccl);
	fixture_event(f, MT_COMM_INIT, 0xc1, 80 * MIB, f->libtorch);
	fixture_event(f, MT_COMM_INIT, 0xc2, 0, f->libtorch);
	fixture_event(f, MT_COMM_DESTROY, 0xc2, 0, f->libtorch);
	sample(f, 180 * MIB);
	write_meta(&f->w, "comm:2", "size=8 rank=3 parent=-", 22);
	write_meta(&f->w, "comm:3", "size=2 rank=1 parent=2", 22);
	fixture_report(f);
	report_json(&f->report, &f->out);
	root = json_loads(f->out.text, 0, NULL);
	assert_non_null(root);
	rank = json_array_get(json_object_get(root, "ranks"), 0);
	owners = json_object_get(json_object_get(rank, "peak"), "by_owner");
	assert_int_equal(json_object_size(owners), 4);
	assert_int_equal(number(owners, "pytorch"), 0);
	assert_int_equal(number(owners, "nccl"), 80 * MIB);
	assert_int_equal(number(owners, "context"), 100 * MIB);
	assert_int_equal(number(owners, "unexplained"), 0);
	assert_int_equal(number(json_object_get(rank, "peak"), "device_bytes"), 180 * MIB);
	owners = json_array_get(json_object_get(rank, "owners"), 1);
	assert_string_equal(json_string_value(json_object_get(owners, "owner")), "nccl");
	assert_int_equal(number(owners, "peak_bytes"), 80 * MIB);
	comms = json_object_get(rank, "communicators");
	assert_int_equal(json_array_size(comms), 2);
	assert_int_equal(number(json_array_get(comms, 0), "id"), 2);
	assert_int_equal(number(json_array_get(comms, 0), "size"), 8);
	assert_int_equal(number(json_array_get(comms, 0), "rank"), 3);
	assert_int_equal(number(json_array_get(comms, 0), "bytes"), 80 * MIB);
	assert_true(json_is_null(json_object_get(json_array_get(comms, 0), "parent")));
	assert_true(json_is_null(json_object_get(json_array_get(comms, 0), "destroyed_s")));
	assert_int_equal(number(json_array_get(comms, 1), "parent"), 2);
	assert_true(json_is_real(json_object_get(json_array_get(comms, 1), "destroyed_s")));
	json_decref(root);
}

/* Up to eight one by one, more by size. */
static void many_communicators_are_collapsed(void **state)
{
	struct style style = { .width = 100, .top = 10 };
	struct fixture *f = *state;
	char key[32];

	fixture_event(f, MT_RESERVED, 0, MIB, NONE);
	for (int i = 0; i < 12; i++) {
		snprintf(key, sizeof(key), "comm:%d", 1 + i);
		fixture_event(f, MT_COMM_INIT, 0xc0 + (uint64_t)i, (i + 1) * MIB, f->libtorch);
		if (i < 11)
			write_meta(&f->w, key,
				   i ? "size=2 rank=1 parent=1" : "size=8 rank=3 parent=-", 22);
	}
	fixture_report(f);
	report_text(&f->report, &style, &f->out);
	assert_non_null(strstr(
		f->out.text, "nccl        12 communicators, which took 78.0 MiB of the device when "
			     "made and first used\n"
			     "       1.0 MiB  1 of size 8      0.0 s to the end\n"
			     "      65.0 MiB  10 of size 2     0.0 s to the end\n"
			     "      12.0 MiB  1, size unknown  0.0 s to the end\n"));
}

static void few_communicators_are_rows(void **state)
{
	struct style style = { .width = 100, .top = 10 };
	struct fixture *f = *state;

	fixture_event(f, MT_RESERVED, 0, MIB, NONE);
	fixture_event(f, MT_COMM_INIT, 0xc0, 30 * MIB, f->libtorch);
	fixture_event(f, MT_COMM_INIT, 0xc1, 10 * MIB, f->libtorch);
	f->w.time = 2500000000;
	fixture_event(f, MT_COMM_DESTROY, 0xc1, -10 * MIB, f->libtorch);
	write_meta(&f->w, "comm:1", "size=8 rank=3 parent=-", 22);
	write_meta(&f->w, "comm:2", "size=2 rank=1 parent=1", 22);
	fixture_report(f);
	report_text(&f->report, &style, &f->out);
	assert_non_null(strstr(f->out.text,
			       "      30.0 MiB  rank 3 of 8      0.0 s to the end\n"
			       "      10.0 MiB  rank 1 of 2      0.0 to 2.5 s, split\n"));
}

/* What a communicator's use took is told again when it took more. */
static void use_is_counted(void **state)
{
	struct fixture *f = *state;
	const struct rank *r;

	fixture_event(f, MT_RESERVED, 0, MIB, NONE);
	fixture_event(f, MT_COMM_INIT, 0xc0, 30 * MIB, f->libtorch);
	fixture_event(f, MT_COMM_INIT, 0xc1, 0, f->libtorch);
	write_meta(&f->w, "comm-used:2", "1048576", 7);
	write_meta(&f->w, "comm-used:1", "1048576", 7);
	write_meta(&f->w, "comm-used:1", "3145728", 7);
	write_meta(&f->w, "comm-used:7", "1048576", 7); /* of none */
	write_meta(&f->w, "comm-used:2", "", 0);
	write_meta(&f->w, "comm-used:2", "9000000000000000000", 19);
	r = fixture_report(f);
	assert_int_equal(r->comms[0].bytes, 33 * MIB);
	assert_int_equal(r->comms[0].used, 3 * MIB);
	assert_int_equal(r->comms[1].bytes, MIB);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, setup_owners, fixture_teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
		TEST(host_memory_is_a_line_of_its_own),    TEST(owners_over_time),
		TEST(json_names_owners_and_communicators), TEST(many_communicators_are_collapsed),
		TEST(few_communicators_are_rows),          TEST(use_is_counted),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
