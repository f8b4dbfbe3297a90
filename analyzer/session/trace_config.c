#include "session/trace_config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "readers/command_line.h"
#include "readers/files.h"
#include "session/trace_files.h"
#include "trace/trace.h"

static char *text_of(struct str s)
{
	return xasprintf("%.*s", (int)s.length, s.at);
}

static int has_prefix(struct str s, const char *prefix)
{
	return s.length >= strlen(prefix) && !memcmp(s.at, prefix, strlen(prefix));
}

struct words {
	char **at;
	size_t count, room;
};

static void add(struct words *w, char *text)
{
	w->at = grow(w->at, w->count, &w->room, sizeof(*w->at));
	w->at[w->count++] = text;
}

static void release(struct words *w)
{
	for (size_t i = 0; i < w->count; i++)
		free(w->at[i]);
	free(w->at);
}

/* The words of the command line are separated by zeros. */
static void split_argv(struct words *w, struct str value)
{
	for (size_t at = 0; at < value.length;) {
		size_t length = strnlen(value.at + at, value.length - at);

		add(w, text_of((struct str){ value.at + at, length }));
		at += length + 1;
	}
}

/* The name of the file is not recorded, but JSON begins with a brace. */
static int is_json(struct str s)
{
	size_t i = 0;

	while (i < s.length && strchr(" \t\r\n", s.at[i]) && s.at[i])
		i++;
	return i < s.length && s.at[i] == '{';
}

static int read_declared(struct config *c, struct str value, struct err *e)
{
	struct reader r;

	reader_init(&r, c, "MEMTRACE_CONFIG", e);
	r.lenient = 1;
	return r.read_text(&r, value.at, value.length, "MEMTRACE_CONFIG", !is_json(value));
}

static int put_version(struct config *c, struct str value, enum config_field f, struct err *e)
{
	char *text = text_of(value);
	int status = config_set_field(c, f, config_name(f), text, "the trace", e);

	free(text);
	return status;
}

int trace_config_read(struct config *c, const struct trace *t, struct err *e)
{
	struct words argv = { 0 }, env = { 0 };
	struct str declared = { 0 };
	int status = 0;

	for (size_t i = 0; i < t->tables.meta_count && !status; i++) {
		const struct meta *m = &t->tables.meta[i];

		if (m->key.length == strlen(MT_META_ARGV) && has_prefix(m->key, MT_META_ARGV))
			split_argv(&argv, m->value);
		else if (m->key.length == strlen(MT_META_CONFIG) &&
			 has_prefix(m->key, MT_META_CONFIG))
			declared = m->value;
		else if (has_prefix(m->key, MT_META_ENV))
			add(&env, xasprintf("%.*s=%.*s", (int)(m->key.length - strlen(MT_META_ENV)),
					    m->key.at + strlen(MT_META_ENV), (int)m->value.length,
					    m->value.at));
		else if (m->key.length == 13 && has_prefix(m->key, "version:torch"))
			status = put_version(c, m->value, CONFIG_torch_version, e);
		else if (m->key.length == 5 && has_prefix(m->key, "gpu:0"))
			status = put_version(c, m->value, CONFIG_gpu, e);
	}
	if (!status)
		status = config_read_arguments(c, (int)argv.count, argv.at, env.at,
					       (unsigned)env.count, 1, e);
	/* MEMTRACE_CONFIG was declared on purpose: it wins. */
	if (!status && declared.length)
		status = read_declared(c, declared, e);
	release(&argv);
	release(&env);
	return status;
}

int path_is_trace(const char *path)
{
	char magic[8] = "";
	struct stat st;
	FILE *f;

	if (stat(path, &st))
		return 0;
	if (S_ISDIR(st.st_mode))
		return 1;
	f = S_ISREG(st.st_mode) ? fopen(path, "rb") : NULL;
	if (!f)
		return 0;
	if (fread(magic, 1, sizeof(magic), f) != sizeof(magic))
		magic[0] = 0;
	fclose(f);
	return !memcmp(magic, MT_MAGIC, sizeof(magic));
}

int trace_config_read_file(struct config *c, const char *path, struct err *e)
{
	char *argument = (char *)(uintptr_t)path;
	struct trace_files g;
	struct buf notes = { 0 };
	struct trace t = { 0 };
	int status = trace_files_find(&g, &argument, 1, NULL, 0, &notes, e);

	if (!status) {
		if (trace_open_header(&t, g.paths[0], e) < 0 || trace_load(&t, e) < 0)
			status = -1;
		else
			status = trace_config_read(c, &t, e);
		trace_release(&t);
	}
	trace_files_release(&g);
	buf_release(&notes);
	return status;
}
