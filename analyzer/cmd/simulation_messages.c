#include "cmd/simulation_messages.h"

#include "util/err.h"

#include <stdio.h>
#include <unistd.h>

static void print_notice(const char *text)
{
	err_print("%s", text);
}

/* One line, which each call overwrites. */
static void print_progress(const struct simulation_progress *p)
{
	fprintf(stderr, "\rmemtrace: %zu of %zu ranks simulated", p->done, p->total);
	if (p->done && p->done < p->total)
		fprintf(stderr, ", %.0f s more",
			p->seconds / (double)p->done * (double)(p->total - p->done));
	else if (p->active)
		fprintf(stderr, ", %.0f s", p->seconds);
	fputs(p->done == p->total ? "          \n" : "          ", stderr);
}

const struct messages *simulation_messages_of_terminal(void)
{
	return isatty(STDERR_FILENO) ? simulation_messages() : NULL;
}

const struct messages *simulation_messages(void)
{
	static const struct messages quiet = { .notice = print_notice },
				     all = { .notice = print_notice, .progress = print_progress };

	return isatty(STDERR_FILENO) ? &all : &quiet;
}
