/* --pipeline-model-parallel-layout: the layers of each stage, "Et*3|(tt|)*6mL". */
#ifndef CONFIG_PIPELINE_LAYOUT_H
#define CONFIG_PIPELINE_LAYOUT_H

#include "config/config.h"

#define MAX_STAGES 1024 /* virtual stages included */

struct stages {
	int64_t count; /* virtual stages, in the order of the layers: chunk by chunk, stage by stage
			*/
	struct stage_layers {
		int64_t first, layers, mtp;
	} at[MAX_STAGES];
};

/* Reads pipeline_model_parallel_layout, which must be given. -1: it is malformed, or contradicts
 * num_layers, mtp_num_layers or the pipeline-parallel size. */
int config_stages(const struct config *c, struct stages *out, struct err *e);

/* Sets the number of layers and the stages that hybrid_layer_pattern gives. */
void config_derive_hybrid(struct config *c);

#endif
