/* Texts of which each is held once, however often it is there. */
#ifndef MEMTRACE_TEXTS_H
#define MEMTRACE_TEXTS_H

struct texts;

struct texts *texts_new(void);
/* Releases every text; `t` may be NULL. */
void texts_free(struct texts *t);
/* Takes `text`, and returns the one that is held. It must not be changed. */
char *texts_share(struct texts *t, char *text);

#endif
