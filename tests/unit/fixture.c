#include "fixture.h"

int fixture_setup(void **state)
{
	struct fixture *f = calloc(1, sizeof(*f));

	if (!f)
		return -1;
	write_start(&f->w);
	f->python = write_thread(&f->w, 100, "python");
	f->autograd = write_thread(&f->w, 101, "pt_autograd_0");
	*state = f;
	return 0;
}

int fixture_setup_directory(void **state)
{
	struct fixture *f;

	if (fixture_setup(state) < 0)
		return -1;
	f = *state;
	strcpy(f->directory, "/tmp/memtrace-test-XXXXXX");
	return mkdtemp(f->directory) ? 0 : -1;
}

int fixture_teardown(void **state)
{
	struct fixture *f = *state;
	char command[128];
	int status = 0;

	replay_release(&f->replay);
	report_release(&f->report);
	trace_release(&f->trace);
	write_release(&f->w);
	buf_release(&f->out);
	if (f->directory[0]) {
		snprintf(command, sizeof(command), "rm -rf %s", f->directory);
		status = system(command);
	}
	free(f->file);
	free(f);
	return status ? -1 : 0;
}

static void open_trace(struct fixture *f)
{
	struct err e = { 0 };
	size_t size;

	f->file = write_finish(&f->w, &size);
	assert_int_equal(trace_open_memory(&f->trace, f->file, size, &e), 0);
}

const struct device *fixture_replay(struct fixture *f, int keep_live)
{
	const struct replay_options options = { .phase = f->phase,
						.keep_live = keep_live,
						.name_all_blocks = f->name_all_blocks };

	open_trace(f);
	replay_trace(&f->replay, &f->trace, &options);
	return &f->replay.device[0];
}

const struct rank *fixture_report(struct fixture *f)
{
	const struct replay_options options = { .phase = f->phase };

	open_trace(f);
	report_add(&f->report, &f->trace, NULL, &options);
	return &f->report.ranks[0];
}

uint32_t fixture_stack(struct fixture *f, const char *module)
{
	return write_stack(&f->w, write_module(&f->w, module), 0, 0, 0, 0);
}

void fixture_event(struct fixture *f, int kind, uint64_t address, bytes n, uint32_t stack)
{
	write_event(&f->w, kind, address, n, stack, f->python);
}
