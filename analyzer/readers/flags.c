#include "readers/flags.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "util/buf.h"

int is_flag(const char *arg)
{
	return arg[0] == '-' && arg[1] && !strchr("0123456789.", arg[1]);
}

void flags_split(struct flags *f, int argc, char **argv)
{
	size_t room = 0;

	for (int i = 0; i < argc; i++) {
		struct flag flag = { NULL, NULL, NULL, 0 };
		const char *equals = strchr(argv[i], '=');
		struct buf value = { 0 };
		char key[256], name[256];

		if (!is_flag(argv[i]))
			continue; /* a positional argument before the first flag */
		snprintf(name, sizeof(name), "%.*s",
			 (int)(equals ? equals - argv[i] : (ptrdiff_t)strlen(argv[i])), argv[i]);
		snake_case(key, sizeof(key), name);
		flag.key = xstrdup(key);
		flag.written = xstrdup(name);
		if (equals) {
			flag.joined = 1;
			flag.value = xstrdup(equals + 1);
		}
		for (; !equals && i + 1 < argc && !is_flag(argv[i + 1]); i++) {
			if (value.length)
				buf_puts(&value, ",");
			buf_puts(&value, argv[i + 1]);
			if (!flag.value)
				flag.value = xstrdup(""); /* replaced below */
		}
		if (!equals && flag.value) {
			free(flag.value);
			flag.value = buf_take(&value);
		}
		buf_release(&value);
		f->at = grow(f->at, f->count, &room, sizeof(*f->at));
		f->at[f->count++] = flag;
	}
}

void flags_release(struct flags *f)
{
	for (size_t i = 0; i < f->count; i++) {
		free(f->at[i].written);
		free(f->at[i].key);
		free(f->at[i].value);
	}
	free(f->at);
	memset(f, 0, sizeof(*f));
}

const struct flag *flags_find(const struct flags *f, const char *key)
{
	for (size_t i = f->count; i--;)
		if (!strcmp(f->at[i].key, key))
			return &f->at[i];
	return NULL;
}

int reader_read_flags(struct reader *r, const struct key_table *t, const struct flags *f)
{
	for (size_t i = 0; i < f->count; i++) {
		const struct flag *flag = &f->at[i];

		r->origin = flag->written;
		if (flag->key[0] &&
		    reader_read_key(r, t, flag->key, flag->value ? flag->value : "true"))
			return -1;
	}
	return 0;
}

const char *flag_value(const struct flag *flag)
{
	int field = config_find(flag->key);

	if (!flag->value || (!flag->joined && field >= 0 && !strcmp(config_type(field), "BOOL")))
		return "true";
	return flag->value;
}
