/* Memory of graphs: allocation nodes take it at launch, and the device keeps it until a trim. It is
 * read as a level. */
#ifndef PRELOAD_GRAPHS_H
#define PRELOAD_GRAPHS_H

/* A graph has a node that allocates (added, or captured): from now on launches are looked at. */
void graphs_allocate(void);
static inline void graphs_added(int allocates)
{
	if (allocates)
		graphs_allocate();
}

/* A graph was launched, or its instance destroyed: the level may have changed. Cheap where no graph
 * allocates. */
void graphs_launched(void);

/* The device was asked to give its graphs' unused memory back. */
void graphs_trimmed(int device);

void graphs_forget(void);

#endif
