#include "simulate/command_template.h"

#include "util/size.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_LEAST = 12 };

int trial_has_place(char *const *command, const char *key)
{
	char *place = xasprintf("{%s}", key);
	int found = 0;

	for (; *command && !found; command++)
		found = strstr(*command, place) != NULL;
	free(place);
	return found;
}

static char *fill_word(const char *word, const struct place *places, size_t count)
{
	char *filled = xstrdup(word);

	for (size_t i = 0; i < count; i++) {
		char *place = xasprintf("{%s}", places[i].key);
		char *next = simulation_fill(filled, place, places[i].value);

		free(filled);
		free(place);
		filled = next;
	}
	return filled;
}

char **trial_fill(char *const *command, const struct place *places, size_t count)
{
	size_t words = 0, n = 0;
	char **filled;

	while (command[words])
		words++;
	filled = xcalloc(words + 1, sizeof(*filled));
	for (size_t i = 0; i < words; i++) {
		char *word = fill_word(command[i], places, count);

		if (*word || !*command[i])
			filled[n++] = word;
		else
			free(word);
	}
	return filled;
}

void trial_release(char **words)
{
	for (size_t i = 0; words[i]; i++)
		free(words[i]);
	free(words);
}

static void note(struct trial *t, const struct report *r, const struct outcome *outcomes,
		 size_t count)
{
	for (size_t i = 0; i < r->count; i++)
		if (r->ranks[i].peak_device > t->peak)
			t->peak = r->ranks[i].peak_device;
	for (size_t i = 0; i < count; i++)
		t->seconds += outcomes[i].seconds;
}

int trial_run(const struct simulation *like, const struct place *places, size_t count,
	      const char *folder, struct trial *t, struct err *e)
{
	struct simulation s = *like;
	size_t ranks = s.whole ? 1 : s.rank_count;
	struct outcome *outcomes = xcalloc(ranks, sizeof(*outcomes));
	char **command = trial_fill(s.command, places, count),
	     *directory = xasprintf("%s/%s", s.directory, folder);
	struct report r = { 0 };
	int status;

	s.command = command;
	s.directory = directory;
	err_print("%s", t->name);
	status = simulation_run(&s, outcomes, e);
	if (!status) {
		summary_read(directory, &r);
		t->verdict = summary_verdict(outcomes, ranks, &r);
		note(t, &r, outcomes, ranks);
		if (t->verdict == FAILED)
			status = err_set(
				e,
				"%s: the command failed for another reason than memory (its messages are above)",
				t->name);
	}
	report_release(&r);
	for (size_t i = 0; i < ranks; i++)
		free(outcomes[i].last_key);
	trial_release(command);
	free(outcomes);
	free(directory);
	return status;
}

void trial_print(const char *heading, const struct trial *trials, size_t count)
{
	static const char *const words[] = { "fits", "out of memory", "failed" };
	int width = NAME_LEAST;

	for (size_t i = 0; i < count; i++)
		if ((int)strlen(trials[i].name) > width)
			width = (int)strlen(trials[i].name);
	fprintf(stderr, "%*s  %10s  %-14s  took\n", width, heading, "device", "");
	for (size_t i = 0; i < count; i++) {
		const struct trial *t = &trials[i];
		struct buf size = { 0 }, name = { 0 };

		size_add(&size, t->peak, 0);
		buf_add_clean(&name, (struct str){ t->name, strlen(t->name) });
		fprintf(stderr, "%*s  %10s  %-14s  %.0f s\n", width, name.text, size.text,
			words[t->verdict], t->seconds);
		buf_release(&size);
		buf_release(&name);
	}
}
