/*
 * The tables of the trace: strings, frames, stacks, modules, threads, meta. Each thing is written
 * once and has an id; looking up a known stack takes no lock. When the tables are busy the caller
 * waits once, and then no more until they were to be had again; when they are full or busy the
 * answer is "unknown".
 */
#ifndef PRELOAD_TABLES_H
#define PRELOAD_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include <memtrace/trace.h>

/* FIRST: the region behind the header. Returns -1 without memory for the
 * indexes. */
int tables_open(struct mt_header *header, void *first, uint64_t offset, size_t bytes);

/* Is it known what a stack with this hash is? Its stack, where the tables were full that of its
 * module alone. Lock-free. */
int tables_known_stack(uint64_t hash, uint32_t *stack);

/* The stack of MODULE (0: unknown) and COUNT frame ids, innermost first, which HASH then stands
 * for: several hashes may stand for one stack. MT_NO_STACK when the tables are full or busy. */
uint32_t tables_stack(uint64_t hash, uint32_t module, const uint32_t *frames, uint32_t count);

/* The stack of MODULE alone, for a stack that cannot be had. Where the tables are full, HASH stands
 * for it from now on. */
uint32_t tables_unknown_stack(uint64_t hash, uint32_t module);

/* Are the tables full, with no room even to remember which stacks are unknown? Counts one more. */
int tables_are_closed(void);

/* The frame that KEY stands for, 0 when it is not known (any more). */
uint32_t tables_known_frame(uint64_t key);
void tables_learn_frame(uint64_t key, uint32_t frame);

/* 0 when the tables are full or busy. */
uint32_t tables_string(const char *s, size_t n);
uint32_t tables_frame(uint32_t function, uint32_t file, uint32_t line);
uint32_t tables_module(const char *path);
uint16_t tables_thread(uint32_t tid, const char *name);
void tables_meta(const char *key, const char *name, const char *value, size_t n);

/* Makes room ahead of need; the helper thread calls it, woken when a region is half full. */
void tables_prepare(void);

#endif
