/* Which layers each chunk of the pipeline has. */
#include "model/memtrace/mtp.h"

/* Without a layout. */
static int64_t stage_layers(const struct shape *s, int64_t stage)
{
	int64_t even = s->pp - (s->first_layers > 0) - (s->last_layers > 0);

	if (stage == 0 && s->first_layers)
		return s->first_layers;
	if (stage == s->pp - 1 && s->last_layers)
		return s->last_layers;
	return even ? (s->layers - s->first_layers - s->last_layers) / even : 0;
}

static const struct stage_layers *declared(const struct shape *s, int64_t stage, int64_t chunk)
{
	return &s->stages.at[chunk * s->pp + stage];
}

/* Chunks go round the stages. */
int64_t chunk_first_layer(const struct shape *s, int64_t stage, int64_t chunk)
{
	int64_t first = 0;

	if (s->stages.count)
		return declared(s, stage, chunk)->first;
	if (s->vpp > 1)
		return (chunk * s->pp + stage) * (stage_layers(s, stage) / s->vpp);
	for (int64_t i = 0; i < stage; i++)
		first += stage_layers(s, i);
	return first;
}

int64_t chunk_layers(const struct shape *s, int64_t stage, int64_t chunk)
{
	return s->stages.count ? declared(s, stage, chunk)->layers
			       : stage_layers(s, stage) / s->vpp;
}

int64_t chunk_mtp(const struct shape *s, int64_t stage, int64_t chunk)
{
	if (s->stages.count)
		return declared(s, stage, chunk)->mtp;
	return stage == s->pp - 1 && chunk == s->vpp - 1 ? s->mtp : 0;
}

void check_stages(const struct shape *s, struct reader *r)
{
	int64_t layers = 0;

	if (s->mtp > MOST_MTP)
		refuse(r, CONFIG_mtp_num_layers, "4 at most");
	if (s->stages.count && s->stages.at[s->stages.count - 1].mtp != s->mtp)
		refuse(r, CONFIG_pipeline_model_parallel_layout,
		       "the layers of multi-token prediction (m) in the loss's stage (L)");
	if (s->stages.count && s->stages.count != s->pp * s->vpp)
		refuse(r, CONFIG_pipeline_model_parallel_layout,
		       "as many stages as pipeline and virtual pipeline have");
	if (r->failed)
		return;
	for (int64_t stage = 0; stage < s->pp; stage++)
		for (int64_t chunk = 0; chunk < s->vpp; chunk++)
			layers += chunk_layers(s, stage, chunk);
	if (layers != s->layers)
		refuse(r, CONFIG_pipeline_model_parallel_size, "one that divides the layers");
}
