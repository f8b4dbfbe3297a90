/* The kernels that are computed: see kernels.c. */
#ifndef CUDASIM_KERNELS_H
#define CUDASIM_KERNELS_H

#include <stdbool.h>

/* `host` is the address that a program launches by, `name` the mangled name: it stays readable. */
void kernel_register(const void *host, const char *name);
bool kernel_registered(const char *part); /* any kernel whose mangled name has it */
void kernel_run(const void *host, void **arguments, unsigned columns, unsigned rows);

#endif
