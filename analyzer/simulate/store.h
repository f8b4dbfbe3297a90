/*
 * PyTorch's key-value store (TCPStore) for ranks whose peers do not run. What an absent rank would
 * have put there is played: for a rank alone at once, for several that run together where none of
 * them can. Speaks the wire protocol of PyTorch 2.0 to 2.15.
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

/* A rank has a port of its own, by which its connections are known. */
struct store_port {
	int socket, number, rank;
	int has_ended;
};

struct store {
	int poll; /* readable when store_serve() has something to do */
	struct store_port ports[TOGETHER_RANKS];
	size_t ranks; /* that run: doors in use */
	int world;
	struct store_entry *entries; /* hash by key */
	struct store_client *clients;
	struct board board;              /* of several ranks */
	const struct messages *messages; /* borrowed; may be NULL */
	int time_limit;                  /* seconds that one of them waits for another */
	char *last_key;                  /* that a client waited for and nobody had set */
	uint64_t emulated, waits;
};

int store_open(struct store *s, const int *ranks, size_t count, int world,
	       const struct messages *messages, struct err *e);
/* Answers what has come in; never waits. */
void store_serve(struct store *s);
/* To be called now and then: when all ranks wait, what an absent one may have set is played. */
void store_settle(struct store *s);
/* The key that this rank waits for; NULL: none. */
const char *store_wanted(const struct store *s, size_t port);
void store_close(struct store *s);

#endif
