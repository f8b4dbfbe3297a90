#include "systems/systems.h"

#include <string.h>

#include "systems/deepspeed_zero.h"
#include "systems/llama_4d.h"
#include "systems/memtrace.h"
#include "systems/nanogpt.h"
#include "systems/training_memory_blog.h"
#include "util/buf.h"

const struct system *const systems[] = {
	&training_memory_blog, &nanogpt, &deepspeed_zero, &llama_4d, &memtrace,
};
const size_t system_count = ARRAY_SIZE(systems);

const struct system *system_find(const char *name, struct err *e)
{
	struct buf list = { 0 };

	for (size_t i = 0; i < system_count; i++)
		if (!strcmp(systems[i]->name, name))
			return systems[i];
	for (size_t i = 0; i < system_count; i++)
		buf_addf(&list, "%s%s", i ? ", " : "", systems[i]->name);
	err_set(e, "--system is \"%s\", expected one of %s", name, list.text);
	buf_release(&list);
	return NULL;
}
