#include "cmd/record_estimates.h"

#include "readers/derive.h"
#include "match/match.h"
#include "systems/memtrace.h"
#include "util/hash.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

struct known {
	UT_hash_handle hh;
	char name[17]; /* the fingerprint */
	int is_made;
	struct config config; /* with derived values */
	struct estimate estimate;
};

struct record_estimates {
	pthread_mutex_t lock;
	struct known *all;
};

struct record_estimates *record_estimates_new(void)
{
	struct record_estimates *all = xcalloc(1, sizeof(*all));

	pthread_mutex_init(&all->lock, NULL);
	return all;
}

void record_estimates_free(struct record_estimates *all)
{
	if (!all)
		return;
	for (struct known *k = all->all; k; k = k->hh.next) {
		estimate_release(&k->estimate);
		config_release(&k->config);
	}
	HASH_RELEASE(all->all);
	pthread_mutex_destroy(&all->lock);
	free(all);
}

static struct known *make(struct record_estimates *all, const struct config *declared,
			  const char *name)
{
	struct known *k = xcalloc(1, sizeof(*k));
	struct err e = { 0 };

	memcpy(k->name, name, sizeof(k->name));
	config_init(&k->config);
	config_copy(&k->config, declared);
	k->is_made = config_derive(&k->config, &e) == 0 &&
		     estimate_make(&k->estimate, &memtrace, &k->config, DETAIL_ALL, &e) == 0;
	HASH_ADD_STR(all->all, name, k);
	return k;
}

static void add_part(struct record_estimate *out, const char *component, bytes size)
{
	size_t i = 0;

	while (i < out->part_count && strcmp(out->parts[i].component, component) != 0)
		i++;
	if (!size || i == ARRAY_SIZE(out->parts))
		return;
	out->parts[i].component = component;
	out->parts[i].bytes += size;
	out->part_count += i == out->part_count;
}

static void read_stage(struct record_estimate *out, const struct estimate *e, const struct stage *s)
{
	out->allocated = (bytes)s->total;
	out->reserved = (bytes)s->reserved;
	out->device = (bytes)s->device;
	for (size_t i = 0; i < estimate_term_count(e) && s->terms; i++)
		add_part(out, estimate_term(e, i)->component, (bytes)s->terms[i]);
	for (size_t i = 0; i < s->outside_count; i++)
		add_part(out, s->outside[i].component, (bytes)s->outside[i].bytes);
}

int record_estimates_find(struct record_estimates *all, const struct config *declared,
			  const struct rank *r, struct record_estimate *out)
{
	char name[17];
	struct known *k;
	int is_made;

	record_fingerprint(declared, r->command, name);
	pthread_mutex_lock(&all->lock);
	HASH_FIND_STR(all->all, name, k);
	if (!k)
		k = make(all, declared, name);
	*out = (struct record_estimate){ .system = memtrace.name };
	is_made = k->is_made && k->estimate.stage_count;
	if (is_made) {
		size_t stage = (size_t)match_coordinates(&k->config, r).at[AXIS_PP];

		read_stage(out, &k->estimate,
			   &k->estimate.stages[stage < k->estimate.stage_count ? stage : 0]);
	}
	pthread_mutex_unlock(&all->lock);
	return is_made;
}
