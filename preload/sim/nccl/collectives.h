/* The end of a group, for collectives. */
#ifndef CUDASIM_COLLECTIVES_H
#define CUDASIM_COLLECTIVES_H

/* The thread's outermost group has ended: finishes what its collectives left to do. */
void collectives_group_end(void);

#endif
