/* Memory of graphs: allocation nodes take it when the graph is uploaded or launched, and the device
 * keeps it until a trim. Its level is read from CUDA. */
#ifndef PRELOAD_GRAPHS_H
#define PRELOAD_GRAPHS_H

#define GRAPHS_INSTANTIATE_UPLOADS 2u /* CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD */

/* A graph has a node that allocates (added or captured): from now on, launches read the level. */
void graphs_allocate(void);
static inline void graphs_added(int allocates)
{
	if (allocates)
		graphs_allocate();
}

/* A graph was launched, or its instance destroyed: the level may have changed. Costs little if no
 * graph allocates. */
void graphs_launched(void);

/* A graph was uploaded, which is rare: its memory is allocated now, before any launch. */
void graphs_uploaded(void);
static inline void graphs_instantiated(unsigned long long flags)
{
	if (flags & GRAPHS_INSTANTIATE_UPLOADS)
		graphs_uploaded();
}

/* The device was asked to free the unused memory of its graphs. */
void graphs_trimmed(int device);

/* Reads the levels that a launch left unread because one had been read a moment before. For the
 * helper thread and for each recorded event; cheap if no level is owed. */
void graphs_read_owed(void);

/* Returns 1 if a level is to be read later. */
int graphs_owe(void);

void graphs_forget(void);

#endif
