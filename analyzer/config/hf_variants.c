/* What makes another model of an architecture of transformers than the one that memtrace models. */
#include "config/hf_variants.h"

#include <string.h>

#include "util/util.h"

#define SLIDING "sliding_attention"
#define FULL "full_attention"

/* Keys that make another model of an architecture if they have a value other than null, false or 0.
 */
static const struct {
	const char *type, *key;
} variants[] = {
	{ "qwen2", "use_sliding_window" },
	{ "qwen3", "use_sliding_window" },
	{ "qwen2_moe", "use_sliding_window" },
	{ "qwen3_moe", "use_sliding_window" },
	{ "olmo", "clip_qkv" },
	{ "gemma2", "use_bidirectional_attention" },
	{ "gpt2", "add_cross_attention" },
	{ "gpt2", "reorder_and_upcast_attn" },
	{ "gemma3_text", "attn_logit_softcapping" },
	{ "gemma3_text", "final_logit_softcapping" },
	{ "gemma3_text", "use_bidirectional_attention" },
};

/* Gemma 2 has both unless its file says null. */
static const char *const caps[] = { "attn_logit_softcapping", "final_logit_softcapping" };

static const char *text_of(const struct doc_node *n)
{
	return n && n->kind != DOC_NULL && n->kind != DOC_MAP && n->kind != DOC_LIST && n->text
		       ? n->text
		       : "";
}

static int put(struct reader *r, enum config_field f, const char *value)
{
	r->key = config_name(f);
	return reader_put(r, f, value);
}

static int read_rotary(struct reader *r, const struct doc_node *map)
{
	const char *given = text_of(doc_find(map, "partial_rotary_factor"));
	const struct doc_node *rope = doc_find(map, "rope_parameters");

	if (!*given && rope && rope->kind == DOC_MAP)
		given = text_of(doc_find(rope, "partial_rotary_factor"));
	return *given ? put(r, CONFIG_rotary_percent, given) : 0;
}

/* Gemma 3: each sixth layer sees all tokens, the others a window. */
static int is_usual_pattern(const struct doc_node *map)
{
	const struct doc_node *list = doc_find(map, "layer_types");
	const char *period = text_of(doc_find(map, "sliding_window_pattern"));
	int64_t i = 0;

	if (!list || list->kind != DOC_LIST)
		return !*period || !strcmp(period, "6");
	for (const struct doc_node *n = list->first; n; n = n->next)
		if (strcmp(text_of(n), ++i % 6 ? SLIDING : FULL) != 0)
			return 0;
	return 1;
}

/* Sliding windows, with the defaults of transformers' configuration classes; null is none. */
static int read_window(struct reader *r, const struct doc_node *map, const char *type)
{
	static const struct {
		const char *type, *missing;
	} windowed[] = { { "mistral", "4096" }, { "phi3", "" }, { "gemma3_text", "4096" } };
	const struct doc_node *given = doc_find(map, "sliding_window");

	for (size_t i = 0; i < ARRAY_SIZE(windowed); i++) {
		const char *window = given ? text_of(given) : windowed[i].missing;

		if (!strcmp(windowed[i].type, type) && *window)
			return put(r, CONFIG_window_size, window);
	}
	return 0;
}

/* Puts fields from inner maps, and names variants in unmodelled_options. */
int hf_read_variants(struct reader *r, const struct doc_node *map, const char *type)
{
	for (size_t i = 0; i < ARRAY_SIZE(variants); i++) {
		const char *value = text_of(doc_find(map, variants[i].key));

		if (strcmp(variants[i].type, type) != 0 || !*value || parse_bool(value) == 0)
			continue;
		r->key = variants[i].key;
		if (reader_put_unmodelled(r, variants[i].key, value))
			return -1;
	}
	for (size_t i = 0; i < ARRAY_SIZE(caps) && !strcmp(type, "gemma2"); i++) {
		const struct doc_node *cap = doc_find(map, caps[i]);

		if (cap && cap->kind == DOC_NULL && reader_put_unmodelled(r, caps[i], "null"))
			return -1;
	}
	if (!strcmp(type, "gemma3_text") && !is_usual_pattern(map) &&
	    reader_put_unmodelled(r, "layer_types", "another pattern than one layer of six"))
		return -1;
	return read_window(r, map, type) || read_rotary(r, map) ? -1 : 0;
}

/* The class that transformers trains: the first of "architectures" that it has. Another one than the
 * language model of its type has another output layer, loss and batch. */
int hf_read_class(struct reader *r, const struct doc_node *map)
{
	static const char *const endings[] = { "ForCausalLM", "LMHeadModel",
					       "ForConditionalGeneration" };
	const struct doc_node *list = doc_find(map, "architectures");
	const char *name = list && list->kind == DOC_LIST ? text_of(list->first) : "";
	const size_t length = strlen(name);

	if (!length)
		return 0;
	for (size_t i = 0; i < ARRAY_SIZE(endings); i++)
		if (length >= strlen(endings[i]) &&
		    !strcmp(name + length - strlen(endings[i]), endings[i]))
			return 0;
	r->key = "architectures";
	return reader_put_unmodelled(r, "architectures", name);
}
