/* What must not enter a trace: values that look like a secret, or whose name says so. */
#ifndef PRELOAD_SECRET_H
#define PRELOAD_SECRET_H

#include <stddef.h>

/*
 * How many characters of VALUE, which stands under NAME ("" or an option or a variable), may be
 * kept: all, or those before the first secret in it. `--api-key=X`, `wandb.api_key=X`,
 * `--opts={"token": "X"}` and `Authorization: Bearer X` are looked into.
 */
size_t secret_from(const char *name, const char *value);

#endif
