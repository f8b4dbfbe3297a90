/* The reason of a failure, for people. A function that can fail takes it as its last argument and
 * returns 0 or -1; the first reason wins. */
#ifndef MEMTRACE_ERR_H
#define MEMTRACE_ERR_H

struct err {
	char text[512];
};

/* Always -1, so that callers can write `return err_set(e, …)`. */
__attribute__((format(printf, 2, 3))) int err_set(struct err *e, const char *format, ...);

/* Prints one line on stderr. Control characters become "?", as in err_set(). */
__attribute__((format(printf, 1, 2))) void err_print(const char *format, ...);

#endif
