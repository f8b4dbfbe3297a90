/* Options as tables: parsing, help and "did you mean" follow from one row per option. */
#ifndef MEMTRACE_OPT_H
#define MEMTRACE_OPT_H

#include "util/err.h"
#include "util/util.h"

enum opt_kind {
	OPT_FLAG,   /* int: set to 1 */
	OPT_TEXT,   /* const char * */
	OPT_COUNT,  /* int: lowest to highest */
	OPT_SIZE,   /* bytes */
	OPT_CHOICE, /* int: index of the word in `argument` ("always|never|auto") */
	OPT_LIST,   /* struct opt_list: may be given several times */
};

/* In the order given; each points into argv. */
struct opt_list {
	char **at;
	size_t count, room;
};

struct opt {
	const char *name; /* without the dashes */
	char letter;      /* or 0 */
	enum opt_kind kind;
	void *value;
	const char *argument; /* as help shows it */
	const char *help;
	int lowest, highest;
};

struct opt_set {
	const struct opt *rows;
	size_t count;
	int stop_at_first;        /* the first argument ends the options: a command line follows */
	struct opt_list *command; /* receives the words after "--"; NULL: they are arguments too */
	int wants_help;           /* --help or -h was given */
};

/* Parses by getopt_long(): long options may be abbreviated, "--" ends the options. Moves the
 * arguments to the front of argv (from argv[1] on), NULL after them; returns their number, or -1.
 */
int opt_parse(struct opt_set *set, int argc, char **argv, struct err *e);
/* The word of OPT_CHOICE with this index, of "always|never|auto"; empty: there are fewer. */
struct str opt_word(const char *words, int index);
/* Releases the lists that opt_parse() filled. */
void opt_set_release(struct opt_set *set);
void opt_list_release(struct opt_list *list);

#endif
