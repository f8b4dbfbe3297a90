/*
 * PyTorch's key-value store (TCPStore) for a rank whose peers do not run: what another rank would have
 * put there is answered at once. Speaks the wire protocol of PyTorch 2.0 to 2.15.
 */
#ifndef MEMTRACE_SIM_STORE_H
#define MEMTRACE_SIM_STORE_H

#include "err.h"
#include "util.h"

#include <stdint.h>

struct store_entry;
struct store_client;

struct store {
	int listener, poll; /* `poll` is readable when store_serve() has something to do */
	int port;
	int rank, world;
	struct store_entry **buckets;
	size_t keys;
	struct store_client *clients;
	char *last_key; /* that a client waited for and nobody had set */
	uint64_t played;
};

int store_open(struct store *s, int rank, int world, struct err *e);
/* Answers what has come in; never waits. */
void store_serve(struct store *s);
void store_close(struct store *s);

#endif
