/*
 * What the readers share. A reader is one table, key -> field; every value passes through
 * reader_put as text, so that it is parsed, and refused, in one place.
 */
#ifndef CONFIG_READER_H
#define CONFIG_READER_H

#include "config/config.h"
#include "config/document.h"
#include "util/util.h"

/* One key as a reader met it. */
struct reader {
	struct config *c;
	const char *key;         /* as written, for messages */
	const char *origin;      /* "ds.json:12", "--num-layers" */
	const struct doc_node *node; /* a file's value; NULL on a command line */
	struct err *e;
	int lenient;    /* files that another machine named need not be here */
	unsigned depth; /* files that name files */
	void *state;    /* the format's own, for fields that take more than one key */

	/* Reads a file that the present one names; `lenient`: a missing file is a note. */
	int (*read_file)(struct reader *r, const char *path, int lenient);
	/* Reads a file's text that is in memory. */
	int (*read_text)(struct reader *r, const char *text, size_t length, const char *name,
			 int is_yaml);
};

/* A row: a key, the field it sets, and how, where it is not the plain value. */
struct key_row {
	const char *key;
	int field; /* enum config_field, or -1 when `take` alone knows */
	int (*take)(struct reader *r, int field, const char *value);
};

/* Sets a field from the text of the present key. */
int reader_put(struct reader *r, int field, const char *value);

/* takers for tables */
int take_not(struct reader *r, int field, const char *value);    /* --disable-bias-linear */
int take_ignore(struct reader *r, int field, const char *value); /* known, without effect */

int take_optimizer(struct reader *r, int field,
		   const char *value); /* any framework's name of one */

/* A reader's table, and what it does with other keys. */
struct key_table {
	const struct key_row *rows;
	size_t count;
	int sections; /* maps under its keys are another's, not mistakes */
	/* NULL: other keys are another's concern */
	int (*unknown)(struct reader *r, const char *key, const char *value);
};

/* One key with its value. */
int reader_read_key(struct reader *r, const struct key_table *t, const char *key,
		    const char *value);
/* Every scalar and list of a map; maps inside are left to the reader. Sets r->origin to "name:line"
 * on the way. */
int reader_read_map(struct reader *r, const struct key_table *t, const struct doc_node *map,
		     const char *name);
/* The same over a whole tree: keys of maps inside are "zero_optimization.stage". */
int reader_read_tree(struct reader *r, const struct key_table *t, const struct doc_node *map,
		     const char *name);
/* A scalar as it is, a list as "[a,b]". To be freed. */
char *doc_text(const struct doc_node *n);

const struct key_row *key_row_find(const struct key_row *rows, size_t count, const char *key);

/* Keys and flags in Megatron's spelling: "--Num-Layers" is "num_layers". */
void snake_case(char *to, size_t room, const char *key);

#endif
