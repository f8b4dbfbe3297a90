/* Parts of the text of a Python program, whose comments and quoted texts are blanks. */
#ifndef MEMTRACE_PYTHON_TEXT_H
#define MEMTRACE_PYTHON_TEXT_H

#include "util/util.h"

/* A text of the program as struct str. */
#define WORD(text) ((struct str){ text, sizeof(text) - 1 })

/* Is it a character of names? */
int python_is_name(char c);
/* From one place of a text to another one; empty if that is not behind it. */
struct str python_part(struct str text, size_t from, size_t to);
/* The first place from `at` on that is no blank and no end of a line. */
size_t python_skip_blanks(struct str text, size_t at);
/* Without blanks, ends of lines and up to 16 pairs of round brackets around it. */
struct str python_trimmed(struct str text);
/* The begin of the name that ends at `end`, and the end of one that begins at `begin`; the same
 * place if there is none. */
size_t python_begin_of_name(struct str text, size_t end);
size_t python_end_of_name(struct str text, size_t begin);
/* The next name from `*at` on, which becomes the place behind it; empty: there is none. */
struct str python_next_name(struct str text, size_t *at);
/* The place of `name` in `text` from `from` on, as a whole word; text.length: there is none. */
size_t python_find_word(struct str text, size_t from, struct str name);
int python_has_word(struct str text, struct str word);
/* Does a text match one of the patterns (util/glob.h)? The last one is NULL. */
int python_matches_any(struct str text, const char *const *patterns);
int python_has_any(struct str text, const struct str *words, size_t count);
/* The first place from `at` on that has one of the characters and is in no bracket that opens
 * behind `at`; text.length: there is none. */
size_t python_find_outside(struct str text, size_t at, const char *chars);
/* What an assignment sets, that is, its text before the `=`; empty: the statement is none. */
struct str python_target(struct str statement);
/* Behind the bracket that closes the one at `open`; text.length if none does within 64 KiB. */
size_t python_behind_bracket(struct str text, size_t open);

#endif
