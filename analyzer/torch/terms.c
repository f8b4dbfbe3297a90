#include "torch/terms.h"

const struct term_row term_rows[TERMS] = {
#define TERM(name, id, component, title, formula, source) { id, component, title, formula, source },
#include "torch/terms.def"
#undef TERM
};
