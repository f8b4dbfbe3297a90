/* What the tests of the readers share: jobs as rows, each with its files, command line, environment
 * and what they must come to. */
#ifndef TEST_CONFIG_GIVEN_H
#define TEST_CONFIG_GIVEN_H

#include <unistd.h>

#include "config_fixture.h"
#include "util/buf.h"
#include "readers/native.h"
#include "readers/derive.h"
#include "readers/files.h"
#include "readers/command_line.h"

#define MAX_GIVEN 64

static char dir[] = "/tmp/memtrace-config-XXXXXX";

static int make_dir(void **state)
{
	(void)state;
	return mkdtemp(dir) && !chdir(dir) ? 0 : -1;
}

static int remove_dir(void **state)
{
	char command[64];

	(void)state;
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	return chdir("/") || system(command);
}

static void write_file(const char *name, const char *text)
{
	FILE *f = fopen(name, "wb");

	assert_non_null(f);
	fputs(text, f);
	fclose(f);
}

/* Splits at spaces; '' keeps what is inside together. */
static int split(char *text, char **to)
{
	int n = 0;

	while (*text && n < MAX_GIVEN - 1) {
		char end = *text == '\'' ? '\'' : ' ';

		text += *text == '\'';
		to[n++] = text;
		text += strcspn(text, (char[]){ end, 0 });
		if (*text)
			*text++ = 0;
		text += strspn(text, " ");
	}
	to[n] = NULL;
	return n;
}

static void expect(const char *what, const char *pairs)
{
	char text[4096], *save = NULL;

	snprintf(text, sizeof(text), "%s", pairs);
	for (char *pair = strtok_r(text, "; ", &save); pair; pair = strtok_r(NULL, "; ", &save)) {
		char *equals = strchr(pair, '=');
		struct buf is = { 0 };
		int field;

		*equals = 0;
		field = config_find(pair);
		if (field < 0)
			fail_msg("%s: no field %s", what, pair);
		config_value(&config, field, &is);
		if (strcmp(is.text ? is.text : "-", equals + 1))
			fail_msg("%s: %s is %s, not %s", what, pair, is.text ? is.text : "-",
				 equals + 1);
		buf_release(&is);
	}
}

static int has_note(const char *part)
{
	for (unsigned i = 0; i < config.note_count; i++)
		if (strstr(config.notes[i], part))
			return 1;
	return 0;
}

struct given {
	const char *name;
	const char *files[6]; /* name, text, name, text */
	const char *read[3];  /* which of them with --config */
	const char *argv, *env;
	const char *expect; /* or, when it must fail, NULL */
	const char *say[4]; /* notes, or parts of the message */
};

static int read_given(const struct given *g)
{
	char argv_text[4096], env_text[2048], *argv[MAX_GIVEN], *env[MAX_GIVEN];
	int argc, count;

	for (size_t i = 0; i + 1 < 6 && g->files[i]; i += 2)
		write_file(g->files[i], g->files[i + 1]);
	for (size_t i = 0; i < 3 && g->read[i]; i++)
		if (config_read_file(&config, g->read[i], &why))
			return -1;
	snprintf(argv_text, sizeof(argv_text), "%s", g->argv ? g->argv : "");
	snprintf(env_text, sizeof(env_text), "%s", g->env ? g->env : "");
	argc = split(argv_text, argv);
	count = split(env_text, env);
	if ((argc || count) && config_read_command(&config, argc, argv, env, (unsigned)count, &why))
		return -1;
	return config_derive(&config, &why);
}

static void check(const struct given *all, size_t count)
{
	for (size_t i = 0; i < count; i++) {
		const struct given *g = &all[i];
		int status;

		config_release(&config);
		memset(&why, 0, sizeof(why));
		status = read_given(g);
		if (g->expect && status)
			fail_msg("%s: %s", g->name, why.text);
		if (!g->expect && !status)
			fail_msg("%s: accepted", g->name);
		if (g->expect)
			expect(g->name, g->expect);
		for (size_t s = 0; s < 4 && g->say[s]; s++)
			if (g->expect ? !has_note(g->say[s]) : !strstr(why.text, g->say[s]))
				fail_msg("%s: \"%s\" is not said%s%s", g->name, g->say[s],
					 g->expect ? "" : ": ", why.text);
		if (g->expect && !g->say[0] && config.note_count)
			fail_msg("%s: unexpected note \"%s\"", g->name, config.notes[0]);
	}
}

#define READER(name)                                         \
	static void read_##name(void **state)                \
	{                                                    \
		(void)state;                                 \
		check(name, sizeof(name) / sizeof(name[0])); \
	}

#endif
