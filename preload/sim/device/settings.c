/* CUDASIM_* from the environment. Wrong values are named and reported, never fatal: see
 * sim_ready(). */
#define _GNU_SOURCE
#include "device/settings.h"

#include "device/common.h"
#include "device/context.h"
#include "device/gpu.h"

#include <memtrace/size.h>

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

struct settings settings;

__attribute__((format(printf, 1, 0))) static void say(const char *format, va_list arguments)
{
	char line[1024];
	int prefix = snprintf(line, sizeof line, "cudasim: ");
	vsnprintf(line + prefix, sizeof line - (size_t)prefix - 1, format, arguments);
	size_t end = strnlen(line, sizeof line - 2);
	line[end++] = '\n';
	/* one write, so that the lines of several ranks do not mix */
	if (write(STDERR_FILENO, line, end) < 0)
		return;
}

void sim_say(const char *format, ...)
{
	va_list arguments;
	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
}

void sim_log(const char *format, ...)
{
	if (!settings.log)
		return;
	va_list arguments;
	va_start(arguments, format);
	say(format, arguments);
	va_end(arguments);
}

static bool wrong(const char *variable, const char *value, const char *expected)
{
	sim_say("%s=%s: expected %s", variable, value, expected);
	return false;
}

/* A row of settings.def. */
struct setting {
	const char *variable, *fallback;
	uint64_t low, high;
};

static bool parse_SIZE(const struct setting *s, const char *text, void *field)
{
	uint64_t size;
	if (memtrace_parse_size(text, &size) || size < s->low || size > s->high)
		return false;
	*(uint64_t *)field = size;
	return true;
}

static bool parse_COUNT(const struct setting *s, const char *text, void *field)
{
	char *end;
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	unsigned long long value = strtoull(text, &end, 10);
	if (errno || *end || value < s->low || value > s->high)
		return false;
	*(uint64_t *)field = value;
	return true;
}

static bool parse_CHOICE(const struct setting *s, const char *text, void *field)
{
	uint64_t place = 0;
	for (const char *choice = s->fallback; *choice; place++) {
		size_t length = strcspn(choice, "|");
		if (strlen(text) == length && !strncmp(text, choice, length)) {
			*(uint64_t *)field = place;
			return true;
		}
		choice += length + (choice[length] == '|');
	}
	return false;
}

static bool parse_NAME(const struct setting *s, const char *text, void *field)
{
	(void)s;
	if (strlen(text) >= sizeof settings.gpu)
		return false;
	strcpy(field, text);
	return true;
}

#define EXPECTED_SIZE "bytes or a size such as 80GiB"
#define EXPECTED_COUNT "a whole number"
#define EXPECTED_CHOICE NULL
#define EXPECTED_NAME "a short name"

static bool setting(const struct setting *s, void *field,
		    bool (*parse)(const struct setting *, const char *, void *),
		    const char *expected)
{
	char range[160];
	const char *value = getenv(s->variable);
	if (!value || !*value) {
		if (!expected)
			return *(uint64_t *)field = 0, true;
		value = s->fallback;
	}
	if (!*value || parse(s, value, field))
		return true;
	if (!expected)
		snprintf(range, sizeof range, "one of %s", s->fallback);
	else
		snprintf(range, sizeof range, "%s from %llu to %llu", expected,
			 (unsigned long long)s->low, (unsigned long long)s->high);
	return wrong(s->variable, value, parse == parse_NAME ? expected : range);
}

#define UUID_TEXT 40 /* "GPU-" and 36 digits and dashes; the last two digits are the device */

/* As CUDA reads the variable: the devices of the list up to the first that does not exist; none
 * for an empty list. Launchers set it, and programs set it empty to stay off the GPU. The
 * devices differ only in the values that name them. */
static uint64_t visible_devices(uint64_t gpus)
{
	const char *list = getenv("CUDA_VISIBLE_DEVICES");
	uint64_t visible = 0;
	for (unsigned i = 0; i < MAX_DEVICES; i++)
		settings.physical[i] = (unsigned char)i;
	if (!list)
		return gpus;
	while (*list && visible < gpus) {
		char *end;
		bool uuid = !strncmp(list, "GPU-", 4);
		size_t length = strcspn(list, ",");
		unsigned long index = uuid ? strtoul(list + (length < 2 ? 0 : length - 2), &end, 16)
					   : strtoul(list, &end, 10);
		if (uuid && (length != UUID_TEXT || index >= gpus))
			index = visible; /* an abbreviation: the next of the equal devices */
		if (!uuid && (*list < '0' || *list > '9' || index >= gpus))
			break;
		settings.physical[visible++] = (unsigned char)index;
		list += strcspn(list, ",");
		list += *list == ',';
	}
	return visible;
}

bool settings_load(void)
{
	bool good = true;
#define SETTING(type, field, variable, fallback, low, high, help)                            \
	good &= setting(&(struct setting){ variable, fallback, low, high }, &settings.field, \
			parse_##type, EXPECTED_##type);
#include "device/settings.def"
#undef SETTING
	settings.card = gpu_find(settings.gpu);
	if (!settings.card) {
		char names[512];
		gpu_names(names, sizeof names);
		return wrong("CUDASIM_GPU", settings.gpu, names);
	}
	settings.visible = visible_devices(settings.gpus);
	settings.total = settings.memory ? settings.memory : settings.card->memory;
	uint64_t context = context_bytes(settings.card, context_cuda(settings.driver, 0));
	if (good && settings.total <= context) {
		sim_say("CUDASIM_MEMORY=%llu: expected more than the %llu bytes that the CUDA context of a %s takes",
			(unsigned long long)settings.total, (unsigned long long)context,
			settings.card->name);
		return false;
	}
	return good;
}

/* A UUID that is stable, different per device, and plainly not a real card's. */
void settings_uuid(int device, unsigned char uuid[16])
{
	memset(uuid, 0, 16);
	memcpy(uuid, "cudasim", 7);
	uuid[15] = (unsigned char)device;
}
