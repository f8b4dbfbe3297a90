/* The names that runs of one job share: a fingerprint of the configuration, and the model. */
#include "record/record.h"

#include <memtrace/fnv.h>

#include "util/util.h"

#include <stdio.h>
#include <string.h>

/* An upgrade of a library or another GPU leaves the job the same: that is what a trend has to show.
 */
static int is_around_the_job(int field)
{
	return field == CONFIG_torch_version || field == CONFIG_transformers_version ||
	       field == CONFIG_megatron_core_version || field == CONFIG_container ||
	       field == CONFIG_environment || field == CONFIG_gpu;
}

static int declares_model(const struct config *c)
{
	return config_has(c, CONFIG_num_layers) || config_has(c, CONFIG_hidden_size) ||
	       config_has(c, CONFIG_model_type) || config_has(c, CONFIG_num_parameters);
}

void record_fingerprint(const struct config *c, const char *command, char text[17])
{
	uint64_t hash = FNV_START;

	for (int f = 0; f < CONFIG_FIELDS; f++) {
		struct buf value = { 0 };

		if (!config_has(c, f) || config_is_derived(c, f) || is_around_the_job(f))
			continue;
		config_value(c, f, &value);
		hash = fnv_add(hash, config_name(f), strlen(config_name(f)) + 1);
		hash = fnv_add(hash, value.text, value.length);
		hash = fnv_add(hash, "", 1);
		buf_release(&value);
	}
	if (!declares_model(c) && command)
		hash = fnv_add(hash, command, strlen(command));
	snprintf(text, 17, "%016llx", (unsigned long long)hash);
}

void record_model(const struct config *c, struct buf *out)
{
	if (!declares_model(c))
		return;
	if (config_has(c, CONFIG_model_type))
		config_value(c, CONFIG_model_type, out);
	else if (config_has(c, CONFIG_arch))
		config_value(c, CONFIG_arch, out);
	else
		buf_puts(out, "model");
	if (config_has(c, CONFIG_num_layers))
		buf_addf(out, " %lld layers", (long long)c->num_layers);
	if (config_has(c, CONFIG_hidden_size))
		buf_addf(out, " x %lld", (long long)c->hidden_size);
}
