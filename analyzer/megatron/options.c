/* Options of Megatron-LM that this model does not count. */
#include "megatron/options.h"

#include <stdio.h>
#include <string.h>

#include "util/buf.h"
#include "util/util.h"

static const struct megatron_option {
	enum config_field field;
	const char *harmless, *what;
} stops[] = {
#define STOPS(field, harmless, what) { CONFIG_##field, harmless, what },
#define NOTED(field, harmless, what)
#define IGNORED(field, why)
#include "megatron/options.def"
#undef STOPS
#undef NOTED
#undef IGNORED
}, noted[] = {
#define STOPS(field, harmless, what)
#define NOTED(field, harmless, what) { CONFIG_##field, harmless, what },
#define IGNORED(field, why)
#include "megatron/options.def"
#undef STOPS
#undef NOTED
#undef IGNORED
};

static int matters(const struct config *c, const struct megatron_option *o)
{
	static const char *const off[] = { "false", "0", "none" };
	struct buf value = { 0 };
	int differs;

	if (!config_has(c, o->field))
		return 0;
	config_value(c, o->field, &value);
	differs = strcmp(value.text, o->harmless) != 0;
	for (size_t i = 0; i < ARRAY_SIZE(off); i++)
		differs &= strcmp(value.text, off[i]) != 0;
	buf_release(&value);
	return differs;
}

void check_megatron_options(struct inputs *in)
{
	const char *positions = VALUE_OR(in->c, position_embedding_type, "rope");

	if (GIVEN(in->c, unmodelled_options))
		input_reject(in, CONFIG_unmodelled_options, "none: not modelled yet");
	for (size_t i = 0; i < ARRAY_SIZE(stops); i++)
		if (matters(in->c, &stops[i])) {
			char expected[96];

			snprintf(expected, sizeof(expected), "%s: %s: not modelled yet",
				 *stops[i].harmless ? stops[i].harmless : "none", stops[i].what);
			input_reject(in, stops[i].field, expected);
		}
	for (size_t i = 0; i < ARRAY_SIZE(noted); i++)
		if (matters(in->c, &noted[i]))
			estimate_note(in->out, "%s (%s): not counted", noted[i].what,
				      config_name(noted[i].field));
	if (!strcmp(positions, "relative") || !strcmp(positions, "mrope"))
		input_reject(in, CONFIG_position_embedding_type,
			     "learned_absolute, rope, yarn or none");
	if (!strcmp(VALUE_OR(in->c, transformer_impl, "local"), "inference_optimized"))
		input_reject(in, CONFIG_transformer_impl, "local or transformer_engine");
}
