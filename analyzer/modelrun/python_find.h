/* Finds a Python that has PyTorch and transformers. */
#ifndef MODELRUN_PYTHON_FIND_H
#define MODELRUN_PYTHON_FIND_H

#include "util/err.h"

struct python {
	char *path;
	char *versions; /* "torch 2.15.0, transformers 5.23.0" */
	char *others;   /* " deepspeed 0.19.8 peft 0.21.2" */
};

/* Takes `asked` (--python), else MEMTRACE_PYTHON, else the first of the active virtual environment,
 * python3 and python that has both. -1: there is none; the message says how to get one. */
int python_find(struct python *p, const char *asked, struct err *e);
void python_release(struct python *p);

#endif
