#include "util/terminal.h"

#include <langinfo.h>
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#define NARROWEST 40
#define WIDEST 160

static int is_set(const char *name)
{
	const char *value = getenv(name);

	return value && *value;
}

static int wants_color(enum color_when when)
{
	const char *term = getenv("TERM"), *force = getenv("CLICOLOR_FORCE");

	if (when != COLOR_AUTO)
		return when == COLOR_ALWAYS;
	if (is_set("NO_COLOR"))
		return 0;
	if (force && *force && strcmp(force, "0"))
		return 1;
	return isatty(STDOUT_FILENO) && term && strcmp(term, "dumb");
}

static int columns(void)
{
	const char *text = getenv("COLUMNS");
	struct winsize size;
	int n = 0;

	if (text)
		n = atoi(text);
	if (n <= 0 && !ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		n = size.ws_col;
	if (n <= 0)
		n = 80;
	return n < NARROWEST ? NARROWEST : n > WIDEST ? WIDEST : n;
}

struct style term_style(enum color_when when)
{
	setlocale(LC_CTYPE, "");
	return (struct style){
		.width = columns(),
		.color = wants_color(when),
		.unicode = !strcmp(nl_langinfo(CODESET), "UTF-8"),
		.top = 10,
	};
}

static int shown;

void term_progress(void *context, double part)
{
	static struct timespec start;
	static int is_terminal = -1, last = -1;
	struct timespec now;

	(void)context;
	if (is_terminal < 0) {
		is_terminal = isatty(STDERR_FILENO);
		clock_gettime(CLOCK_MONOTONIC, &start);
	}
	if (!is_terminal || last == (int)(part * 100))
		return;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if ((double)(now.tv_sec - start.tv_sec) + (double)(now.tv_nsec - start.tv_nsec) / 1e9 < 0.5)
		return;
	last = (int)(part * 100);
	shown = 1;
	fprintf(stderr, "\rreading %3d %%", last);
	fflush(stderr);
}

void term_progress_end(void)
{
	if (shown)
		fputs("\r\033[K", stderr);
	shown = 0;
}
