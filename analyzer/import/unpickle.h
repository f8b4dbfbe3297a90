/*
 * Reads the data of a Python pickle (protocols 2 to 5) without evaluating anything: numbers, texts,
 * lists, tuples and dictionaries. An opcode that would import or call something (GLOBAL, REDUCE,
 * BUILD, ...) is refused by name. Memory is at most some 50 times the file's size.
 */
#ifndef MEMTRACE_IMPORT_UNPICKLE_H
#define MEMTRACE_IMPORT_UNPICKLE_H

#include <stdint.h>

#include "util/err.h"
#include "util/util.h"

enum value_type {
	VALUE_NONE,
	VALUE_BOOLEAN,
	VALUE_INTEGER,
	VALUE_REAL,
	VALUE_TEXT,
	VALUE_LIST, /* of a tuple too */
	VALUE_DICT,
	VALUE_MARK /* never seen by a caller */
};

/* A value. Texts point into the file; lists and dictionaries are objects that several values may
 * share, also themselves. */
struct pickled {
	enum value_type type;
	uint32_t length; /* of a text */
	union {
		int64_t integer;
		double real;
		const char *text;
		struct items *items;
	};
};

/* The items of a list; the keys and values of a dictionary in turn. */
struct items {
	struct pickled *at;
	size_t count, room;
	uint32_t number; /* of the user, as `mark`; 0 at first */
	uint8_t mark;
	struct items *next;
};

struct pickle_data {
	struct pickled root;
	struct items *all;
	struct pickled *stack, *memo;
	size_t stack_count, stack_room, memo_count, memo_room, container_count;
};

/* `data` must stay as long as the values. -1: the message names the opcode and its place. */
int unpickle(struct pickle_data *to, const void *data, size_t size, struct err *e);
void pickle_data_release(struct pickle_data *p);

/* The value of a key; of type VALUE_NONE if there is none, or if `dict` is no dictionary. */
struct pickled dict_get(struct pickled dict, const char *key);
/* The items of a list; none if it is no list. */
const struct items *list_items(struct pickled list);
/* An integer that is not negative; `otherwise` if it is none. */
int64_t value_size(struct pickled v, int64_t otherwise);
int value_is(struct pickled v, const char *text);

#endif
