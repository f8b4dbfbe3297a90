/*
 * Writes a recording from memory to its trace file. Usually a process of its own does this
 * (spawn.h), so that no thread of the job ever waits for a file system and what was recorded
 * outlives the job's end by any signal; where no process can be made, a thread of the job with a
 * descriptor table of its own does it. Both run the same code on the same memory, which begins with
 * struct writer_control; the file's image follows.
 */
#ifndef PRELOAD_WRITER_H
#define PRELOAD_WRITER_H

#include "record/control.h"

#define WRITER_EVERY_MS 100 /* the longest that a record waits to be written */

/* ---- in the job ---- */

/* `directory`, `name` and `image_bytes` are filled in, the header of the image is: the writing
 * begins. HAS_PROCESS: one was started. */
void writer_begin(struct writer_control *c, int has_process);

/* For the helper thread: starts a thread that writes if no process does, or if that was killed. */
void writer_check(struct writer_control *c);

/* The recording is closed: has everything written, and waits for that up to LIMIT_MS. Returns 1
 * when the file is complete. */
int writer_finish(struct writer_control *c, unsigned limit_ms);

/* A thread is to write, at once, if no process has begun to: the next writer_check() starts it. 1:
 * it is. */
int writer_take_over(struct writer_control *c);

/* There is much to write. Never waits. */
void writer_wake(struct writer_control *c);

/* The calling thread is the helper thread: its end tells the writer of the job's. */
void writer_watch_this_thread(struct writer_control *c);
void writer_unwatch_this_thread(struct writer_control *c);

/* ---- the process ---- */

/* The program's body; its exit status. */
int writer_process(void);

#endif
