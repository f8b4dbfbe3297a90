#include "session/attempts.h"

#include "util/hash.h"
#include "util/order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct attempt {
	UT_hash_handle hh;
	struct attempt_part sum;
	size_t processes;
	char key[]; /* the bytes of restart and argument, the run */
};

static struct attempt *attempt_of(const struct attempt_part *process, size_t *key_length)
{
	const size_t length = strlen(process->run_id) + 1, place = sizeof(int) + sizeof(size_t);
	struct attempt *x = xcalloc(1, sizeof(*x) + place + length);

	memcpy(x->key, &process->restart, sizeof(int));
	memcpy(x->key + sizeof(int), &process->argument, sizeof(size_t));
	memcpy(x->key + place, process->run_id, length);
	x->sum = *process;
	x->sum.run_id = x->key + place;
	x->processes = 1;
	*key_length = place + length;
	return x;
}

void attempts_add(struct attempts *a, const struct attempt_part *process)
{
	size_t key_length;
	struct attempt *x = attempt_of(process, &key_length), *known;

	HASH_FIND(hh, a->all, x->key, key_length, known);
	if (!known) {
		HASH_ADD_KEYPTR(hh, a->all, x->key, key_length, x);
		return;
	}
	free(x);
	known->processes++;
	known->sum.named |= process->named;
	known->sum.ooms += process->ooms;
	known->sum.events += process->events;
	if (process->start > known->sum.start)
		known->sum.start = process->start;
}

void attempts_release(struct attempts *a)
{
	HASH_RELEASE(a->all);
}

size_t attempts_count(const struct attempts *a)
{
	return HASH_COUNT(a->all);
}

int attempt_has(const struct attempt_part *attempt, const char *run_id, int restart)
{
	return attempt->restart == restart && !strcmp(attempt->run_id, run_id);
}

int attempt_is_any(const struct attempt_part *chosen, const char *run)
{
	return !run || !strcmp(run, chosen->run_id);
}

int attempt_covers(const struct attempt_part *attempt, int any, const char *run_id, int restart)
{
	return any ? !strcmp(attempt->run_id, run_id) : attempt_has(attempt, run_id, restart);
}

static int is_of_run(const struct attempt_part *x, const char *run)
{
	size_t n = *run == ':' ? 0 : strlen(x->run_id);
	char restart[32];

	if (!strcmp(run, "oom"))
		return x->ooms != 0;
	if (strncmp(run, x->run_id, n))
		return 0;
	snprintf(restart, sizeof(restart), ":%d", x->restart);
	return !run[n] || !strcmp(run + n, restart);
}

static int by_restart(const void *a, const void *b)
{
	const struct attempt_part *const *x = a, *const *y = b;

	return ORDER((*x)->restart, (*y)->restart);
}

/* The attempts of a job in the same argument, by restart. The caller frees the list. */
static const struct attempt_part **attempts_of(const struct attempts *a,
					       const struct attempt_part *job, size_t *count)
{
	const struct attempt_part **list = NULL;
	size_t room = 0;

	*count = 0;
	for (const struct attempt *x = a->all; x; x = x->hh.next) {
		if (x->sum.argument != job->argument || strcmp(x->sum.run_id, job->run_id))
			continue;
		list = grow(list, *count, &room, sizeof(*list));
		list[(*count)++] = &x->sum;
	}
	if (*count)
		qsort(list, *count, sizeof(*list), by_restart);
	return list;
}

static const struct attempt_part *best_attempt(const struct attempts *a,
					       const struct attempt_part *job)
{
	size_t count;
	const struct attempt_part **list = attempts_of(a, job, &count), *best = job;

	for (size_t i = 0; i < count; i++)
		if (!i || (list[i]->ooms ? 1 : !best->ooms && list[i]->events >= best->events))
			best = list[i];
	free(list);
	return best;
}

const struct attempt_part *attempts_choose(const struct attempts *a, const char *run,
					   size_t argument)
{
	const struct attempt_part *best = NULL;

	for (const struct attempt *x = a->all; x; x = x->hh.next) {
		if (run ? !is_of_run(&x->sum, run) : x->sum.named || x->sum.argument != argument)
			continue;
		if (!best || x->sum.start > best->start ||
		    (x->sum.start == best->start && x->sum.restart > best->restart))
			best = &x->sum;
	}
	return best && !run ? best_attempt(a, best) : best;
}

void attempts_describe(const struct attempts *a, const struct attempt_part *shown, struct buf *out)
{
	size_t count;
	const struct attempt_part **list = attempts_of(a, shown, &count);

	for (size_t i = 0; i < count && count > 1; i++)
		buf_addf(out, "%s:%d %s%s", out->length ? ", " : "", list[i]->restart,
			 list[i]->ooms ? "ran out of memory" : "did not run out of memory",
			 list[i]->restart == shown->restart ? " (shown)" : "");
	if (count > 1)
		buf_puts(out, "; --run :N shows another");
	free(list);
}

void attempts_name_others(const struct attempts *a, const struct attempt_part *used, int any,
			  const char *noun, struct buf *notes)
{
	struct buf list = { 0 }, name = { 0 };

	for (const struct attempt *x = a->all; x; x = x->hh.next)
		if (x->sum.argument == used->argument &&
		    !attempt_covers(used, any, x->sum.run_id, x->sum.restart))
			buf_addf(&list, "%s%s:%d (%zu %s%s)", list.length ? ", " : "",
				 x->sum.run_id, x->sum.restart, x->processes, noun,
				 x->processes == 1 ? "" : "s");
	buf_puts(&name, used->run_id);
	if (!any)
		buf_addf(&name, ":%d", used->restart);
	if (list.length)
		buf_addf(notes, "memtrace: this is run %s; also here: %s; --run ID chooses\n",
			 name.text, list.text);
	buf_release(&list);
	buf_release(&name);
}
