/* Stacks as text for reports. */
#ifndef MEMTRACE_STACK_TEXT_H
#define MEMTRACE_STACK_TEXT_H

#include "trace/tables.h"
#include "util/buf.h"

/* "function file:line;function file:line", outermost frame first; nothing if there are no frames.
 * A semicolon of a name is a colon. Valid UTF-8. */
void stack_add_text(const struct tables *t, uint32_t stack, struct buf *b);
/* "(no Python stack, thread NAME)", for what has no frames. Safe on a terminal. */
void stack_add_missing(const struct tables *t, uint16_t thread, struct buf *b);

/* The functions below need attribute_trace(). Their texts are safe on a terminal. */

/* "function  file:line" of the innermost frame that is not PyTorch's own, else of the innermost. */
void stack_add_label(const struct tables *t, uint32_t stack, struct buf *b);
/* The same of the outermost `frames` frames alone. */
void stack_add_outer_label(const struct tables *t, uint32_t stack, uint32_t frames, struct buf *b);
/* "function  file" of one frame. */
void stack_add_function(const struct tables *t, uint32_t frame, struct buf *b);
/* "function file:line" of the innermost frame; nothing if that is the frame of the label. */
void stack_add_inner(const struct tables *t, uint32_t stack, struct buf *b);
/* The classes of the modules that were called, outermost first:
 * "LlamaModel.LlamaDecoderLayer.LlamaMLP"; nothing if there are none. */
void stack_add_module(const struct tables *t, uint32_t stack, struct buf *b);

#endif
