/* What `html --redact` leaves out: names of hosts and users, directories and the command line. */
#ifndef MEMTRACE_REDACT_H
#define MEMTRACE_REDACT_H

#include "report/report.h"
#include "util/buf.h"

/* Texts that a page must not have. */
struct redaction {
	char **words; /* longest first */
	size_t count, room;
};

void redaction_of(struct redaction *hide, const struct report *r);
void redaction_release(struct redaction *hide);

/* Adds the names of users that paths in a text show: /home/NAME/, /Users/NAME/, C:\Users\NAME\. */
void redaction_learn(struct redaction *hide, const char *text, size_t length);
/* Adds the name of a user; NULL: none. Names of services, as "root", are no secret. */
void redaction_add_user(struct redaction *hide, const char *name);

/* Removes the words from a text, and of each path the directories. NULL: nothing. */
void redact(const struct redaction *hide, struct buf *text);

#endif
