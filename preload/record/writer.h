/*
 * Writes a recording from memory to its trace file. Usually a separate process does this (spawn.h):
 * no thread of the job waits for a file system, and the recording survives any signal that ends the
 * job. If no process can be started, a thread of the job with its own descriptor table writes. Both
 * run the same code on the same memory (control.h).
 */
#ifndef PRELOAD_WRITER_H
#define PRELOAD_WRITER_H

#include "record/control.h"

#define WRITER_EVERY_MS 100 /* the longest time that a record waits to be written */

/* ---- in the job ---- */

/* Begins to write. `directory`, `name`, `image_bytes` and the header of the image must be filled
 * in. HAS_PROCESS: a process was started to write. */
void writer_begin(struct writer_control *c, int has_process);

/* For the helper thread: starts a thread that writes if no process writes or the process was
 * killed. */
void writer_check(struct writer_control *c);

/* After the recording is closed: waits up to LIMIT_MS until all is written. Returns 1 if the file
 * is complete. */
int writer_finish(struct writer_control *c, unsigned limit_ms);

/*
 * Has the writer make an empty file NAME in the directory of the traces: the job's threads never
 * wait for a file system. Returns 0; -EEXIST, if another process made it; another negative errno;
 * or -ETIMEDOUT after LIMIT_MS. For one thread at a time, before the recording is closed.
 */
int writer_make_marker(struct writer_control *c, const char *name, unsigned limit_ms);

/* Lets a thread write at once if no process has begun to; the next writer_check() starts it.
 * Returns 1 if a thread writes. */
int writer_take_over(struct writer_control *c);

/* Wakes the writer early if there is much to write. The call never waits. */
void writer_wake(struct writer_control *c);

/* Marks the calling thread as the helper thread: its end tells the writer that the job has ended.
 */
void writer_watch_this_thread(struct writer_control *c);
void writer_unwatch_this_thread(struct writer_control *c);

/* ---- the process ---- */

/* The main function of the process; returns its exit status. */
int writer_process(void);

#endif
