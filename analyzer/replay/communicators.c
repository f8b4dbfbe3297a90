#include "replay/communicators.h"

static const struct comm_sample *latest(const struct communicators *c, uint64_t back)
{
	return &c->samples[(c->sample_count - 1 - back) % SAMPLES_KEPT];
}

void comms_sample(struct communicators *c, bytes used, bytes tracked)
{
	c->samples[c->sample_count++ % SAMPLES_KEPT] = (struct comm_sample){ used, tracked };
}

/*
 * The recorder samples the device before and after a creation. The creation therefore began at the
 * sample since which the used bytes grew by exactly the bytes of the communicator. If there is
 * none, it began at the last sample, or at the one before if NCCL allocated nothing since: an
 * early begin is the smaller error.
 */
static bytes hidden_of(const struct communicators *c, bytes took, bytes tracked)
{
	bytes before = 0;

	if (c->sample_count) {
		int is_after = latest(c, 0)->tracked == tracked && c->sample_count > 1;

		before = latest(c, (uint64_t)is_after)->tracked;
	}
	for (uint64_t i = 1; i < c->sample_count && i < SAMPLES_KEPT; i++)
		if (latest(c, 0)->used - latest(c, i)->used == took) {
			before = latest(c, i)->tracked;
			tracked = latest(c, 0)->tracked;
			break;
		}
	if (tracked > before)
		took -= tracked - before;
	return took > 0 ? took : 0;
}

void comms_hide(struct communicators *c, struct communicator *created, bytes tracked)
{
	if (created->bytes > 0 && c->count < COMMS_KEPT)
		created->hidden = hidden_of(c, created->bytes, tracked);
	/* The next creation begins after this one. */
	if (c->sample_count)
		c->samples[0] = *latest(c, 0);
	c->sample_count = c->sample_count != 0;
}

uint32_t comms_add(struct communicators *c, const struct communicator *created)
{
	c->seen++;
	if (c->count == COMMS_KEPT)
		return COMMS_KEPT;
	c->hidden += created->hidden; /* at most COMMS_KEPT times RECORD_MAX_BYTES */
	c->list = grow(c->list, c->count, &c->room, sizeof(*c->list));
	c->list[c->count] = *created;
	return (uint32_t)c->count++;
}

bytes comms_end(struct communicators *c, uint32_t index, uint64_t time_ns)
{
	struct communicator *x;

	if (index >= c->count || c->list[index].destroyed_ns != UINT64_MAX)
		return 0;
	x = &c->list[index];
	x->destroyed_ns = time_ns;
	c->hidden -= x->hidden;
	return x->hidden;
}
