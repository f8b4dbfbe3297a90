/* Writing Python's pickle format, protocol 4 (Lib/pickletools.py of CPython): values one after the
 * other, containers by their parts. */
#ifndef MEMTRACE_EXPORT_PICKLE_H
#define MEMTRACE_EXPORT_PICKLE_H

#include "export/output.h"
#include "util/util.h"

struct pickle {
	struct output *out;
	uint32_t remembered;
};

#define NOT_REMEMBERED UINT32_MAX

void pickle_begin(struct pickle *p, struct output *out);
void pickle_end(struct pickle *p);

void pickle_integer(struct pickle *p, int64_t value);
void pickle_real(struct pickle *p, double value);
void pickle_boolean(struct pickle *p, int value);
/* Valid UTF-8, less than 4 GiB. */
void pickle_text(struct pickle *p, struct str text);
void pickle_word(struct pickle *p, const char *text);

/* The value that was just written gets a number, by which pickle_again() writes it once more. */
uint32_t pickle_remember(struct pickle *p);
void pickle_again(struct pickle *p, uint32_t number);

/* {}, then any number of groups: pickle_group(), keys and values, pickle_set_items(). A list is the
 * same with [] and pickle_append_items(). */
void pickle_dict(struct pickle *p);
void pickle_list(struct pickle *p);
void pickle_group(struct pickle *p);
void pickle_set_items(struct pickle *p);
void pickle_append_items(struct pickle *p);
/* (a, b) of the last two values. */
void pickle_pair(struct pickle *p);

#endif
