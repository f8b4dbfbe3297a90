/* The fields: their names and limits, setting and copying them. */
#include "config/config.h"

#include <errno.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "patterns/hybrid_pattern.h"
#include "patterns/layer_pattern.h"
#include "util/buf.h"
#include "util/hash.h"
#include "util/util.h"

enum type { INT, REAL, BOOL, TEXT };

static const struct {
	const char *name;
	const char *type_name;
	const char *help;
	size_t offset;
	enum type type;
} fields[] = {
#define FIELD(name, type, help) { #name, #type, help, offsetof(struct config, name), type },
#include "config/fields.def"
#undef FIELD
};

/* By field. A field without limits has most = 0 and no choices. */
static const struct {
	double least, most;
	const char *choices;
} limits[CONFIG_FIELDS] = {
#define RANGE(name, least, most) [CONFIG_##name] = { least, most, NULL },
#define CHOICE(name, choices) [CONFIG_##name] = { 0, 0, choices },
#include "config/limits.def"
#undef RANGE
#undef CHOICE
};

#define MAX_NUMBER 1e18 /* the upper limit of a number without a range */

static void *slot(struct config *c, int field)
{
	return (char *)c + fields[field].offset;
}

static const void *slot_of(const struct config *c, int field)
{
	return (const char *)c + fields[field].offset;
}

const char *config_name(enum config_field f)
{
	return fields[f].name;
}

const char *config_help(enum config_field f)
{
	return fields[f].help;
}

const char *config_type(enum config_field f)
{
	return fields[f].type_name;
}

static struct field_name {
	UT_hash_handle hh;
} entries[CONFIG_FIELDS], *by_name;

static void index_names(void)
{
	for (int i = 0; i < CONFIG_FIELDS; i++)
		HASH_ADD_KEYPTR(hh, by_name, fields[i].name, strlen(fields[i].name), &entries[i]);
}

/* Threads that read traces ask at the same time. */
int config_find(const char *name)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	struct field_name *found;

	pthread_once(&once, index_names);
	HASH_FIND_STR(by_name, name, found);
	return found ? (int)(found - entries) : -1;
}

const char *config_near_name(const char *name)
{
	static const char *const all[] = {
#define FIELD(name, type, help) #name,
#include "config/fields.def"
#undef FIELD
		NULL
	};

	const char *shortest = NULL;

	/* "num_layer" means num_layers: the shortest of the names that begin so. */
	for (size_t i = 0; all[i]; i++)
		if (strlen(name) > 3 && !strncmp(all[i], name, strlen(name)) &&
		    (!shortest || strlen(all[i]) < strlen(shortest)))
			shortest = all[i];
	return shortest ? shortest : nearest(name, all);
}

void config_init(struct config *c)
{
	memset(c, 0, sizeof(*c));
}

void config_unset(struct config *c, enum config_field f)
{
	static const size_t sizes[] = { sizeof(int64_t), sizeof(double), sizeof(int),
					sizeof(char *) };

	if (fields[f].type == TEXT)
		free(*(char **)slot(c, f));
	memset(slot(c, f), 0, sizes[fields[f].type]);
	free(c->origin[f]);
	c->origin[f] = NULL;
}

void config_release(struct config *c)
{
	for (int f = 0; f < CONFIG_FIELDS; f++)
		config_unset(c, f), free(c->automatic[f]);
	for (unsigned i = 0; i < c->note_count; i++)
		free(c->notes[i]);
	free(c->notes);
	free(c->model_file);
	memset(c, 0, sizeof(*c));
}

void config_copy(struct config *to, const struct config *from)
{
	config_release(to);
	memcpy(to, from, sizeof(*to));
	to->notes = NULL;
	to->model_file = from->model_file ? xstrdup(from->model_file) : NULL;
	to->note_count = 0;
	for (int f = 0; f < CONFIG_FIELDS; f++) {
		if (from->automatic[f])
			to->automatic[f] = xstrdup(from->automatic[f]);
		if (!config_has(from, f))
			continue;
		to->origin[f] = xstrdup(from->origin[f]);
		if (fields[f].type == TEXT)
			*(char **)slot(to, f) = xstrdup(*(char *const *)slot_of(from, f));
	}
	for (unsigned i = 0; i < from->note_count; i++)
		config_note(to, "%s", from->notes[i]);
}

void config_set_model_file(struct config *c, const char *path)
{
	free(c->model_file);
	c->model_file = path ? xstrdup(path) : NULL;
}

/* Values and notes are printed, so characters that control the terminal are removed. */
static char *clean_copy(const char *text)
{
	struct buf b = { 0 };

	buf_add_clean(&b, (struct str){ text, strlen(text) });
	return buf_take(&b);
}

int config_notes_full(const struct config *c)
{
	return c->note_count >= MAX_NOTES;
}

void config_note(struct config *c, const char *format, ...)
{
	va_list args;
	char *text, *written;

	if (config_notes_full(c))
		return;
	va_start(args, format);
	text = c->note_count < MAX_NOTES - 1 ? xvasprintf(format, args)
					     : xstrdup("and more, which are not listed");
	va_end(args);
	written = text;
	text = clean_copy(written);
	free(written);
	for (unsigned i = 0; i < c->note_count; i++) {
		if (!strcmp(c->notes[i], text)) {
			free(text);
			return;
		}
	}
	c->notes = xrealloc(c->notes, c->note_count + 1, sizeof(*c->notes));
	c->notes[c->note_count++] = text;
}

/* ---- values ---- */

int parse_bool(const char *text)
{
	static const char *const words[] = { "false", "true", "0", "1", "no", "yes", "off", "on" };

	for (size_t i = 0; i < ARRAY_SIZE(words); i++)
		if (!strcasecmp(text, words[i]))
			return i & 1;
	return -1;
}

/* "4096", "5e8": a whole number in any notation. */
static int parse_int(const char *text, int64_t *value)
{
	char *end;
	double real;

	errno = 0;
	*value = strtoll(text, &end, 10);
	if (end != text && !*end)
		return errno ? -1 : 0;
	real = strtod(text, &end);
	if (end == text || *end || !(fabs(real) <= MAX_NUMBER) || real != floor(real) ||
	    strpbrk(text, "xXpP"))
		return -1;
	*value = (int64_t)real;
	return 0;
}

static int parse_real(const char *text, double *value)
{
	char *end;

	*value = strtod(text, &end);
	return end == text || *end || !isfinite(*value) || strpbrk(text, "xXpP") ? -1 : 0;
}

/* The word of `choices` that `value` is but for case; NULL: none. */
static char *choose(const char *choices, const char *value)
{
	size_t length = strlen(value);

	for (const char *at = choices; *at; at += strspn(at, " ")) {
		size_t word = strcspn(at, " ");

		if (word == length && !strncasecmp(at, value, word))
			return xasprintf("%.*s", (int)word, at);
		at += word;
	}
	return NULL;
}

/* "['a', 'b']", "a b": "a,b" */
static char *word_list(const char *value)
{
	static const char between[] = " \t,[]\"'";
	struct buf b = { 0 };

	for (value += strspn(value, between); *value; value += strspn(value, between)) {
		size_t length = strcspn(value, between);

		if (b.length)
			buf_puts(&b, ",");
		buf_add(&b, value, length);
		value += length;
	}
	return buf_take(&b);
}

static int is_list_of_layers(int field)
{
	return field == CONFIG_moe_layer_freq || field == CONFIG_linear_attention_freq;
}

/* The values that a field accepts, for messages. */
static const char *wanted(int field, char *to, size_t room)
{
	double least = limits[field].most > 0 ? limits[field].least : 0;
	double most = limits[field].most > 0 ? limits[field].most : MAX_NUMBER;

	switch (fields[field].type) {
	case INT:
		snprintf(to, room, "a whole number from %.0f to %.0f", least, most);
		break;
	case REAL:
		snprintf(to, room, "a number from %g to %g", least, most);
		break;
	case BOOL:
		snprintf(to, room, "true or false");
		break;
	case TEXT:
		snprintf(to, room, "%s%s",
			 limits[field].choices      ? "one of: "
			 : is_list_of_layers(field) ? "a number, or a list of 0 and 1"
			 : field == CONFIG_hybrid_layer_pattern
				 ? "letters of layers, M G * D + - E, with | between stages and / "
				   "before further predictions"
				 : "text",
			 limits[field].choices ? limits[field].choices : "");
		break;
	}
	return to;
}

static int in_range(int field, double value)
{
	if (limits[field].most > 0)
		return value >= limits[field].least && value <= limits[field].most;
	return value >= 0 && value <= MAX_NUMBER;
}

/* Text in the only form that the rest of the program reads. */
static char *plain_text(int field, const char *value)
{
	if (is_list_of_layers(field))
		return layer_pattern(value);
	if (field == CONFIG_hybrid_layer_pattern && !hybrid_pattern_is_valid(value))
		return NULL;
	if (field == CONFIG_recompute_modules || field == CONFIG_offload_modules ||
	    field == CONFIG_cuda_graph_modules)
		return word_list(value);
	return xstrdup(value);
}

/* Parses and stores a value. -1: it is malformed; nothing is changed. */
static int store(struct config *c, int field, const char *value)
{
	const char *choices = limits[field].choices;
	int64_t whole;
	double real;
	char *text;
	int truth;

	/* The name that --flags has. */
	if (field == CONFIG_framework && !strcmp(value, "megatron"))
		value = "megatron-core";
	switch (fields[field].type) {
	case INT:
		if (parse_int(value, &whole) || !in_range(field, (double)whole))
			return -1;
		*(int64_t *)slot(c, field) = whole;
		return 0;
	case REAL:
		if (parse_real(value, &real) || !in_range(field, real))
			return -1;
		*(double *)slot(c, field) = real;
		return 0;
	case BOOL:
		truth = parse_bool(value);
		if (truth < 0)
			return -1;
		*(int *)slot(c, field) = truth;
		return 0;
	case TEXT:
		text = choices ? choose(choices, value) : plain_text(field, value);
		if (!text)
			return -1;
		free(*(char **)slot(c, field));
		*(char **)slot(c, field) = clean_copy(text);
		free(text);
		return 0;
	}
	return -1;
}

void config_set_auto(struct config *c, int field, const char *origin)
{
	free(c->automatic[field]);
	c->automatic[field] = clean_copy(origin);
}

static void set_origin(struct config *c, int field, const char *origin)
{
	char *copy = clean_copy(origin);

	free(c->origin[field]);
	c->origin[field] = copy;
}

int config_set_field(struct config *c, int field, const char *key, const char *value,
		     const char *origin, struct err *e)
{
	char want[320];

	/* "none", if it is no choice of the field, unsets the field. */
	if (fields[field].type == TEXT && limits[field].choices && !strcasecmp(value, "none") &&
	    !strstr(limits[field].choices, "none")) {
		config_unset(c, field);
		return 0;
	}
	if (store(c, field, value))
		return err_set(e, "%s: %s is \"%.60s\"%s, but must be %s", origin, key, value,
			       strlen(value) > 60 ? "…" : "", wanted(field, want, sizeof(want)));
	set_origin(c, field, origin);
	return 0;
}

int config_set_default(struct config *c, int field, const char *value, const char *origin,
		       struct err *e)
{
	return config_has(c, field)
		       ? 0
		       : config_set_field(c, field, fields[field].name, value, origin, e);
}

int config_set_int(struct config *c, enum config_field f, int64_t value, const char *origin,
		   struct err *e)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	return config_set_field(c, f, fields[f].name, text, origin, e);
}

#define DERIVED "derived: "

int config_is_derived(const struct config *c, enum config_field f)
{
	return c->origin[f] && !strncmp(c->origin[f], DERIVED, strlen(DERIVED));
}

void config_derived_text(struct config *c, int field, const char *value, const char *how)
{
	struct err ignored = { "" };
	char *origin = xasprintf(DERIVED "%s", how);

	config_set_field(c, field, fields[field].name, value, origin, &ignored);
	free(origin);
}

void config_derived_int(struct config *c, int field, int64_t value, const char *how)
{
	char text[32];

	snprintf(text, sizeof(text), "%lld", (long long)value);
	config_derived_text(c, field, text, how);
}

void config_value(const struct config *c, enum config_field f, struct buf *out)
{
	const void *at = slot_of(c, f);

	if (!config_has(c, f))
		return;
	switch (fields[f].type) {
	case INT:
		buf_addf(out, "%lld", (long long)*(const int64_t *)at);
		break;
	case REAL:
		buf_addf(out, "%.12g", *(const double *)at);
		break;
	case BOOL:
		buf_puts(out, *(const int *)at ? "true" : "false");
		break;
	case TEXT:
		buf_puts(out, *(char *const *)at);
		break;
	}
}
