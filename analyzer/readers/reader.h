/*
 * The common part of the readers of formats. A reader is one table from keys to fields. Every value
 * goes through reader_put() as text, so that values are parsed and rejected in one place.
 */
#ifndef MEMTRACE_READER_H
#define MEMTRACE_READER_H

#include "config/config.h"
#include "readers/document.h"
#include "util/util.h"

/* A reader at one key of its source. */
struct reader {
	struct config *c;            /* the configuration that is filled */
	const char *key;             /* as written, for messages */
	const char *origin;          /* "ds.json:12", "--num-layers" */
	const struct doc_node *node; /* the value in a file; NULL on a command line */
	struct err *e;
	int lenient;    /* 1: a file that the source names may be on another machine */
	unsigned depth; /* number of files that name this one, one after another */
	void *state;    /* of the format, for fields that take more than one key */

	/* Reads a file that the source names. `lenient`: a missing file is a note, not an error. */
	int (*read_file)(struct reader *r, const char *path, int lenient);
	/* Reads a file's text from memory. */
	int (*read_text)(struct reader *r, const char *text, size_t length, const char *name,
			 int is_yaml);
};

/* A key, the field that it sets, and a function if the field does not simply get the value. */
struct key_row {
	const char *key;
	int field; /* enum config_field, or -1: only `take` decides */
	int (*take)(struct reader *r, int field, const char *value);
};

/* The table of a reader. */
struct key_table {
	const struct key_row *rows;
	size_t count;
	int sections; /* 1: a map under one of the keys is a section of another table, not a mistake
		       */
	/* Called for a key that has no row; NULL: such keys are ignored. */
	int (*unknown)(struct reader *r, const char *key, const char *value);
};

const struct key_row *key_row_find(const struct key_row *rows, size_t count, const char *key);

/* Sets a field from text; r->key and r->origin are for the message. -1: the value is malformed. */
int reader_put(struct reader *r, int field, const char *value);
/* Adds an option to unmodelled_options: system memtrace then rejects the job with these words. */
int reader_put_unmodelled(struct reader *r, const char *written, const char *what);

/* Reads one key with its value. */
int reader_read_key(struct reader *r, const struct key_table *t, const char *key,
		    const char *value);
/* Reads every scalar and list of a map, but no map inside it. Sets r->origin to "name:line" for
 * each. */
int reader_read_map(struct reader *r, const struct key_table *t, const struct doc_node *map,
		    const char *name);
/* Reads a whole tree: keys of maps inside are written "zero_optimization.stage". */
int reader_read_tree(struct reader *r, const struct key_table *t, const struct doc_node *map,
		     const char *name);

/* Functions for key_row.take. */
int take_not(struct reader *r, int field, const char *value);       /* --disable-bias-linear */
int take_attention(struct reader *r, int field, const char *value); /* flash_attention_2 is flash */
int take_ignore(struct reader *r, int field, const char *value);    /* a key without effect */
/* Any framework's name of an optimizer. */
int take_optimizer(struct reader *r, int field, const char *value);

/* Keys and flags in Megatron's spelling: "--num-layers" is "num_layers". */
void snake_case(char *to, size_t room, const char *key);

#endif
