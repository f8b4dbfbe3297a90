/*
 * Runs the model of the caching allocator on the recorded events of the real one:
 * allocator_replay CONF VERSION DEVICE < EVENTS
 *
 *   s ADDRESS BYTES           a segment, or a part of one, is mapped
 *   u ADDRESS BYTES           and unmapped
 *   a ADDRESS BYTES STREAM    a block is allocated, after such lines
 *   f ADDRESS                 a block is freed
 *   o BYTES STREAM            out of memory
 *   e                         empty_cache()
 *
 * The addresses of new segments are given to the model, because the driver chooses them. The model
 * itself chooses and splits blocks and reserves memory. Prints size and reserved bytes of every
 * block; exits with 1 and a line on stderr at the first difference.
 */
#include "allocator/allocator.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "util/util.h"

struct replayed {
	struct allocator *model;
	struct taken {
		uint64_t address;
		struct allocation *block;
	} * taken;
	size_t count, room;
	int64_t reserved;
	long line;
};

static int differs(const struct replayed *r, const char *what, uint64_t is, uint64_t real)
{
	fprintf(stderr,
		"line %ld: %s 0x%" PRIx64 " (%" PRIu64 "), really 0x%" PRIx64 " (%" PRIu64 ")\n",
		r->line, what, is, is, real, real);
	return 1;
}

static int check_reserved(const struct replayed *r)
{
	int64_t model = allocator_totals(r->model)->reserved;

	return model == r->reserved
		       ? 0
		       : differs(r, "reserved", (uint64_t)model, (uint64_t)r->reserved);
}

static int take(struct replayed *r, uint64_t address, int64_t size, int stream)
{
	struct allocation *b = allocator_malloc(r->model, size, stream);

	if (!b)
		return differs(r, "out of memory", (uint64_t)size, address);
	if (allocation_address(b) != address)
		return differs(r, "address", allocation_address(b), address);
	if (check_reserved(r))
		return 1;
	r->taken = grow(r->taken, r->count, &r->room, sizeof(*r->taken));
	r->taken[r->count++] = (struct taken){ address, b };
	printf("%" PRId64 " %" PRId64 "\n", allocation_size(b), r->reserved);
	return 0;
}

static int give(struct replayed *r, uint64_t address)
{
	for (size_t i = r->count; i-- > 0;)
		if (r->taken[i].address == address) {
			allocator_free(r->model, r->taken[i].block);
			r->taken[i] = r->taken[--r->count];
			return 0;
		}
	return differs(r, "no such block", 0, address);
}

static int event(struct replayed *r, const char *text)
{
	uint64_t address = 0;
	int64_t size = 0;
	int stream = 0, failed;

	if (sscanf(text, "s %" SCNu64 " %" SCNd64, &address, &size) == 2) {
		allocator_place_next(r->model, address);
		r->reserved += size;
		return 0;
	}
	if (sscanf(text, "u %" SCNu64 " %" SCNd64, &address, &size) == 2) {
		r->reserved -= size;
		return 0;
	}
	if (sscanf(text, "a %" SCNu64 " %" SCNd64 " %d", &address, &size, &stream) == 3)
		return take(r, address, size, stream);
	if (sscanf(text, "f %" SCNu64, &address) == 1)
		return give(r, address);
	if (sscanf(text, "o %" SCNd64 " %d", &size, &stream) == 2) {
		failed = !allocator_malloc(r->model, size, stream);
		return failed ? check_reserved(r) : differs(r, "memory for", (uint64_t)size, 0);
	}
	if (text[0] != 'e')
		return differs(r, "not an event", (uint64_t)text[0], 0);
	allocator_empty_cache(r->model);
	return 0;
}

int main(int argc, char **argv)
{
	struct allocator_settings s = { 0 };
	struct replayed r = { 0 };
	struct err e = { "" };
	char text[128];
	int status = 0;

	if (argc != 4 || allocator_configure(&s, argv[1], atoi(argv[2]), &e)) {
		fprintf(stderr, "allocator_replay CONF VERSION DEVICE: %s\n", e.text);
		return 2;
	}
	r.model = allocator_new(&s, atoll(argv[3]));
	while (!status && fgets(text, sizeof(text), stdin)) {
		r.line++;
		status = event(&r, text);
	}
	allocator_release(r.model);
	free(r.taken);
	return status;
}
