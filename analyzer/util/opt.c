#include "util/opt.h"

#include "util/buf.h"
#include "util/size.h"

#include <errno.h>
#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int unknown(const struct opt_set *set, const char *word, struct err *e)
{
	const char **names = xcalloc(set->count + 2, sizeof(*names));
	int is_long = word[0] == '-' && word[1] == '-';
	const char *bare_at = is_long ? word + 2 : word, *near;
	char bare[64];
	size_t n = 0;

	for (; n < set->count; n++)
		names[n] = set->rows[n].name;
	names[n] = "help";
	snprintf(bare, sizeof(bare), "%.*s", (int)strcspn(bare_at, "="), bare_at);
	near = nearest(bare, names);
	if (near && is_long) {
		err_set(e, "there is no option %s; did you mean --%s?", word, near);
	} else {
		struct buf list = { 0 };

		for (n = 0; names[n]; n++)
			buf_addf(&list, "%s--%s", n ? ", " : "", names[n]);
		err_set(e, "there is no option %s; there are %s", word, list.text);
		buf_release(&list);
	}
	free(names);
	return -1;
}

struct str opt_word(const char *words, int index)
{
	size_t n = strcspn(words, "|");

	for (; index && n; index--) {
		words += n + (words[n] == '|');
		n = strcspn(words, "|");
	}
	return (struct str){ words, n };
}

static int set_choice(const struct opt *o, const char *text, struct err *e)
{
	struct str word;

	for (int i = 0; (word = opt_word(o->argument, i)).length; i++)
		if (strlen(text) == word.length && !strncmp(word.at, text, word.length)) {
			*(int *)o->value = i;
			return 0;
		}
	return err_set(e, "--%s is \"%s\", expected one of %s", o->name, text, o->argument);
}

static int set_count(const struct opt *o, const char *text, struct err *e)
{
	char *end;
	long n;

	errno = 0;
	n = strtol(text, &end, 10);
	if (errno || end == text || *end || n < o->lowest || n > o->highest)
		return err_set(e, "--%s is \"%s\", expected a number from %d to %d", o->name, text,
			       o->lowest, o->highest);
	*(int *)o->value = (int)n;
	return 0;
}

static void list_add(struct opt_list *list, char *text)
{
	list->at = grow(list->at, list->count, &list->room, sizeof(*list->at));
	list->at[list->count++] = text;
}

void opt_list_release(struct opt_list *list)
{
	free(list->at);
	*list = (struct opt_list){ 0 };
}

static int set_value(const struct opt *o, char *text, struct err *e)
{
	struct err why = { 0 };

	switch (o->kind) {
	case OPT_FLAG:
		*(int *)o->value = 1;
		return 0;
	case OPT_TEXT:
		*(const char **)o->value = text;
		return 0;
	case OPT_COUNT:
		return set_count(o, text, e);
	case OPT_CHOICE:
		return set_choice(o, text, e);
	case OPT_LIST:
		list_add(o->value, text);
		return 0;
	case OPT_SIZE:
		if (size_parse(text, o->value, &why) < 0)
			return err_set(e, "--%s: %s", o->name, why.text);
		return 0;
	}
	BUG("option kind");
}

#define ROW 256 /* getopt_long() returns ROW + the index of a long option's row, or a letter */

/* The tables that getopt_long() takes, made from the rows. */
struct getopt_tables {
	struct option *longs;
	struct buf letters;
};

static struct getopt_tables make_tables(const struct opt_set *set)
{
	struct getopt_tables t = { .longs = xcalloc(set->count + 2, sizeof(*t.longs)) };

	/* '+': the first argument ends the options. ':': a missing value is told from an unknown
	 * option. */
	buf_puts(&t.letters, set->stop_at_first ? "+:h" : ":h");
	for (size_t i = 0; i < set->count; i++) {
		const struct opt *o = &set->rows[i];
		int has_value = o->kind != OPT_FLAG;

		t.longs[i] = (struct option){ o->name, has_value, NULL, ROW + (int)i };
		if (o->letter)
			buf_addf(&t.letters, "%c%s", o->letter, has_value ? ":" : "");
	}
	t.longs[set->count] = (struct option){ "help", no_argument, NULL, 'h' };
	return t;
}

/* The row for a result of getopt_long(), or NULL. */
static const struct opt *row_of(const struct opt_set *set, int found)
{
	if (found >= ROW)
		return &set->rows[found - ROW];
	for (size_t i = 0; i < set->count; i++)
		if (found && set->rows[i].letter == found)
			return &set->rows[i];
	return NULL;
}

/* Handles one result of getopt_long(). */
static int parse_one(struct opt_set *set, int found, char **argv, struct err *e)
{
	const struct opt *o = row_of(set, found == ':' || found == '?' ? optopt : found);
	char letter[] = { '-', (char)optopt, '\0' };

	if (found == 'h') {
		set->wants_help = 1;
		return 0;
	}
	if (!o)
		return unknown(set, optopt && optopt < ROW ? letter : argv[optind - 1], e);
	if (found == ':')
		return err_set(e, "--%s needs a value: %s", o->name, o->argument);
	if (found == '?')
		return err_set(e, "--%s takes no value", o->name);
	return set_value(o, optarg, e);
}

/* Parses argv[0] to argv[end - 1]; the arguments among them come last then. Returns the index of
 * the first, or -1. */
static int parse_options(struct opt_set *set, int end, char **argv, struct err *e)
{
	struct getopt_tables t = make_tables(set);
	int found, status = 0;

	opterr = 0;
	optind = 0; /* glibc: begin anew */
	while (!status && (found = getopt_long(end, argv, t.letters.text, t.longs, NULL)) >= 0)
		status = parse_one(set, found, argv, e);
	free(t.longs);
	buf_release(&t.letters);
	return status ? -1 : optind;
}

int opt_parse(struct opt_set *set, int argc, char **argv, struct err *e)
{
	int end = 1, first, n = 1;

	/* getopt_long() would mix the words before "--" with those behind it. */
	while (end < argc && (set->stop_at_first || strcmp(argv[end], "--")))
		end++;
	first = parse_options(set, end, argv, e);
	if (first < 0)
		return -1;
	while (first < end)
		argv[n++] = argv[first++];
	for (int i = end + 1; i < argc; i++) {
		if (set->command)
			list_add(set->command, argv[i]);
		else
			argv[n++] = argv[i];
	}
	argv[n] = NULL;
	return n - 1;
}

void opt_set_release(struct opt_set *set)
{
	for (size_t i = 0; i < set->count; i++)
		if (set->rows[i].kind == OPT_LIST)
			opt_list_release(set->rows[i].value);
	if (set->command)
		opt_list_release(set->command);
}
