#include "sim/search.h"

#include "size.h"
#include "sim/summary.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 64, HIGHEST = 1 << 20 };

struct try {
	int value;
	enum verdict verdict;
	bytes peak;
	double seconds;
};

struct search {
	const struct simulation *simulation;
	char *name, *place; /* "mbs", "{mbs}" */
	int low, high;
	struct try tries[TRIES];
	size_t count;
};

static int parse_key(struct search *x, const char *key, struct err *e)
{
	const char *equals = strchr(key, '=');
	size_t n = equals ? (size_t)(equals - key) : strlen(key);
	char *end;

	x->name = xasprintf("%.*s", (int)n, key);
	x->place = xasprintf("{%s}", x->name);
	x->low = 1;
	x->high = HIGHEST;
	if (equals) {
		x->low = (int)strtol(equals + 1, &end, 10);
		if (*end == ':')
			x->high = (int)strtol(end + 1, &end, 10);
		if (*end || end == equals + 1)
			x->low = 0;
	}
	if (!n || x->low < 1 || x->high < x->low || x->high > HIGHEST)
		return err_set(e, "--until-oom is \"%s\", expected KEY, KEY=FIRST or KEY=FIRST:LAST", key);
	for (char *const *word = x->simulation->command; *word; word++)
		if (strstr(*word, x->place))
			return 0;
	return err_set(e, "--until-oom %s: the command has no %s to put a number into", x->name,
		       x->place);
}

/* `text` with every `place` replaced. */
static char *fill(const char *text, const char *place, int value)
{
	struct buf b = { 0 };
	const char *at;

	while ((at = strstr(text, place))) {
		buf_add(&b, text, (size_t)(at - text));
		buf_addf(&b, "%d", value);
		text = at + strlen(place);
	}
	buf_puts(&b, text);
	return buf_take(&b);
}

static void note(struct search *x, int value, enum verdict verdict, const struct report *r,
		 const struct outcome *outcomes, size_t count)
{
	struct try *t = &x->tries[x->count++];

	*t = (struct try){ .value = value, .verdict = verdict };
	for (size_t i = 0; i < r->count; i++)
		if (r->ranks[i].peak_device > t->peak)
			t->peak = r->ranks[i].peak_device;
	for (size_t i = 0; i < count; i++)
		t->seconds += outcomes[i].seconds;
}

static int run_try(struct search *x, int value, enum verdict *verdict, struct err *e)
{
	struct simulation s = *x->simulation;
	size_t words = 0, count = s.whole ? 1 : s.rank_count;
	struct outcome *outcomes = xcalloc(count, sizeof(*outcomes));
	struct report r = { 0 };
	char **command, *directory = xasprintf("%s/%s-%d", s.directory, x->name, value);
	int status;

	while (s.command[words])
		words++;
	command = xcalloc(words + 1, sizeof(*command));
	for (size_t i = 0; i < words; i++)
		command[i] = fill(s.command[i], x->place, value);
	s.command = command;
	s.directory = directory;
	fprintf(stderr, "memtrace: %s = %d\n", x->name, value);
	status = simulation_run(&s, outcomes, e);
	if (!status) {
		summary_read(directory, &r);
		*verdict = summary_verdict(outcomes, count, &r);
		note(x, value, *verdict, &r, outcomes, count);
		if (*verdict == FAILED)
			status = err_set(e, "%s = %d: the command failed for another reason than memory (its messages are above)",
					 x->name, value);
	}
	report_release(&r);
	for (size_t i = 0; i < count; i++)
		free(outcomes[i].last_key);
	for (size_t i = 0; i < words; i++)
		free(command[i]);
	free(command);
	free(outcomes);
	free(directory);
	return status;
}

static void print_table(const struct search *x)
{
	static const char *const words[] = { "fits", "out of memory", "failed" };

	fprintf(stderr, "%12s  %10s  %-14s  took\n", x->name, "device", "");
	for (size_t i = 0; i < x->count; i++) {
		const struct try *t = &x->tries[i];
		struct buf size = { 0 };

		size_add(&size, t->peak, 0);
		fprintf(stderr, "%12d  %10s  %-14s  %.0f s\n", t->value, size.text,
			words[t->verdict], t->seconds);
		buf_release(&size);
	}
}

/* Doubles until it no longer fits, then halves what lies between. */
static int find(struct search *x, int *largest, struct err *e)
{
	int fits = 0, too_much = 0, value = x->low;

	while (x->count < TRIES && (!too_much || too_much - fits > 1)) {
		enum verdict verdict = FAILED;

		if (run_try(x, value, &verdict, e) < 0)
			return -1;
		if (verdict == FITS)
			fits = value;
		else
			too_much = value;
		if (fits == x->high || too_much == x->low)
			break;
		if (too_much)
			value = fits + (too_much - fits) / 2;
		else
			value = value > x->high / 2 ? x->high : value * 2;
	}
	*largest = fits;
	return 0;
}

int search_largest(const struct simulation *s, const char *key, struct err *e)
{
	struct search x = { .simulation = s };
	int largest = -1;

	if (parse_key(&x, key, e) == 0 && find(&x, &largest, e) < 0)
		largest = -1;
	if (x.count)
		print_table(&x);
	if (largest > 0)
		fprintf(stderr, "memtrace: %s = %d is the largest that fits%s\n", x.name, largest,
			largest == x.high ? ", and the last that was to be tried" : "");
	else if (!largest)
		fprintf(stderr, "memtrace: not even %s = %d fits\n", x.name, x.low);
	free(x.name);
	free(x.place);
	return largest;
}
