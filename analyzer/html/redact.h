/* The texts that `html --redact` leaves out: names of hosts and users, directories and the
 * command line. */
#ifndef MEMTRACE_REDACT_H
#define MEMTRACE_REDACT_H

#include "report/report.h"
#include "util/buf.h"

/* Texts that a page must not have, and those that only look like a path. */
struct redaction {
	char **words; /* longest first; of one that ends with a separator nothing is left */
	size_t count, room;
	const char **kept; /* the job's names of phases and moments; they belong to the report */
	size_t kept_count, kept_room;
};

void redaction_of(struct redaction *hide, const struct report *r);
void redaction_release(struct redaction *hide);

/* Adds the names of users that paths in a text show: /home/NAME/, /Users/NAME/, C:\Users\NAME\. */
void redaction_learn(struct redaction *hide, const char *text, size_t length);
/* Adds the name of a user; NULL: none. Names of services, as "root", are no secret. */
void redaction_add_user(struct redaction *hide, const char *name);

/* Removes the words from a text, and of each path the directories. NULL: nothing. A path is a run
 * of characters of paths that begins as an absolute one, or has a separator inside. */
void redact(const struct redaction *hide, struct buf *text);
/* Leaves of a text that is a path as a whole the last name, without words. NULL: nothing. */
void redact_path(const struct redaction *hide, struct buf *text);
/* The same for each file of a stack: "function file:line;function file:line". */
void redact_stack(const struct redaction *hide, struct buf *text);
/* The part of a path after its last separator. */
const char *last_name(const char *path);

#endif
