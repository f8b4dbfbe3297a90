/* What a block is for: terms.def. */
#ifndef MEMTRACE_TERMS_H
#define MEMTRACE_TERMS_H

enum role {
#define TERM(name, id, component, title, formula, source) TERM_##name,
#include "torch/terms.def"
#undef TERM
	TERMS
};

/* A row of terms.def. */
struct role_row {
	const char *id, *component, *title, *formula, *source;
};
extern const struct role_row role_rows[TERMS];

#endif
