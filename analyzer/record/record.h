/*
 * A record: what a report says about one device of one process, as one line of JSON of at most
 * RECORD_MAX bytes. Records of many ranks are small enough to be kept, joined and asked where the
 * traces are not. report/members.def has the keys.
 */
#ifndef MEMTRACE_RECORD_H
#define MEMTRACE_RECORD_H

#include <jansson.h>

#include "config/config.h"
#include "diagnose/diagnose.h"
#include "report/report.h"
#include "util/buf.h"

/* The version of the keys. A reader refuses a newer one: a key never changes its meaning within a
 * version, and may be added. */
#define RECORD_VERSION 1
#define RECORD_KEY "memtrace_record"
/* With the end of the line. */
#define RECORD_MAX 65536
/* The number of first steps among the `kept` ones of a longer list; the others are its last. */
#define RECORD_FIRST_STEPS(kept) ((kept) / 2)

/* An estimate of the declared configuration, by component, for the rank's pipeline stage. */
struct record_estimate {
	const char *system;
	bytes allocated, reserved, device; /* UNKNOWN_BYTES: the system does not say */
	struct record_part {
		const char *component;
		bytes bytes;
	} parts[32];
	size_t part_count;
};

/* Writes the record of `r`, with a line end. `declared`: the job's configuration. `diagnosis`: of
 * the report that has `r` at index `at`. `estimate`: NULL: there is none. */
void record_write(struct buf *out, const struct rank *r, const struct config *declared,
		  const struct diagnosis *diagnosis, size_t at,
		  const struct record_estimate *estimate);

/* Parses a line that is a record of a version that is known; NULL: it is not one. */
json_t *record_parse(const char *line, size_t length, struct err *e);
/* Adds the rank of a parsed record to a report; its texts are those of `r->texts`, if there are
 * such. `estimates` and `findings` stay in the record: a
 * diagnosis is made of the metrics, which are in it. */
int record_add(struct report *r, const json_t *record, struct err *e);
/* Sets the fields of the configuration that a record declares. */
int record_config(struct config *c, const json_t *record, struct err *e);

/* A name of the job's configuration: equal for runs that declare the same. Without a declared model
 * it is of the command line. */
void record_fingerprint(const struct config *c, const char *command, char text[17]);
/* The model of a configuration in words: "llama 32 layers x 4096"; "" if it declares none. */
void record_model(const struct config *c, struct buf *out);

#endif
