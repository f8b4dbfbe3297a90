/*
 * The tables of the trace: strings, frames, places, modules, threads, meta. Each thing is written
 * once and has an id; looking up a known place takes no lock. When the tables are full or busy for
 * too long the answer is "unknown", never a wait.
 */
#ifndef PRELOAD_TABLES_H
#define PRELOAD_TABLES_H

#include <stddef.h>
#include <stdint.h>

#include <memtrace/trace.h>

/* FIRST: the region behind the header. Returns -1 without memory for the
 * indexes. */
int tables_open(struct mt_header *header, void *first, uint64_t offset, size_t bytes);

/* Id of the place with this hash, MT_NO_PLACE when it is new. Lock-free. */
uint32_t tables_find_place(uint64_t hash);

/* Adds a place: MODULE (0: unknown) and COUNT frame ids, innermost first. */
uint32_t tables_add_place(uint64_t hash, uint32_t module, const uint32_t *frames, uint32_t count);

uint32_t tables_string(const char *s, size_t n);
uint32_t tables_frame(uint32_t function, uint32_t file, uint32_t line);
uint32_t tables_module(const char *path);
uint16_t tables_thread(uint32_t tid, const char *name);
void tables_meta(const char *key, const char *name, const char *value, size_t n);

/* Makes room ahead of need; the helper thread calls it. */
void tables_prepare(void);

#endif
