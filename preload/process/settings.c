#include "process/settings.h"

#include <memtrace/size.h>
#include <stdlib.h>

extern char **environ;

struct settings settings;

static int parse_PATH(const char *text, const char **value)
{
	*value = text;
	return 0;
}

static int parse_SIZE(const char *text, uint64_t *value)
{
	return memtrace_parse_size(text, value);
}

static int parse_FLAG(const char *text, int *value)
{
	if (text[0] != '0' && text[0] != '1')
		return -1;
	*value = text[0] == '1';
	return text[1] ? -1 : 0;
}

/* One step along "0,8-15": the next range, or NULL at the end or, with *bad set, if the text is not
 * a list. */
static const char *next_range(const char *p, long *low, long *high, int *bad)
{
	char *end;

	if (!*p)
		return NULL;
	*low = *high = strtol(p, &end, 10);
	if (end == p || *low < 0)
		goto bad;
	if (*end == '-') {
		p = end + 1;
		*high = strtol(p, &end, 10);
		if (end == p || *high < *low)
			goto bad;
	}
	if (*end == ',' && end[1])
		return end + 1;
	if (!*end)
		return end;
bad:
	*bad = 1;
	return NULL;
}

static int parse_RANKS(const char *text, const char **value)
{
	long low, high;
	int bad = 0;

	for (const char *p = text; p;)
		p = next_range(p, &low, &high, &bad);
	*value = text;
	return bad ? -1 : 0;
}

int settings_rank_chosen(const char *list, int rank)
{
	long low, high;
	int bad = 0;

	if (!*list || rank < 0)
		return 1;
	for (const char *p = list; (p = next_range(p, &low, &high, &bad));)
		if (rank >= low && rank <= high)
			return 1;
	return bad;
}

static const char *const expected_PATH = "a path";
static const char *const expected_SIZE = "a size such as 65536 or 512MiB";
static const char *const expected_RANKS = "ranks such as 0,8-15";
static const char *const expected_FLAG = "0 or 1";

/* The variable of the command `memtrace` that a job inherits. */
#define OF_THE_COMMAND "MEMTRACE_PYTHON"

static int is_known(const char *name, size_t length)
{
	if (length == sizeof(OF_THE_COMMAND) - 1 && memcmp(name, OF_THE_COMMAND, length) == 0)
		return 1;
#define SETTING(s, type, def, help)                                                            \
	if (length == sizeof("MEMTRACE_" #s) - 1 && memcmp(name, "MEMTRACE_" #s, length) == 0) \
		return 1;
#include "process/settings.def"
#undef SETTING
	return 0;
}

static int flag_is_set(const char *name)
{
	const char *text = getenv(name);
	int value = 0;

	return text && *text && parse_FLAG(text, &value) == 0 && value;
}

int settings_disabled(void)
{
	return flag_is_set("MEMTRACE_DISABLE");
}

int settings_nvtx(void)
{
	return flag_is_set("MEMTRACE_NVTX");
}

void settings_read(void (*complain)(const char *name, const char *expected))
{
	const char *text;

#define SETTING(name, type, def, help)                                  \
	(void)parse_##type(def, &settings.name);                        \
	text = getenv("MEMTRACE_" #name);                               \
	if (text && *text && parse_##type(text, &settings.name) != 0) { \
		(void)parse_##type(def, &settings.name);                \
		complain("MEMTRACE_" #name, expected_##type);           \
	}
#include "process/settings.def"
#undef SETTING
	for (char **e = environ; e && *e; e++) {
		const char *end = strchr(*e, '=');
		if (end && strncmp(*e, "MEMTRACE_", 9) == 0 && !is_known(*e, (size_t)(end - *e)))
			complain(*e, NULL);
	}
}
