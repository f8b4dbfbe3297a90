/* The wrappers of the virtual memory API: a handle allocates memory, which is freed with its
 * last mapping and reference. */
#ifndef PRELOAD_VMM_H
#define PRELOAD_VMM_H

void vmm_forget(void);

#endif
