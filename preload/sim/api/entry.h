/* Driver entry points by name. */
#ifndef CUDASIM_ENTRY_H
#define CUDASIM_ENTRY_H

/* The function that cuGetProcAddress(NAME, VERSION) names: NAME is a base name ("cuMemAlloc") or an
 * exported one; VERSION 0 is the newest. NULL: there is none. */
void *entry_find(const char *name, int version);

#endif
