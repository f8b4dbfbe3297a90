/* Records in the place of traces. */
#ifndef MEMTRACE_SESSION_RECORDS_H
#define MEMTRACE_SESSION_RECORDS_H

#include "session/session.h"

/* Reads the records of one run, which is chosen as of the traces of one directory, whatever the
 * files. `s` is empty. */
int session_load_records(struct session *s, char *const *arguments, size_t count,
			 const struct session_options *o, struct buf *notes, struct err *e);

#endif
