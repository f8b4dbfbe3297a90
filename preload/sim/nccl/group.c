#include "nccl/group.h"

static _Thread_local int depth;

bool nccl_in_group(void)
{
	return depth;
}

void group_enter(void)
{
	depth++;
}

int group_leave(void)
{
	return depth ? --depth : -1;
}
