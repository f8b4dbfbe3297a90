/*
 * The tables of the trace: strings, frames, stacks, modules, threads, meta. Each entry is written
 * once and has an id. A known stack is looked up without a lock. If the tables are busy, one caller
 * waits for the lock; later callers do not wait until it has been free once. If the tables are full
 * or busy, the answer is "unknown" (0).
 */
#ifndef PRELOAD_TABLES_H
#define PRELOAD_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include <memtrace/trace.h>

/* Begins empty tables in the region FIRST, BYTES long, at OFFSET of the file. Returns -1 if there
 * is no memory for the indexes. */
int tables_open(struct mt_header *header, void *first, uint64_t offset, size_t bytes);

/* Returns 1 and the stack that HASH stands for, if one is known; if the tables were full, that is
 * the stack of the module alone. Takes no lock. */
int tables_known_stack(uint64_t hash, uint32_t *stack);

/* Returns the stack of MODULE (0: unknown) and COUNT frame ids, innermost first, and remembers that
 * HASH stands for it. Several hashes may stand for one stack. MT_NO_STACK if the tables are full or
 * busy. */
uint32_t tables_stack(uint64_t hash, uint32_t module, const uint32_t *frames, uint32_t count);

/* Returns the stack of MODULE alone, for frames that could not be stored. If the tables are full,
 * HASH stands for it from now on. */
uint32_t tables_unknown_stack(uint64_t hash, uint32_t module);

/* Returns 1 if the tables are full and have no room to remember unknown stacks either; the header
 * then counts one more lost stack. */
int tables_are_closed(void);

/* The frame that KEY stands for; 0 if none is known (any more). */
uint32_t tables_known_frame(uint64_t key);
void tables_learn_frame(uint64_t key, uint32_t frame);

/* Each returns the id of the entry, new or known; 0 (a thread: MT_NO_THREAD) if the tables are full
 * or busy. KEY of a meta entry is an MT_META_ key, NAME its suffix ("" for none). */
uint32_t tables_string(const char *s, size_t n);
uint32_t tables_frame(uint32_t function, uint32_t file, uint32_t line);
uint32_t tables_module(const char *path);
uint16_t tables_thread(uint32_t tid, const char *name);
void tables_meta(const char *key, const char *name, const char *value, size_t n);

/* Makes the next region. The helper thread calls this; it is woken when a region is half full. */
void tables_prepare(void);

#endif
