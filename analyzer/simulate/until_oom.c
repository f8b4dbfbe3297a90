#include "simulate/until_oom.h"

#include "simulate/trial.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRIES = 64, HIGHEST = 1 << 20 };

struct until_oom {
	const struct simulation *simulation;
	char *name; /* "mbs" */
	int low, high;
	struct trial tries[TRIES];
	size_t count;
};

static int parse_key(struct until_oom *x, char *const *command, const char *key, struct err *e)
{
	const char *equals = strchr(key, '=');
	size_t n = equals ? (size_t)(equals - key) : strlen(key);
	char *end;

	x->name = xasprintf("%.*s", (int)n, key);
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
		return err_set(
			e,
			"--until-oom is \"%s\", expected KEY, KEY=FIRST or KEY=FIRST:LAST, numbers from 1 to %d, the last not below the first",
			key, HIGHEST);
	if (template_has(command, x->name))
		return 0;
	return err_set(e, "--until-oom %s: the command has no {%s} to put a number into", x->name,
		       x->name);
}

static int run_try(struct until_oom *x, int value, enum verdict *verdict, struct err *e)
{
	struct trial *t = &x->tries[x->count++];
	char *number = xasprintf("%d", value), *folder = xasprintf("%s-%d", x->name, value);
	int status;

	t->name = xasprintf("%s = %d", x->name, value);
	status =
		trial_run(x->simulation, &(struct placeholder){ x->name, number }, 1, folder, t, e);
	*verdict = t->verdict;
	free(number);
	free(folder);
	return status;
}

/* Doubles the value until it no longer fits, then halves the interval. */
static int find(struct until_oom *x, int *largest, struct err *e)
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

char **until_oom_first_command(char *const *command, const char *key, struct err *e)
{
	struct until_oom x = { 0 };
	char **filled = NULL, *number;

	if (parse_key(&x, command, key, e) == 0) {
		number = xasprintf("%d", x.low);
		filled = template_fill(command, &(struct placeholder){ x.name, number }, 1);
		free(number);
	}
	free(x.name);
	return filled;
}

int until_oom_find(const struct simulation *s, const char *key, struct buf *table,
		   struct buf *conclusion, struct err *e)
{
	struct until_oom x = { .simulation = s };
	int largest = -1;

	if (parse_key(&x, s->command, key, e) == 0 && find(&x, &largest, e) < 0)
		largest = -1;
	if (x.count)
		trial_table(x.simulation, "", x.tries, x.count, table);
	if (largest > 0)
		buf_addf(conclusion, "%s = %d is the largest that fits%s", x.name, largest,
			 largest == x.high ? ", and the last value to try" : "");
	else if (!largest)
		buf_addf(conclusion, "not even %s = %d fits", x.name, x.low);
	for (size_t i = 0; i < x.count; i++)
		free(x.tries[i].name);
	free(x.name);
	return largest;
}
