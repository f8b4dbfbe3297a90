/* memtrace summarize: one record for each rank and device, and records of many ranks as one file.
 */
#include "cmd/command.h"
#include "cmd/trace_records.h"
#include "record/record_lines.h"
#include "record/record_merge.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>

struct options {
	const char *run;
	int merge, estimate;
};

static struct options given;

static int write_line(void *context, struct str line)
{
	(void)context;
	return fwrite(line.at, 1, line.length, stdout) == line.length ? 0 : -1;
}

static int write_now(void *context, struct str lines)
{
	return write_line(context, lines) < 0 || fflush(stdout) ? -1 : 0;
}

static int merge(char **paths, size_t count, struct buf *notes, struct err *e)
{
	static char standard_input[] = "-";
	char *only[] = { standard_input };
	struct record_merge *m = record_merge_new(e);
	int status = m ? 0 : -1, records = 0;

	if (!count) {
		paths = only;
		count = 1;
	}
	for (size_t i = 0; i < count && !status; i++) {
		int n = record_each(paths[i], record_merge_add, m, notes, e);

		status = n < 0 ? -1 : 0;
		records += n;
	}
	if (!status && !records)
		status = err_set(e, "%s: there are no records here", paths[0]);
	if (!status)
		status = record_merge_each(m, write_line, NULL, e);
	if (!status && fflush(stdout) != 0)
		status = -1;
	if (status && !e->text[0])
		err_set(e, "cannot write the records: %s", strerror(errno));
	record_merge_free(m);
	return status;
}

static const struct opt rows[] = {
	{ "merge", 0, OPT_FLAG, &given.merge, NULL,
	  "join files of records: each process and device once, sorted by rank", 0, 0 },
	{ "estimate", 0, OPT_FLAG, &given.estimate, NULL,
	  "add what the declared configuration should need, by memtrace's own formulas", 0, 0 },
	RUN_OPTION(&given.run),
};

static int run(char **paths, size_t count)
{
	const struct trace_records_options options = { .run = given.run,
						       .estimate = given.estimate,
						       .on = write_now };
	struct buf notes = { 0 };
	struct err e = { 0 };
	int status;

	if (!count && !given.merge)
		status = err_set(&e, "summarize needs a trace: a file, or a directory of traces");
	else if (given.merge && (given.run || given.estimate))
		status = err_set(
			&e, "--merge joins records as they are: leave --run and --estimate away");
	else
		status = given.merge ? merge(paths, count, &notes, &e)
				     : trace_records(paths, count, &options, &notes, &e);
	if (notes.length)
		fputs(notes.text, stderr);
	buf_release(&notes);
	return status < 0 ? command_fail(STATUS_USAGE, &e) : STATUS_SUCCESS;
}

const struct command cmd_summarize = {
	.name = "summarize",
	.summary = "write one line of JSON for each rank, for many ranks",
	.usage = "[OPTIONS] TRACE... | --merge [RECORDS...]",
	.about =
		"Writes the report on each device of each process as one line of JSON of at most 64 KiB.\n"
		"TRACE is a file, or a directory of traces (all its runs). With --merge, RECORDS are files of such lines\n"
		"(without any: standard input). report, html, history and the queries of\n"
		"examples/fleet read them.",
	.options = { .rows = rows, .count = ARRAY_SIZE(rows) },
	.run = run,
};
