#include "simulate/messages.h"

#include "util/util.h"

#include <stdarg.h>
#include <stdlib.h>

void notice(const struct messages *m, const char *format, ...)
{
	va_list args;
	char *text;

	if (!m || !m->notice)
		return;
	va_start(args, format);
	text = xvasprintf(format, args);
	va_end(args);
	m->notice(text);
	free(text);
}
