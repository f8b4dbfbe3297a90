/*
 * A line of a record, the rules of diagnosis on what it says, and what is written of it again.
 * Seeds are in tests/unit/fuzz/corpus/record; test_fuzz_record.c runs them, and changes of them,
 * without libFuzzer.
 */
#include "diagnose/diagnose.h"
#include "record/record.h"
#include "report/rank_groups.h"
#include "report/report.h"

#include <stdint.h>

#include "inputs.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct report r = { 0 };
	struct diagnosis d = { 0 };
	struct err e = { 0 };
	struct buf out = { 0 };
	struct config c;
	json_t *j = record_parse((const char *)data, size, &e);

	if (!j)
		return 0;
	config_init(&c);
	if (!record_add(&r, j, &e) && !record_add(&r, j, &e)) {
		record_config(&c, j, &e);
		report_sort(&r);
		ranks_relate(&r, &c);
		diagnose(&d, &r);
		record_write(&out, r.ranks, &c, &d, 0, NULL);
	}
	buf_release(&out);
	diagnosis_release(&d);
	ranks_free(r.as_job);
	report_release(&r);
	config_release(&c);
	json_decref(j);
	return 0;
}
