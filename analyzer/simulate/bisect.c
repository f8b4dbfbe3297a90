#include "simulate/bisect.h"

#include "simulate/trial.h"
#include "util/shell.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SETTINGS = 32 };

struct bisect {
	const struct simulation *simulation;
	char *text; /* keys and values point into it */
	struct {
		const char *key, *minimal, *own;
	} settings[SETTINGS];
	size_t count;
	struct trial tries[SETTINGS + 1];
	size_t tried;
};

static int parse_setting(struct bisect *x, char *const *command, char *word, struct err *e)
{
	char *equals = strchr(word, '='), *colon = equals ? strchr(equals, ':') : NULL;

	if (!colon || equals == word || strchr(colon + 1, ':'))
		return err_set(
			e,
			"--bisect: \"%s\" is not a setting, expected KEY=MINIMAL:OWN, separated by commas",
			word);
	if (x->count == SETTINGS)
		return err_set(e, "--bisect has more than %d settings", SETTINGS);
	*equals = *colon = '\0';
	if (!template_has(command, word))
		return err_set(e, "--bisect %s: the command has no {%s} to put a value into", word,
			       word);
	for (size_t i = 0; i < x->count; i++)
		if (!strcmp(x->settings[i].key, word))
			return err_set(e, "--bisect names %s twice", word);
	x->settings[x->count].key = word;
	x->settings[x->count].minimal = equals + 1;
	x->settings[x->count++].own = colon + 1;
	return 0;
}

static int parse(struct bisect *x, char *const *command, const char *list, struct err *e)
{
	char *word = x->text = xstrdup(list);

	for (char *next = word; next; word = next) {
		next = strchr(word, ',');
		if (next)
			*next++ = '\0';
		if (parse_setting(x, command, word, e) < 0)
			return -1;
	}
	return 0;
}

/* The first `own` settings have their own values, the others minimal ones. */
static void choose(const struct bisect *x, size_t own, struct placeholder *placeholders)
{
	for (size_t i = 0; i < x->count; i++)
		placeholders[i] = (struct placeholder){ x->settings[i].key,
							i < own ? x->settings[i].own
								: x->settings[i].minimal };
}

/* The folder of the traces with the settings up to `own` as they are; 0: with none of them. */
static char *folder_of(const struct bisect *x, size_t own)
{
	return own ? xasprintf("%zu-%s", own, x->settings[own - 1].key) : xstrdup("0-minimal");
}

static int run_try(struct bisect *x, size_t own, struct err *e)
{
	struct trial *t = &x->tries[x->tried++];
	struct placeholder placeholders[SETTINGS];
	char *folder;
	int status;

	choose(x, own, placeholders);
	t->name = own ? xasprintf("%s = %s", x->settings[own - 1].key, x->settings[own - 1].own)
		      : xstrdup("everything minimal");
	folder = folder_of(x, own);
	status = trial_run(x->simulation, placeholders, x->count, folder, t, e);
	free(folder);
	return status;
}

static void conclude(const struct bisect *x, int fits, struct buf *out)
{
	size_t last = x->tried - 1;
	char *folder, *path;

	if (fits) {
		buf_puts(out, "it fits with everything put back");
		return;
	}
	if (last)
		buf_addf(out, "memory runs out when %s is put back.", x->settings[last - 1].key);
	else
		buf_puts(
			out,
			"not even everything minimal fits: the model itself is too large, or none of these is the cause.");
	folder = folder_of(x, last);
	path = xasprintf("%s/%s", x->simulation->directory, folder);
	buf_puts(out, " See where it went: memtrace report ");
	shell_add_path(out, path);
	free(folder);
	free(path);
}

char **bisect_own_command(char *const *command, const char *list, struct err *e)
{
	struct bisect x = { 0 };
	struct placeholder placeholders[SETTINGS];
	char **filled = NULL;

	if (parse(&x, command, list, e) == 0) {
		choose(&x, x.count, placeholders);
		filled = template_fill(command, placeholders, x.count);
	}
	free(x.text);
	return filled;
}

int bisect_find(const struct simulation *s, const char *list, struct buf *table,
		struct buf *conclusion, struct err *e)
{
	struct bisect x = { .simulation = s };
	int status = parse(&x, s->command, list, e), fits = 1;

	for (size_t own = 0; !status && fits && own <= x.count; own++) {
		status = run_try(&x, own, e);
		fits = x.tries[own].verdict == FITS;
	}
	if (x.tried)
		trial_table(x.simulation, "put back", x.tries, x.tried, table);
	if (!status)
		conclude(&x, fits, conclusion);
	for (size_t i = 0; i < x.tried; i++)
		free(x.tries[i].name);
	free(x.text);
	return status < 0 ? -1 : fits;
}
