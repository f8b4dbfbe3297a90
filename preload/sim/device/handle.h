/* Values for opaque handles. */
#ifndef CUDASIM_HANDLE_H
#define CUDASIM_HANDLE_H

void *handle_new(void);

#endif
