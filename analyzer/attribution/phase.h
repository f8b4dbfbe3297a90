/* Phases of a training job and their parts (phase.def). steps.h divides a job into them. */
#ifndef MEMTRACE_PHASE_H
#define MEMTRACE_PHASE_H

enum phase {
#define PHASE(id, key) PHASE_##id,
#include "attribution/phase.def"
#undef PHASE
	PHASES
};

enum phase_part {
#define PART(id, key) PART_##id,
#include "attribution/phase.def"
#undef PART
	PARTS
};

const char *phase_name(enum phase p);
const char *phase_part_name(enum phase_part p); /* NULL: none */

#endif
