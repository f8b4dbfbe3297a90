#include "util/opt.h"

#include "util/buf.h"
#include "util/size.h"

#include <errno.h>
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

static int set_choice(const struct opt *o, const char *text, struct err *e)
{
	const char *word = o->argument;

	for (int i = 0;; i++) {
		size_t n = strcspn(word, "|");

		if (strlen(text) == n && !strncmp(word, text, n)) {
			*(int *)o->value = i;
			return 0;
		}
		if (!word[n])
			return err_set(e, "--%s is \"%s\", expected one of %s", o->name, text,
				       o->argument);
		word += n + 1;
	}
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

static const struct opt *find(const struct opt_set *set, const char *word)
{
	size_t n = strcspn(word, "=");

	for (size_t i = 0; i < set->count; i++) {
		const struct opt *o = &set->rows[i];

		if (word[0] == '-' && word[1] == '-' && strlen(o->name) == n - 2 &&
		    !strncmp(o->name, word + 2, n - 2))
			return o;
		if (word[0] == '-' && o->letter && word[1] == o->letter)
			return o;
	}
	return NULL;
}

/* One option at argv[*i]; takes the next word too if that is its value. */
static int parse_one(struct opt_set *set, int argc, char **argv, int *i, struct err *e)
{
	char *word = argv[*i], *value = NULL;
	const struct opt *o;
	int is_long = word[1] == '-';

	if (!strcmp(word, "--help") || !strcmp(word, "-h")) {
		set->wants_help = 1;
		return 0;
	}
	o = find(set, word);
	if (!o)
		return unknown(set, word, e);
	if (is_long && strchr(word, '='))
		value = strchr(word, '=') + 1;
	else if (!is_long && word[2])
		value = word + 2;
	if (o->kind == OPT_FLAG && value)
		return err_set(e, "--%s takes no value", o->name);
	if (o->kind != OPT_FLAG && !value) {
		if (*i + 1 >= argc || (set->command && !strcmp(argv[*i + 1], "--")))
			return err_set(e, "--%s needs a value: %s", o->name, o->argument);
		value = argv[++*i];
	}
	return set_value(o, value, e);
}

int opt_parse(struct opt_set *set, int argc, char **argv, struct err *e)
{
	int n = 1, i;

	for (i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "--")) {
			i++;
			break;
		}
		if (argv[i][0] == '-' && argv[i][1]) {
			if (parse_one(set, argc, argv, &i, e) < 0)
				return -1;
		} else if (set->stop_at_first) {
			break;
		} else {
			argv[n++] = argv[i];
		}
	}
	for (; i < argc; i++) {
		if (set->command)
			list_add(set->command, argv[i]);
		else
			argv[n++] = argv[i];
	}
	argv[n] = NULL;
	return n - 1;
}

void opt_print_help(const struct opt_set *set)
{
	for (size_t i = 0; i < set->count; i++) {
		const struct opt *o = &set->rows[i];
		char left[64], letter[8] = "    ";

		if (o->letter)
			snprintf(letter, sizeof(letter), "-%c, ", o->letter);
		snprintf(left, sizeof(left), "%s--%s%s%s", letter, o->name, o->argument ? " " : "",
			 o->argument ? o->argument : "");
		printf("  %-32s %s\n", left, o->help);
	}
	printf("  %-32s %s\n", "-h, --help", "show this");
}
