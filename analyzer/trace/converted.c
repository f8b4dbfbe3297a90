#include "trace/converted.h"

#include <pthread.h>
#include <stdlib.h>

#include "util/util.h"

/* Bytes of all that are kept. One alone may be larger. */
#define MOST_KEPT (UINT64_C(512) << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct converted *newest; /* each of them has one user, the list */

static int is_of(const struct converted *c, const struct stat *of)
{
	return c->of.st_dev == of->st_dev && c->of.st_ino == of->st_ino &&
	       c->of.st_size == of->st_size && c->of.st_mtim.tv_sec == of->st_mtim.tv_sec &&
	       c->of.st_mtim.tv_nsec == of->st_mtim.tv_nsec;
}

static void drop(struct converted *c)
{
	if (--c->users)
		return;
	free((void *)(uintptr_t)c->bytes);
	free(c);
}

static struct converted *find(const struct stat *of)
{
	struct converted *c = newest;

	while (c && !is_of(c, of))
		c = c->next;
	return c;
}

struct converted *converted_find(const struct stat *of)
{
	struct converted *c;

	pthread_mutex_lock(&lock);
	c = find(of);
	if (c)
		c->users++;
	pthread_mutex_unlock(&lock);
	return c;
}

/* Drops the oldest ones behind the limit, never the newest. */
static void keep_the_newest(void)
{
	uint64_t kept = 0;
	struct converted **at = &newest;

	while (*at) {
		struct converted *c = *at;

		kept += c->size;
		if (c == newest || kept <= MOST_KEPT) {
			at = &c->next;
			continue;
		}
		*at = c->next;
		drop(c);
	}
}

struct converted *converted_add(const struct stat *of, unsigned char *image, uint64_t size,
				const char *kind)
{
	struct converted *c = xcalloc(1, sizeof(*c));

	*c = (struct converted){ .bytes = image, .size = size, .kind = kind, .users = 1 };
	if (!of)
		return c;
	c->of = *of;
	c->users++;
	pthread_mutex_lock(&lock);
	c->next = newest;
	newest = c;
	keep_the_newest();
	pthread_mutex_unlock(&lock);
	return c;
}

void converted_release(struct converted *c)
{
	if (!c)
		return;
	pthread_mutex_lock(&lock);
	drop(c);
	pthread_mutex_unlock(&lock);
}
