/* The terms of an estimate: terms.def. */
#ifndef MEMTRACE_TORCH_TERMS_H
#define MEMTRACE_TORCH_TERMS_H

enum term_id {
#define TERM(name, id, component, title, formula, source) TERM_##name,
#include "torch/terms.def"
#undef TERM
	TERMS
};

/* A row of terms.def. */
struct term_row {
	const char *id, *component, *title, *formula, *source;
};
extern const struct term_row term_rows[TERMS];

#endif
