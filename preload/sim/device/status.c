#include "device/status.h"

#include "device/device.h"
#include "device/settings.h"
#include "device/stream.h"

static const struct {
	int unsupported, uninitialized;
} libraries[] = {
#define LIBRARY(id, unsupported, uninitialized) { unsupported, uninitialized },
#include "device/libraries.def"
#undef LIBRARY
};

static _Thread_local int last_error;
static _Thread_local bool planning;
static bool started;

void driver_start(void)
{
	__atomic_store_n(&started, true, __ATOMIC_RELAXED);
}

bool driver_started(void)
{
	return __atomic_load_n(&started, __ATOMIC_RELAXED);
}

int runtime_error(int error)
{
	driver_start();
	if (error)
		last_error = error;
	return error;
}

int runtime_last_error(void)
{
	return last_error;
}

void runtime_clear_error(void)
{
	last_error = 0;
}

static int with_last_error(enum library library, int error)
{
	return library == LIB_cudart ? runtime_error(error) : error;
}

int sim_done(enum library library)
{
	if (library != LIB_cudart && library != LIB_cuda)
		stream_library_work();
	return sim_ready() ? with_last_error(library, libraries[library].uninitialized) : 0;
}

int sim_refused(enum library library)
{
	return with_last_error(library, libraries[library].unsupported);
}

void sim_planning(bool on)
{
	planning = on;
}

bool sim_is_planning(void)
{
	return planning;
}

int sim_refuse(enum library library, const char *call)
{
	if (!planning)
		sim_say("%s is not simulated", call);
	return sim_refused(library);
}
