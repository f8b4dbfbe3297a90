/*
 * Every reader of the declared configuration over hostile input, and the systems over what they
 * made of it. One target a reader: FUZZ_READER names it, its seeds are in
 * tests/unit/fuzz/corpus/NAME. test_fuzz.c runs the seeds, and mutations of them, without
 * libFuzzer.
 */
#include "fuzz_config.h"
#include "systems/systems.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/buf.h"
#include "readers/accelerate.h"
#include "readers/deepspeed.h"
#include "readers/files.h"
#include "readers/hf.h"
#include "readers/megatron.h"
#include "readers/native.h"
#include "readers/trainer.h"
#include "estimate/estimate.h"
#include "session/trace_config.h"
#include "json/config_json.h"
#include "render/config_show.h"
#include "trace/trace.h"
#include "readers/derive.h"
#include "readers/command_line.h"
#include "inputs.h"

#define MAX_LINES 64
#define MAX_META 16

int LLVMFuzzerInitialize(int *argc, char ***argv);

typedef int (*file_reader)(struct reader *r, const struct doc_node *root, const char *name);

static int read_file(struct config *c, const char *text, size_t length, int is_yaml,
		     file_reader reader, struct err *e)
{
	/* lenient, so that no file that the input happens to name ends the reading */
	struct reader r;
	struct doc_node *root = is_yaml ? doc_read_yaml(text, length, "input", e)
					: doc_read_json(text, length, "input", e);
	int status = -1;

	reader_init(&r, c, "input", e);
	r.lenient = 1;
	if (root && root->kind != DOC_MAP)
		err_set(e, "not a map");
	else if (root)
		status = reader(&r, root, "input");
	doc_free(root);
	return status;
}

static unsigned split(char *text, char **lines, unsigned most)
{
	unsigned n = 0;

	while (n < most && text) {
		lines[n++] = text;
		text = strchr(text, '\n');
		if (text)
			*text++ = 0;
	}
	return n;
}

/* Arguments, one a line, after those that make the line this framework's. */
static int read_command(struct config *c, char *text, const char *const *first, struct err *e)
{
	char *argv[MAX_LINES + 4];
	unsigned n = 0;

	for (; first[n]; n++)
		argv[n] = (char *)(uintptr_t)first[n];
	n += split(text, argv + n, MAX_LINES);
	return config_read_arguments(c, (int)n, argv, NULL, 0, 1, e);
}

#define FILE_READER(name, function, is_yaml)                                               \
	static int read_##name(struct config *c, char *text, size_t length, struct err *e) \
	{                                                                                  \
		return read_file(c, text, length, is_yaml, function, e);                   \
	}
#define COMMAND_READER(name, ...)                                                          \
	static int read_##name(struct config *c, char *text, size_t length, struct err *e) \
	{                                                                                  \
		static const char *const first[] = { __VA_ARGS__ };                        \
		(void)length;                                                              \
		return read_command(c, text, first, e);                                    \
	}

FILE_READER(own, config_read_native, 0)
FILE_READER(hf, config_read_hf, 0)
FILE_READER(deepspeed, config_read_deepspeed, 0)
FILE_READER(accelerate, config_read_accelerate, 1)
FILE_READER(megatron_yaml, config_read_megatron_yaml, 1)
FILE_READER(trainer_file, config_read_trainer_file, 0)
COMMAND_READER(megatron, "pretrain_gpt.py", NULL)
COMMAND_READER(torchtitan, "-m", "torchtitan.train", NULL)
COMMAND_READER(trainer, "train.py", "--per_device_train_batch_size=1", NULL)
COMMAND_READER(launcher, NULL)

static int read_environment(struct config *c, char *text, size_t length, struct err *e)
{
	char *lines[MAX_LINES];

	(void)length;
	return config_read_arguments(c, 0, NULL, lines, split(text, lines, MAX_LINES), 1, e);
}

/* KEY=VALUE, one a line; a space in the command line stands for the zero between arguments. */
static int read_header(struct config *c, char *text, size_t length, struct err *e)
{
	static struct trace t;
	struct meta meta[MAX_META];
	char *lines[MAX_META];

	(void)length;
	t.tables.meta = meta;
	t.tables.meta_count = split(text, lines, MAX_META);
	for (size_t i = 0; i < t.tables.meta_count; i++) {
		char *equals = strchr(lines[i], '='), *end = lines[i] + strlen(lines[i]);

		if (!equals)
			equals = end;
		meta[i].key = (struct str){ lines[i], (size_t)(equals - lines[i]) };
		equals += *equals == '=';
		meta[i].value = (struct str){ equals, (size_t)(end - equals) };
		for (char *at = equals; *at && !strncmp(lines[i], MT_META_ARGV, 4); at++)
			if (*at == ' ')
				*at = 0;
	}
	return trace_config_read(c, &t, e);
}

const struct fuzz_reader fuzz_readers[] = {
	{ "megatron", read_megatron },
	{ "megatron-yaml", read_megatron_yaml },
	{ "hf", read_hf },
	{ "deepspeed", read_deepspeed },
	{ "accelerate", read_accelerate },
	{ "torchtitan", read_torchtitan },
	{ "trainer", read_trainer },
	{ "trainer-file", read_trainer_file },
	{ "own", read_own },
	{ "header", read_header },
	{ "environment", read_environment },
	{ "launcher", read_launcher },
	{ NULL, NULL },
};

/* What the systems make of it: a refusal or an estimate whose terms add up. */
static void estimate_all(const struct config *c)
{
	for (size_t i = 0; i < system_count; i++) {
		struct err e = { "" };
		struct estimate made;

		if (estimate_make(&made, systems[i], c, 1, &e) && !e.text[0])
			abort();
		if (!e.text[0] && made.total < 0)
			abort();
		estimate_release(&made);
	}
}

void fuzz_one(const struct fuzz_reader *reader, const uint8_t *data, size_t size)
{
	struct err e = { "" };
	struct buf out = { 0 };
	struct config c;
	char *text = xcalloc(size + 1, 1);
	int status;

	memcpy(text, data, size);
	config_init(&c);
	status = reader->read(&c, text, size, &e);
	if (!status)
		status = config_derive(&c, &e);
	/* who fails says why */
	if (status && !e.text[0])
		abort();
	config_show(&c, &out);
	config_show_json(&c, &out);
	if (!status)
		estimate_all(&c);
	buf_release(&out);
	config_release(&c);
	free(text);
}

static const struct fuzz_reader *chosen;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	const char *name = getenv("FUZZ_READER");

	(void)argc, (void)argv;
	for (chosen = fuzz_readers; chosen->name; chosen++)
		if (name && !strcmp(name, chosen->name))
			return 0;
	fprintf(stderr, "FUZZ_READER is \"%s\", expected one of", name ? name : "");
	for (chosen = fuzz_readers; chosen->name; chosen++)
		fprintf(stderr, " %s", chosen->name);
	fputs("\n", stderr);
	exit(2);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (size <= 100000)
		fuzz_one(chosen, data, size);
	return 0;
}
