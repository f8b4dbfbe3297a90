/*
 * PyTorch's key-value store (TCPStore) for ranks whose peers do not run. The values of absent ranks
 * are emulated: at once for a rank alone; for several that run together only if none of them can
 * set the key. Speaks the wire protocol of PyTorch 2.0 to 2.15.
 */
#ifndef MEMTRACE_STORE_H
#define MEMTRACE_STORE_H

#include "util/err.h"
#include "simulate/messages.h"
#include "simulate/together.h"
#include "util/util.h"

#include <stdint.h>

struct store_entry;
struct store_client;

/* Each rank has a port of its own, which identifies its connections. */
struct store_port {
	int socket, number, rank;
	int has_ended;
};

struct store {
	int poll; /* epoll descriptor: readable if store_serve() has something to do */
	struct store_port ports[TOGETHER_RANKS];
	size_t ranks; /* that run: doors in use */
	int world;
	struct store_entry *entries; /* hash by key */
	struct store_client *clients;
	struct board board;              /* only if several ranks run */
	const struct messages *messages; /* borrowed; may be NULL */
	int time_limit;                  /* seconds that a rank waits for another one */
	char *last_key;                  /* the last key that was emulated; NULL: none. Owned */
	uint64_t emulated, waits;
};

int store_open(struct store *s, const int *ranks, size_t count, int world,
	       const struct messages *messages, struct err *e);
/* Answers the commands that have arrived; never waits. */
void store_serve(struct store *s);
/* To be called regularly: if all ranks wait, a key that an absent one may have set is emulated. */
void store_settle(struct store *s);
/* The key that this rank waits for; NULL: none. */
const char *store_wanted(const struct store *s, size_t port);
void store_close(struct store *s);

#endif
