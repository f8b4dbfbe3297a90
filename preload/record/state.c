#include "record/state.h"

struct recording_page recording_page;

int __attribute__((weak)) recording_start(void)
{
	return 0;
}

int __attribute__((weak)) recording_is_allowed(void)
{
	return 0;
}
