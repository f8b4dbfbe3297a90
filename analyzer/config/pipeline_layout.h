/* --pipeline-model-parallel-layout: which layers each stage has, "Et*3|(tt|)*6mL". */
#ifndef CONFIG_PIPELINE_LAYOUT_H
#define CONFIG_PIPELINE_LAYOUT_H

#include "config/config.h"

#define STAGES_MOST 1024 /* with the virtual ones */

struct stages {
	int64_t count; /* in the order of the layers: chunk by chunk, stage by stage */
	struct stage_layers {
		int64_t first, layers, mtp;
	} at[STAGES_MOST];
};

/* Needs the field. -1: it is malformed, or says other layers than the other fields do. */
int config_stages(const struct config *c, struct stages *out, struct err *e);

#endif
