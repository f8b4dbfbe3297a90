#include "simulate/trial.h"

#include "session/new_traces.h"
#include "util/size.h"

#include <stdlib.h>
#include <string.h>

enum { MIN_NAME = 12 };

static void record_result(struct trial *t, const struct report *r, const struct outcome *outcomes,
			  size_t count)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->ranks[i].peak_device > t->peak)
			t->peak = r->ranks[i].peak_device;
	for (size_t i = 0; i < count; i++)
		t->seconds += outcomes[i].seconds;
}

int trial_run(const struct simulation *like, const struct placeholder *placeholders, size_t count,
	      const char *folder, struct trial *t, struct err *e)
{
	struct simulation s = *like;
	size_t ranks = s.whole ? 1 : s.rank_count;
	struct outcome *outcomes = xcalloc(ranks, sizeof(*outcomes));
	char **command = template_fill(s.command, placeholders, count),
	     *directory = xasprintf("%s/%s", s.directory, folder);
	struct report r = { 0 };
	int64_t since = new_traces_now();
	int status;

	s.command = command;
	s.directory = directory;
	notice(s.messages, "%s", t->name);
	status = simulation_run(&s, outcomes, e);
	if (!status) {
		summary_read(directory, since, 0, &r);
		t->verdict = summary_verdict(outcomes, ranks, &r);
		record_result(t, &r, outcomes, ranks);
		if (t->verdict == FAILED)
			status = err_set(
				e,
				"%s: the command failed for another reason than memory (see its messages above)",
				t->name);
	}
	report_release(&r);
	for (size_t i = 0; i < ranks; i++)
		free(outcomes[i].last_key);
	template_release(command);
	free(outcomes);
	free(directory);
	return status;
}

/* Says that nothing was recorded, if so: then it is no result that all trials fit. */
static void put_missing(const struct simulation *s, const struct trial *trials, size_t count,
			struct buf *out)
{
	for (size_t i = 0; i < count; i++)
		if (trials[i].peak || trials[i].verdict != FITS)
			return;
	buf_puts(out, "memtrace: ");
	new_traces_missing(s->directory, s->command[0], 0, out);
	buf_puts(out, "\n");
}

void trial_table(const struct simulation *s, const char *heading, const struct trial *trials,
		 size_t count, struct buf *out)
{
	static const char *const words[] = { "fits", "out of memory", "failed" };
	int width = MIN_NAME;

	for (size_t i = 0; i < count; i++)
		if ((int)strlen(trials[i].name) > width)
			width = (int)strlen(trials[i].name);
	buf_addf(out, "%*s  %10s  %-14s  took\n", width, heading, "device", "");
	for (size_t i = 0; i < count; i++) {
		const struct trial *t = &trials[i];
		struct buf size = { 0 }, name = { 0 };

		size_add(&size, t->peak, 0);
		buf_add_clean(&name, (struct str){ t->name, strlen(t->name) });
		buf_addf(out, "%*s  %10s  %-14s  %.0f s\n", width, name.text, size.text,
			 words[t->verdict], t->seconds);
		buf_release(&size);
		buf_release(&name);
	}
	put_missing(s, trials, count, out);
}
