#include "config/native.h"

#include <stdlib.h>
#include <string.h>

#include "config/megatron.h"
#include "util/json_text.h"

int config_set(struct config *c, const char *name, const char *value, const char *origin,
	       struct err *e)
{
	struct reader r = { .c = c, .key = name, .origin = origin, .e = e };
	int field = config_find(name);
	const char *near;

	if (field >= 0)
		return reader_put(&r, field, value);
	if (megatron_has_key(name))
		return megatron_read_key(&r, name, value);
	near = config_near_name(name);
	return err_set(e, "%s: no key \"%.60s\"%s%s%s", origin, name,
		       near ? "; did you mean \"" : "", near ? near : "", near ? "\"?" : "");
}

/* The environment stays one text: its readers know the variables. */
static char *object_text(const struct doc_node *map)
{
	json_t *object = json_object();
	char *text;

	for (const struct doc_node *n = map->first; n; n = n->next)
		json_set_text(object, n->key, n->text ? n->text : "");
	text = json_dumps(object, JSON_COMPACT);
	json_decref(object);
	return text;
}

static int read_member(struct reader *r, const struct doc_node *n)
{
	int field = config_find(n->key);
	char *text;
	int status;

	r->key = n->key;
	r->node = n;
	if (n->kind == DOC_NULL) {
		if (field >= 0)
			config_unset(r->c, field);
		return 0;
	}
	if (n->kind == DOC_MAP && field != CONFIG_environment) {
		if (field >= 0)
			return err_set(r->e, "%s: %s is an object, but must be one value",
				       r->origin, n->key);
		config_note(r->c, "%s: unknown key %s", r->origin, n->key);
		return 0;
	}
	if (n->kind == DOC_LIST && field >= 0 && strcmp(config_type(field), "TEXT"))
		return err_set(r->e, "%s: %s is a list, but must be one value", r->origin, n->key);
	text = n->kind == DOC_MAP ? object_text(n) : doc_text(n);
	if (field >= 0) {
		status = reader_put(r, field, text);
	} else if (megatron_has_key(n->key)) {
		status = megatron_read_key(r, n->key, text);
	} else {
		const char *near = config_notes_full(r->c) ? NULL : config_near_name(n->key);

		config_note(r->c, "%s: unknown key %s%s%s", r->origin, n->key,
			    near ? "; did you mean " : "", near ? near : "");
		status = 0;
	}
	free(text);
	return status;
}

int config_read_native(struct reader *r, const struct doc_node *root, const char *name)
{
	int status = 0;

	for (const struct doc_node *n = root->first; n && !status; n = n->next) {
		char *origin = xasprintf("%s:%u", name, n->line);

		r->origin = origin;
		status = read_member(r, n);
		r->origin = name;
		free(origin);
	}
	return status;
}
