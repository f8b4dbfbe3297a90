/* The abilities of the terminal. */
#ifndef MEMTRACE_TERM_H
#define MEMTRACE_TERM_H

enum color_when { COLOR_AUTO, COLOR_ALWAYS, COLOR_NEVER };

struct style {
	int width; /* columns */
	int color;
	int unicode;
	int raw_bytes;
	int top;    /* stacks to show */
	int advise; /* show the line "advice" also if memory is not nearly used up */
};

/* The style for standard output, from its terminal and the environment. */
struct style term_style(enum color_when when);

/* Shows progress on standard error, if it is a terminal and the work takes more than half a second.
 */
void term_progress(void *context, double part);
void term_progress_end(void);

#endif
