#include "attribution/attribution.h"

#include "util/glob.h"

#include <stdlib.h>
#include <string.h>

/*
 * PyTorch names the threads of its autograd engine pt_autograd_N. The training loop usually runs in
 * the process's main thread. If that one recorded nothing, the loop runs in another thread (of a
 * Ray actor, for example), and every thread that is not autograd's counts as it.
 */
static void flag_threads(struct tables *t, uint32_t pid)
{
	int have_main = 0;

	for (size_t i = 1; i < t->thread_count && !have_main; i++)
		have_main = t->threads[i].tid == pid &&
			    !str_matches(t->threads[i].name, "pt_autograd*");
	memset(t->thread_flags, have_main ? 0 : THREAD_MAIN, sizeof(t->thread_flags));
	for (size_t i = 1; i < t->thread_count; i++)
		if (str_matches(t->threads[i].name, "pt_autograd*"))
			t->thread_flags[i] = THREAD_AUTOGRAD;
		else if (t->threads[i].tid == pid)
			t->thread_flags[i] = THREAD_MAIN;
}

static void find_owners(struct tables *t)
{
	unsigned char *owners = xcalloc(t->module_count, 1);

	for (size_t i = 0; i < t->module_count; i++)
		owners[i] = (unsigned char)owner_of_module(t->modules[i]);
	t->stack_owners = xcalloc(t->stack_count, 1);
	t->stack_owners[MT_NO_STACK] = OWNER_APPLICATION;
	for (size_t i = 1; i < t->stack_count; i++)
		t->stack_owners[i] = owners[t->stacks[i].module];
	free(owners);
}

int tables_stack_is_hook(const struct tables *t, uint32_t stack)
{
	const struct stack *p = tables_stack(t, stack);
	int is_own = 0;

	for (uint32_t i = 0; i < p->frame_count; i++) {
		if (frame_is(t, p->frames[i], FRAME_FORWARD))
			return 0;
		if (frame_is(t, p->frames[i], FRAME_MODULE_CALL))
			return is_own;
		is_own |= !frame_is(t, p->frames[i], FRAME_LIBRARY);
	}
	return 0;
}

void attribute_trace(struct trace *t)
{
	if (t->tables.stack_info)
		return;
	frames_attribute(&t->tables);
	find_owners(&t->tables);
	flag_threads(&t->tables, t->header.pid);
}
