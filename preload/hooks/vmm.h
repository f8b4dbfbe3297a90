/* The wrappers of the virtual memory API: memory comes with a handle and goes with its last mapping
 * and reference. */
#ifndef PRELOAD_VMM_H
#define PRELOAD_VMM_H

void vmm_forget(void);

#endif
