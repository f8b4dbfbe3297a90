#define _GNU_SOURCE
#include "simulate/together.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* The prefix that the injected sitecustomize.py gives a group's keys: "memtrace:SIZE:0.3/", with
 * the members that run. */
#define TAG "memtrace:"
#define NAMED "nccl_storekey_"
enum {
	LOOKED_AGAIN = 20
}; /* turns of the device's polling; each of its threads has looked again after so many */

struct process_group {
	long size, rank[TOGETHER_RANKS];
	size_t count;
	const char *key; /* the key within the group */
};

/* Reads the innermost group of a key; 0: it has none. */
static int read_group(const char *key, struct process_group *g)
{
	const char *at = NULL, *next = key;
	char *end;

	while ((next = strstr(next, TAG)))
		at = next += strlen(TAG);
	if (!at)
		return 0;
	*g = (struct process_group){ .size = strtol(at, &end, 10) };
	if (*end != ':')
		return 0;
	do {
		at = end + 1;
		if (!isdigit((unsigned char)*at) || g->count == TOGETHER_RANKS)
			return 0;
		g->rank[g->count++] = strtol(at, &end, 10);
	} while (*end == '.');
	g->key = strrchr(end, '/');
	return g->key++ != NULL;
}

static int runs(const struct process_group *g, long rank)
{
	for (size_t i = 0; i < g->count; i++)
		if (g->rank[i] == rank)
			return 1;
	return 0;
}

/* The rank that makes id number `root` of `roots` in a group of `size` (PyTorch's scalable
 * initialisation). */
static long root_rank(long size, long roots, long root)
{
	long each = roots > 0 ? size / roots : 0, more = roots > 0 ? size % roots : 0;

	return root * each + (root < more ? root : more);
}

/* Is this the key of an NCCL id? A communicator of the whole group is a number, with a name before
 * it since PyTorch 2.15; before, it comes right after the backend's "cuda/" and a slash: other keys
 * end in numbers too. The key of two ranks that send to each other is LOW:HIGH. *maker is the rank
 * that makes the id, pair[] the two ranks (else -1). */
static int read_id(const struct process_group *g, long asked, long *maker, long pair[2])
{
	int length = 0, root;

	pair[0] = pair[1] = -1;
	if (sscanf(g->key, "UniqueNCCLID:%d%n", &root, &length) == 1 && !g->key[length]) {
		*maker = root_rank(g->size, asked, root);
		return 1;
	}
	if (sscanf(g->key, "%ld:%ld%n", &pair[0], &pair[1], &length) == 2 && !g->key[length]) {
		*maker = pair[0];
		return 1;
	}
	*maker = 0;
	pair[0] = pair[1] = -1;
	if (!strncmp(g->key, NAMED, strlen(NAMED)))
		return 1;
	return g->key[-2] == '/' && *g->key && strspn(g->key, "0123456789") == strlen(g->key);
}

enum setter together_setter(const char *key, uint64_t asked)
{
	struct process_group g;
	long maker, pair[2];

	if (!read_group(key, &g))
		return SETTER_UNKNOWN;
	if ((long)g.count == g.size)
		return SETTER_RUNS;
	if (asked <= (uint64_t)g.size && read_id(&g, (long)asked, &maker, pair))
		return runs(&g, maker) ? SETTER_RUNS : SETTER_ABSENT;
	return SETTER_UNKNOWN;
}

/* ---- memory shared with the devices */

int board_open(struct board *b, const struct messages *messages, struct err *e)
{
	*b = (struct board){ .messages = messages,
			     .file = memfd_create("memtrace-together", MFD_CLOEXEC),
			     .owner = (int)getpid() };
	if (b->file < 0 || ftruncate(b->file, sizeof(*b->shared)) < 0)
		return err_set(e, "cannot make memory for the ranks to share: %s", strerror(errno));
	b->shared = mmap(NULL, sizeof(*b->shared), PROT_READ | PROT_WRITE, MAP_SHARED, b->file, 0);
	if (b->shared != MAP_FAILED)
		return 0;
	b->shared = NULL;
	return err_set(e, "cannot map memory for the ranks to share: %s", strerror(errno));
}

void board_close(struct board *b)
{
	if (b->shared)
		munmap(b->shared, sizeof(*b->shared));
	if (b->file > 0)
		close(b->file);
	*b = (struct board){ 0 };
}

char *board_name(const struct board *b, size_t row)
{
	return xasprintf("/proc/%d/fd/%d:%zu", b->owner, b->file, row);
}

void board_note(struct board *b, const char *key, const void *value, size_t length)
{
	struct together_group row = { 0 };
	struct process_group g;
	long maker, pair[2];

	if (length != UNIQUE_ID || !read_group(key, &g) || !read_id(&g, 1, &maker, pair))
		return;
	if (b->groups == TOGETHER_GROUPS) {
		if (!b->is_refusing)
			notice(b->messages,
			       "more than %d communicators: the ranks of those that follow cannot meet",
			       TOGETHER_GROUPS);
		b->is_refusing = 1;
		return;
	}
	row.id = together_hash(value, length);
	for (size_t i = 0; i < g.count; i++) {
		if (pair[0] < 0)
			row.rank[row.count++] = (int32_t)g.rank[i];
		else if (g.rank[i] == pair[0] || g.rank[i] == pair[1])
			row.rank[row.count++] = g.rank[i] == pair[1];
	}
	b->shared->group[b->groups++] = row;
	atomic_store(&b->shared->groups, b->groups);
}

int board_is_quiet(struct board *b, const int *waits_here, size_t ranks)
{
	int was_settling = b->is_settling, is_quiet = 1;

	b->is_settling = 0;
	for (size_t i = 0; i < ranks; i++)
		if (!waits_here[i] && !atomic_load(&b->shared->rank[i].waits))
			return 0;
	b->is_settling = 1;
	for (size_t i = 0; i < ranks; i++) {
		uint64_t turns = atomic_load(&b->shared->rank[i].turns);

		if (!was_settling)
			b->turns[i] = turns;
		is_quiet &= waits_here[i] || turns >= b->turns[i] + LOOKED_AGAIN;
	}
	return was_settling && is_quiet;
}

char *board_where(const struct board *b, size_t row)
{
	const struct together_rank *r = b->shared ? &b->shared->rank[row] : NULL;

	if (!r || !atomic_load(&r->waits))
		return xstrdup("");
	return xasprintf("%.*s", (int)strnlen(r->where, TOGETHER_TEXT), r->where);
}
