#include "modelrun/python_find.h"

#include "util/buf.h"
#include "util/shell.h"
#include "util/util.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Prints the versions of torch and transformers, and after a semicolon those of other packages by
 * which a run differs; fails if one of the two is missing. Imports none of them, which would take
 * seconds. */
#define ASK                                                                            \
	"from importlib.metadata import version as v\n"                                \
	"def w(x):\n"                                                                  \
	"  try: return ' %s %s' % (x, v(x))\n"                                         \
	"  except Exception: return ''\n"                                              \
	"more = ('deepspeed', 'peft', 'accelerate', 'bitsandbytes', 'liger_kernel')\n" \
	"print('torch %s, transformers %s;' % (v('torch'), v('transformers')) + ''.join(map(w, more)))"

/* The first line that the command prints; NULL: it fails. */
static char *first_line(const char *command)
{
	FILE *f = popen(command, "r");
	char line[256];
	size_t n;

	if (!f)
		return NULL;
	n = fread(line, 1, sizeof(line) - 1, f);
	line[n] = '\0';
	line[strcspn(line, "\n")] = '\0';
	return pclose(f) || !n ? NULL : xstrdup(line);
}

static int try_python(struct python *p, const char *path)
{
	struct buf command = { 0 };
	char *others;

	shell_add_word(&command, (struct str){ path, strlen(path) });
	buf_puts(&command, " -c \"" ASK "\" 2>/dev/null");
	p->versions = first_line(command.text);
	buf_release(&command);
	if (!p->versions)
		return 0;
	others = strchr(p->versions, ';');
	p->others = xstrdup(others ? others + 1 : "");
	if (others)
		*others = '\0';
	p->path = xstrdup(path);
	return 1;
}

/* The Python of the environment in a variable, if that is set. */
static int try_environment(struct python *p, const char *variable)
{
	const char *folder = getenv(variable);
	char *path = folder && *folder ? xasprintf("%s/bin/python", folder) : NULL;
	int found = path && try_python(p, path);

	free(path);
	return found;
}

int python_find(struct python *p, const char *asked, struct err *e)
{
	const char *set = getenv("MEMTRACE_PYTHON");
	const char *only = asked ? asked : set && *set ? set : NULL;

	*p = (struct python){ .path = NULL };
	if (only && (!*only || (strchr(only, '/') && access(only, X_OK))))
		return err_set(e, "%s: \"%s\": %s", asked ? "--python" : "MEMTRACE_PYTHON", only,
			       *only ? strerror(errno) : "no program");
	if (only)
		return try_python(p, only)
			       ? 0
			       : err_set(e,
					 "%s: %s is no Python with torch and transformers (%s -m "
					 "pip install torch transformers)",
					 asked ? "--python" : "MEMTRACE_PYTHON", only, only);
	if (try_environment(p, "VIRTUAL_ENV") || try_environment(p, "CONDA_PREFIX") ||
	    try_python(p, "python3") || try_python(p, "python"))
		return 0;
	return err_set(e, "no Python with torch and transformers is found: python3 -m venv V && "
			  "V/bin/pip install torch transformers, then --python V/bin/python");
}

void python_release(struct python *p)
{
	free(p->path);
	free(p->versions);
	free(p->others);
}
