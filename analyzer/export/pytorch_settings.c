/* The allocator's settings of a memory snapshot: what PYTORCH_CUDA_ALLOC_CONF says, and PyTorch's
 * defaults. */
#include "export/pytorch_settings.h"

#include <stdlib.h>

#include "config/allocator_conf.h"

enum setting_type { MIBS, COUNT, SHARE, FLAG };

/* `without`: the value if the option is not given. */
static const struct setting {
	enum snapshot_word key;
	enum setting_type type;
	const char *option;
	int without;
} settings[] = {
	{ WORD_max_split_size, MIBS, "max_split_size_mb", -1 },
	{ WORD_garbage_collection_threshold, SHARE, "garbage_collection_threshold", 0 },
	{ WORD_expandable_segments, FLAG, "expandable_segments", 0 },
	{ WORD_pinned_num_register_threads, COUNT, "pinned_num_register_threads", 1 },
	{ WORD_release_lock_on_cudamalloc, FLAG, "release_lock_on_cudamalloc", 0 },
	{ WORD_pinned_use_cuda_host_register, FLAG, "pinned_use_cuda_host_register", 0 },
	{ WORD_graph_capture_record_stream_reuse, FLAG, "graph_capture_record_stream_reuse", 0 },
	{ WORD_max_round_threshold, MIBS, "pinned_max_round_threshold_mb", -1 },
	{ WORD_max_cached_size, MIBS, "pinned_max_cached_size_mb", -1 },
};

/* The last value of an option in the text; NULL: it is not given. What follows the value stands
 * behind it. */
static const char *find_option(const char *conf, const char *name, struct allocator_option *o)
{
	struct str rest = { conf, strlen(conf) };
	struct allocator_option at;
	const char *found = NULL;

	while (allocator_conf_next(&rest, &at))
		if (allocator_option_is(&at, name, NULL) && at.value.length) {
			*o = at;
			found = at.value.at;
		}
	return found;
}

static void put_setting(struct snapshot_writer *w, const struct setting *s, const char *conf)
{
	struct allocator_option o;
	const char *value = find_option(conf, s->option, &o);
	int64_t number = value ? strtoll(value, NULL, 10) : s->without;

	snapshot_word(w, s->key);
	if (s->type == FLAG)
		pickle_boolean(&w->pickle, value && allocator_option_is(&o, s->option, "True"));
	else if (s->type == SHARE)
		pickle_real(&w->pickle, value ? strtod(value, NULL) : s->without);
	else if (s->type == MIBS && value)
		pickle_integer(&w->pickle,
			       number > 0 && number <= INT64_MAX >> 20 ? number << 20 : s->without);
	else
		pickle_integer(&w->pickle, number);
}

static void put_divisions(struct snapshot_writer *w, const char *conf)
{
	struct allocator_option o;
	const char *value = find_option(conf, "roundup_power2_divisions", &o);
	int divisions[ALLOCATOR_CLASSES] = { 0 };

	if (value)
		(void)allocator_conf_divisions(value, divisions); /* what is well formed of it */
	snapshot_word(w, WORD_roundup_power2_divisions);
	pickle_dict(&w->pickle);
	pickle_group(&w->pickle);
	for (int i = 0; i < ALLOCATOR_CLASSES; i++) {
		char mib[16];

		snprintf(mib, sizeof(mib), "%d", 1 << i);
		pickle_word(&w->pickle, mib);
		pickle_integer(&w->pickle, divisions[i]);
	}
	pickle_set_items(&w->pickle);
}

void snapshot_settings(struct snapshot_writer *w)
{
	struct buf conf = { 0 };

	buf_add_utf8(&conf, tables_allocator_conf(&w->in->trace.tables));
	buf_puts(&conf, "");
	snapshot_word(w, WORD_allocator_settings);
	pickle_dict(&w->pickle);
	pickle_group(&w->pickle);
	snapshot_word(w, WORD_conf);
	pickle_text(&w->pickle, (struct str){ conf.text, conf.length });
	for (size_t i = 0; i < ARRAY_SIZE(settings); i++)
		put_setting(w, &settings[i], conf.text);
	put_divisions(w, conf.text);
	pickle_set_items(&w->pickle);
	buf_release(&conf);
}
