/* Opaque handles: never NULL, never the same twice, never a pointer to anything. User objects. */
#include "device/handle.h"

#include "device/common.h"
#include "device/device.h"

#include <stdint.h>

#include <stdatomic.h>

void *handle_new(void)
{
	static _Atomic uintptr_t last = 0x100000;
	return (void *)(atomic_fetch_add(&last, 16) + 16);
}

/* ---- user objects */

enum { OBJECT = 0x4f424a54 };

struct user_object {
	unsigned magic, count;
	void *data;
	void (*destroy)(void *);
};

int user_object_create(void *handle, void *data, void (*destroy)(void *), unsigned count)
{
	struct user_object *object = malloc(sizeof *object);
	*(struct user_object **)handle = object;
	if (!object)
		return SIM_OUT_OF_MEMORY;
	*object = (struct user_object){ OBJECT, count, data, destroy };
	return sim_ready();
}

static struct user_object *user_object_of(void *handle)
{
	struct user_object *object = handle;
	return object && object->magic == OBJECT ? object : NULL;
}

int user_object_release(void *handle, unsigned count)
{
	struct user_object *object = user_object_of(handle);
	if (!object)
		return SIM_INVALID_VALUE;
	if (__atomic_sub_fetch(&object->count, count, __ATOMIC_ACQ_REL))
		return SIM_OK;
	object->destroy(object->data);
	object->magic = 0;
	free(object);
	return SIM_OK;
}

int user_object_retain(void *handle, unsigned count)
{
	struct user_object *object = user_object_of(handle);
	if (!object)
		return SIM_INVALID_VALUE;
	__atomic_add_fetch(&object->count, count, __ATOMIC_ACQ_REL);
	return SIM_OK;
}
