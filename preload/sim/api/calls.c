/* The calls with no definition of their own (calls.def), and what "not simulated" looks like. */
#include "device/sim.h"

#include <stdatomic.h>

static const struct {
	const char *name;
	int unsupported, uninitialized;
} libraries[] = {
#define LIBRARY(id, name, unsupported, uninitialized) { name, unsupported, uninitialized },
#include "device/libraries.def"
#undef LIBRARY
};

static int with_last_error(enum library library, int error)
{
	return library == LIB_cudart ? runtime_error(error) : error;
}

int sim_done(enum library library)
{
	return sim_ready() ? with_last_error(library, libraries[library].uninitialized) : 0;
}

int sim_refuse(enum library library, const char *call)
{
	sim_say("%s is not simulated", call);
	return with_last_error(library, libraries[library].unsupported);
}

/* Once for each call: a training loop would repeat it for ever. */
static int refuse_once(enum library library, const char *call, atomic_bool *said)
{
	if (!atomic_exchange(said, true))
		return sim_refuse(library, call);
	return with_last_error(library, libraries[library].unsupported);
}

#define DONE(library, symbol)                   \
	EXPORT int symbol(void);                \
	EXPORT int symbol(void)                 \
	{                                       \
		return sim_done(LIB_##library); \
	}
#define REFUSE(library, symbol)                                    \
	EXPORT int symbol(void);                                   \
	EXPORT int symbol(void)                                    \
	{                                                          \
		static atomic_bool said;                           \
		return refuse_once(LIB_##library, #symbol, &said); \
	}
#include "api/calls.def"
