/* Why something failed, for people. Functions that can fail take one last and return 0 or -1; the
 * first reason wins. */
#ifndef MEMTRACE_ERR_H
#define MEMTRACE_ERR_H

struct err {
	char text[512];
};

/* Always -1, so that callers can write `return err_set(e, …)`. */
__attribute__((format(printf, 2, 3))) int err_set(struct err *e, const char *format, ...);

/* One line on stderr. Here as in err_set(), control characters become "?". */
__attribute__((format(printf, 1, 2))) void err_print(const char *format, ...);

#endif
