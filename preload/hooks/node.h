/* A node of PyTorch's autograd graph, as far as it is read. */
#ifndef PRELOAD_NODE_H
#define PRELOAD_NODE_H

#include <stddef.h>
#include <stdint.h>

/* What torch::autograd::Node (torch/csrc/autograd/function.h) holds behind the count of its
 * references. That takes two words; one since nodes are counted by c10::intrusive_ptr. */
struct numbers {
	uint64_t number; /* UINT64_MAX: it has none */
	uint64_t depth, has_parent;
	uint64_t thread; /* PyTorch's number of the thread that made it */
};
union node {
	const void *const *functions; /* its virtual functions, with the type before them */
	struct {
		uint64_t head[2];
		struct numbers of;
	} counted_inside;
	struct {
		uint64_t head[3];
		struct numbers of;
	} counted_outside;
};

/* PyTorch's number of the calling thread; 0: not known. */
uint64_t node_thread(void);

/* A library was unloaded: finds PyTorch's own function again. */
void node_forget(void);

/* The place of a node in a table of the latest `room` nodes of all threads, a power of 2: the
 * numbers of a thread follow one another, and those of two threads begin at other places. */
static inline size_t node_slot(uint64_t thread, uint64_t number, size_t room)
{
	return (number + thread * (room / 8 + 1)) % room;
}

/* A number for the node that a thread made with that number of its own. */
static inline uint64_t node_key(uint64_t thread, uint64_t number)
{
	return (thread << 48 ^ number) + 1;
}

#endif
