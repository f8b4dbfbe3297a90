#include "attribution/phase.h"

#include <stddef.h>

const char *phase_name(enum phase p)
{
	static const char *const names[] = {
#define PHASE(id, key) key,
#include "attribution/phase.def"
#undef PHASE
	};

	return names[p];
}

const char *phase_part_name(enum phase_part p)
{
	static const char *const names[] = {
#define PART(id, key) key,
#include "attribution/phase.def"
#undef PART
	};

	return names[p];
}
