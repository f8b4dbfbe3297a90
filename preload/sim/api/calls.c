/* The calls with no definition of their own (calls.def). */
#include "device/common.h"
#include "device/status.h"

#include <stdatomic.h>
#include <sys/types.h>

/* Once for each call: a training loop would repeat it for ever. */
static int refuse_once(enum library library, const char *call, atomic_bool *said)
{
	if (!sim_is_planning() && !atomic_exchange(said, true))
		return sim_refuse(library, call);
	return sim_refused(library);
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
#define REFUSE_AS(library, symbol, type, value)             \
	EXPORT type symbol(void);                           \
	EXPORT type symbol(void)                            \
	{                                                   \
		static atomic_bool said;                    \
		refuse_once(LIB_##library, #symbol, &said); \
		return (value);                             \
	}
#include "api/calls.def"
