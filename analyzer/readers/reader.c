#define _GNU_SOURCE /* strcasestr */
#include "readers/reader.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "util/buf.h"

int reader_put(struct reader *r, int field, const char *value)
{
	return config_set_field(r->c, field, r->key, value, r->origin, r->e);
}

int reader_put_unmodelled(struct reader *r, const char *written, const char *what)
{
	struct buf list = { 0 };
	int status;

	if (config_has(r->c, CONFIG_unmodelled_options))
		buf_addf(&list, "%s, ", r->c->unmodelled_options);
	buf_addf(&list, "%s (%s)", written, what);
	status = reader_put(r, CONFIG_unmodelled_options, list.text);
	buf_release(&list);
	return status;
}

const struct key_row *key_row_find(const struct key_row *rows, size_t count, const char *key)
{
	for (size_t i = 0; i < count; i++)
		if (!strcmp(rows[i].key, key))
			return &rows[i];
	return NULL;
}

int take_attention(struct reader *r, int field, const char *value)
{
	return reader_put(r, field, strncmp(value, "flash", 5) ? value : "flash");
}

int take_not(struct reader *r, int field, const char *value)
{
	int truth = parse_bool(value);

	return reader_put(r, field, truth < 0 ? value : truth ? "false" : "true");
}

int take_ignore(struct reader *r, int field, const char *value)
{
	(void)r, (void)field, (void)value;
	return 0;
}

void snake_case(char *to, size_t room, const char *key)
{
	size_t n = 0;

	for (key += strspn(key, "-"); *key && n + 1 < room; key++)
		to[n++] = *key == '-' ? '_' : *key;
	to[n] = 0;
}

/* The first row whose text is part of a framework's name: "adamw_torch_fused", "AdamW",
 * "paged_adamw_8bit", "FusedAdam". */
static const struct {
	const char *inside, *optimizer, *implementation;
} optimizers[] = {
	{ "8bit", "adam8bit", NULL },
	{ "transformers-adafactor", "transformers-adafactor", NULL },
	{ "adafactor", "adafactor", NULL },
	{ "rmsprop", "rmsprop", NULL },
	{ "lion", "lion", NULL },
	{ "dist_muon", "dist_muon", NULL },
	{ "muon", "muon", NULL },
	{ "lamb", "lamb", NULL },
	{ "adagrad", "adagrad", NULL },
	{ "sgd", "sgd", NULL },
	{ "adamw_torch_fused", "adamw", "fused" },
	{ "adamw", "adamw", NULL },
	{ "fusedadam", "adam", "fused" },
	{ "adam", "adam", NULL },
};

int take_optimizer(struct reader *r, int field, const char *value)
{
	for (size_t i = 0; i < ARRAY_SIZE(optimizers); i++) {
		if (!strcasestr(value, optimizers[i].inside))
			continue;
		if (optimizers[i].implementation &&
		    reader_put(r, CONFIG_optimizer_implementation, optimizers[i].implementation))
			return -1;
		return reader_put(r, field, optimizers[i].optimizer);
	}
	config_note(r->c, "%s: optimizer \"%.60s\" is not modelled", r->origin, value);
	return reader_put(r, field, "other");
}

int reader_read_key(struct reader *r, const struct key_table *t, const char *key, const char *value)
{
	const struct key_row *row = key_row_find(t->rows, t->count, key);

	r->key = key;
	if (!row)
		return t->unknown ? t->unknown(r, key, value) : 0;
	return row->take ? row->take(r, row->field, value) : reader_put(r, row->field, value);
}

static int read_member(struct reader *r, const struct key_table *t, const struct doc_node *n)
{
	char *text;
	int status;

	r->node = n;
	if (n->kind == DOC_NULL)
		return 0;
	text = doc_text(n);
	status = reader_read_key(r, t, n->key, text);
	free(text);
	return status;
}

int reader_read_map(struct reader *r, const struct key_table *t, const struct doc_node *map,
		    const char *name)
{
	int status = 0;

	if (!map)
		return 0;
	for (const struct doc_node *n = map->first; n && !status; n = n->next) {
		char *origin;

		if (!n->key)
			continue;
		if (n->kind == DOC_MAP) {
			/* A map instead of a value. */
			if (!t->sections && key_row_find(t->rows, t->count, n->key))
				return err_set(r->e,
					       "%s:%u: %s is an object, but must be one value",
					       name, n->line, n->key);
			continue;
		}
		origin = xasprintf("%s:%u", name, n->line);
		r->origin = origin;
		status = read_member(r, t, n);
		r->origin = name;
		free(origin);
	}
	return status;
}

static int read_flat(struct reader *r, const struct key_table *t, const struct doc_node *map,
		     const char *name, const char *prefix)
{
	int status = 0;

	for (const struct doc_node *n = map->first; n && !status; n = n->next) {
		char *key, *origin, *text;

		if (!n->key || n->kind == DOC_NULL)
			continue;
		key = xasprintf("%s%s%s", prefix, *prefix ? "." : "", n->key);
		origin = xasprintf("%s:%u", name, n->line);
		text = doc_text(n);
		r->origin = origin;
		r->node = n;
		if (n->kind != DOC_MAP)
			status = reader_read_key(r, t, key, text);
		else if (key_row_find(t->rows, t->count, key))
			status = err_set(r->e, "%s: %s is an object, but must be one value", origin,
					 key);
		else
			status = read_flat(r, t, n, name, key);
		r->origin = name;
		r->key = "";
		free(text);
		free(origin);
		free(key);
	}
	return status;
}

int reader_read_tree(struct reader *r, const struct key_table *t, const struct doc_node *map,
		     const char *name)
{
	return read_flat(r, t, map, name, "");
}
