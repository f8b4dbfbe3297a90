/* The hooks' own decisions: the wrapper that a look-up gets, the end of physical memory, the
 * size of an array. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <cuda_runtime_api.h>

#include "memory/array.h"
#include "hooks/lookup.h"
#include "memory/physical.h"

static void test_look_up(void **state)
{
	static const struct {
		const char *name;
		int version;
		uint64_t flags;
		const char *symbol; /* NULL: not ours */
	} cases[] = {
		{ "cuMemAlloc", 2000, 0, "cuMemAlloc" },
		{ "cuMemAlloc", 3010, 0, "cuMemAlloc" },
		{ "cuMemAlloc", 3020, 0, "cuMemAlloc_v2" },
		{ "cuMemAlloc", 13000, 2, "cuMemAlloc_v2" },
		{ "cuMemAlloc", 1000, 0, NULL },
		{ "cuMemAlloc_v2", 12000, 0, "cuMemAlloc_v2" },
		{ "cuMemAllocAsync", 11020, 0, "cuMemAllocAsync" },
		{ "cuMemAllocAsync", 11020, 1, "cuMemAllocAsync" },
		{ "cuMemAllocAsync", 11020, 2, "cuMemAllocAsync_ptsz" },
		{ "cuMemAllocAsync", 11010, 2, NULL },
		{ "cuGraphAddNode", 12020, 0, "cuGraphAddNode" },
		{ "cuGraphAddNode", 12030, 0, "cuGraphAddNode_v2" },
		{ "cuCtxCreate", 3020, 0, "cuCtxCreate_v2" },
		{ "cuCtxCreate", 11040, 0, "cuCtxCreate_v3" },
		{ "cuGetProcAddress", 11030, 0, "cuGetProcAddress" },
		{ "cuGetProcAddress", 12000, 2, "cuGetProcAddress_v2" },
		{ "cuMemA", 12000, 0, NULL },
		{ "cuMemAllocX", 12000, 0, NULL },
		{ "cuLaunchKernel", 12000, 0, NULL },
		{ "", 12000, 0, NULL },
	};

	(void)state;
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		const struct hook *h =
			lookup_choose(cases[i].name, cases[i].version, cases[i].flags);
		if (cases[i].symbol) {
			assert_non_null(h);
			assert_string_equal(h->symbol, cases[i].symbol);
		} else {
			assert_null(h);
		}
	}
}

/* A row named by a macro of cuda.h (cuMemAlloc is cuMemAlloc_v2) would define one function and name
 * another. */
static void test_rows(void **state)
{
	(void)state;
	for (unsigned i = 0; i < hooks_count; i++) {
		assert_non_null(hooks[i].wrapper);
		for (unsigned j = 0; j < i; j++) {
			assert_string_not_equal(hooks[i].symbol, hooks[j].symbol);
			assert_ptr_not_equal(hooks[i].real, hooks[j].real);
		}
	}
}

#define HANDLE 7u
#define VA 0x7f0000000000u

static struct mt_record handle(unsigned kind)
{
	return (struct mt_record){
		.address = HANDLE, .bytes = 2 << 20, .kind = (uint8_t)kind, .device = 3
	};
}

static int map(struct physical *p, uint64_t address)
{
	struct mt_record m = { .address = address, .bytes = 1 << 20, .kind = MT_MAP };
	int known = physical_map(p, HANDLE, &m);

	assert_true(!known || m.device == 3);
	return known;
}

static int unmap(struct physical *p, uint64_t address, struct mt_record *gone)
{
	struct mt_record m;
	uint64_t of;

	return physical_unmap(p, address, &m, &of, gone);
}

/* Released while mapped, mapped twice: the memory is freed with the last of all. */
static void test_physical(void **state)
{
	struct mt_record made = handle(MT_PHYSICAL_ALLOC), gone = { 0 };
	struct physical p = { 0 };

	(void)state;
	assert_int_equal(physical_create(&p, &made, &gone), 0);
	assert_int_equal(gone.kind, 0);
	assert_true(map(&p, VA));
	assert_true(map(&p, VA + (1 << 20)));
	physical_retain(&p, HANDLE);
	assert_int_equal(physical_release(&p, HANDLE, &gone), 0);
	assert_int_equal(physical_release(&p, HANDLE, &gone), 0);
	assert_int_equal(physical_release(&p, HANDLE, &gone),
			 0); /* one too many: the driver refuses that */
	assert_int_equal(unmap(&p, VA, &gone), 1);
	assert_int_equal(unmap(&p, VA, &gone), 0);
	assert_int_equal(unmap(&p, VA + (1 << 20), &gone), 2);
	assert_int_equal(gone.address, HANDLE);
	assert_int_equal(gone.kind, MT_PHYSICAL_ALLOC);
	assert_int_equal(gone.bytes, 2 << 20);
	assert_int_equal(physical_release(&p, HANDLE, &gone), 0);
	assert_false(map(&p, VA));
}

/* Unmapped first; of an import, which may come twice, each reference counts. */
static void test_physical_references(void **state)
{
	struct mt_record made = handle(MT_ALIAS_OPEN), gone = { 0 };
	struct physical p = { 0 };

	(void)state;
	assert_int_equal(physical_create(&p, &made, &gone), 0);
	assert_int_equal(gone.kind, 0);
	assert_int_equal(physical_create(&p, &made, &gone), 0);
	assert_int_equal(gone.kind, 0);
	assert_true(map(&p, VA));
	assert_int_equal(unmap(&p, VA, &gone), 1);
	assert_int_equal(physical_release(&p, HANDLE, &gone), 0);
	assert_int_equal(physical_release(&p, HANDLE, &gone), 1);
	assert_int_equal(gone.kind, MT_ALIAS_OPEN);
}

/* A handle that is given again was released unseen: its memory is freed first. */
static void test_physical_again(void **state)
{
	struct mt_record made = handle(MT_PHYSICAL_ALLOC), again = made, gone = { 0 };
	struct physical p = { 0 };

	(void)state;
	again.bytes = 4 << 20;
	assert_int_equal(physical_create(&p, &made, &gone), 0);
	assert_int_equal(physical_create(&p, &again, &gone), 0);
	assert_int_equal(gone.kind, MT_PHYSICAL_ALLOC);
	assert_int_equal(gone.address, HANDLE);
	assert_int_equal(gone.bytes, 2 << 20);
	assert_int_equal(physical_release(&p, HANDLE, &gone), 1);
	assert_int_equal(gone.bytes, 4 << 20);
}

static void test_arrays(void **state)
{
	(void)state;
	assert_int_equal(array_bytes(100, 0, 0, 32, 1, 0), 400);
	assert_int_equal(array_bytes(100, 50, 0, 32, 1, 0), 20000);
	assert_int_equal(array_bytes(4, 4, 4, 8, 3, 0), 64 + 8 + 1);
	assert_int_equal(array_bytes(4, 4, 4, 8, 3, cudaArrayLayered), 64 + 16 + 4);
	assert_int_equal(array_bytes(4, 4, 4, 8, 1, cudaArraySparse), 0);
	assert_int_equal(array_bits(0x10), 16); /* CU_AD_FORMAT_HALF */
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(test_look_up),        cmocka_unit_test(test_rows),
		cmocka_unit_test(test_physical),       cmocka_unit_test(test_physical_references),
		cmocka_unit_test(test_physical_again), cmocka_unit_test(test_arrays),
	};

	return cmocka_run_group_tests_name("hooks", tests, NULL, NULL);
}
