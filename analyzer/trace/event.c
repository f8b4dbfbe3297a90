#include "trace/event.h"

/* event_alloc_kind() takes the id before that of a FREE event as its ALLOC: events.def must keep to
 * that. */
#define EVENT(name, id, layer, effect, meaning) CHECK_##effect(name, id)
#define CHECK_ALLOC(name, id)
#define CHECK_LEVEL(name, id)
#define CHECK_FAIL(name, id)
#define CHECK_SAMPLE(name, id)
#define CHECK_NOTE(name, id)
#define CHECK_FREE(name, id) static_assert(FOLLOWS_##name(id), #name);
#define FOLLOWS_TENSOR_FREE(id) id == MT_TENSOR_ALLOC + 1
#define FOLLOWS_DEVICE_FREE(id) id == MT_DEVICE_ALLOC + 1
#define FOLLOWS_POOL_FREE(id) id == MT_POOL_ALLOC + 1
#define FOLLOWS_MANAGED_FREE(id) id == MT_MANAGED_ALLOC + 1
#define FOLLOWS_HOST_FREE(id) id == MT_HOST_ALLOC + 1
#define FOLLOWS_PHYSICAL_FREE(id) id == MT_PHYSICAL_ALLOC + 1
#define FOLLOWS_UNMAP(id) id == MT_MAP + 1
#define FOLLOWS_ARRAY_FREE(id) id == MT_ARRAY_ALLOC + 1
#define FOLLOWS_HOST_UNREGISTER(id) id == MT_HOST_REGISTER + 1
#define FOLLOWS_ALIAS_CLOSE(id) id == MT_ALIAS_OPEN + 1
#define FOLLOWS_COMM_DESTROY(id) id == MT_COMM_INIT + 1
#define FOLLOWS_PHASE_END(id) id == MT_PHASE_BEGIN + 1
#include <memtrace/events.def>
#undef EVENT
