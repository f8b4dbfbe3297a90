#include "record/state.h"

struct recording_page recording_page;

__attribute__((weak)) int recording_start(void)
{
	return 0;
}

__attribute__((weak)) int recording_is_allowed(void)
{
	return 0;
}
