#define _GNU_SOURCE
#include "kernels/launch.h"

#include "device/taint.h"
#include "device/memory.h"
#include "kernels/number.h"

#include <string.h>

const char *launch_after(const struct launch *l, const char *mark)
{
	const char *at = strstr(l->name, mark);
	return at ? at + strlen(mark) : NULL;
}

enum number_type launch_type(const char *text)
{
	static const char space[] = " const";
	size_t length = text ? strcspn(text, ",<>()*&") : 0;
	if (length > strlen(space) && !memcmp(text + length - strlen(space), space, strlen(space)))
		length -= strlen(space);
	while (length && text[length - 1] == ' ')
		length--;
	return number_named(text, length);
}

/* The declared type of argument `n`: the parameters are in the last brackets of the name. */
static const char *parameter(const struct launch *l, unsigned n)
{
	const char *at = l->name + strlen(l->name), *open = "(<{", *close = ")>}";
	int depth = 0;
	do {
		if (at == l->name)
			return NULL;
		at--;
		depth += (*at && strchr(close, *at)) - (*at && strchr(open, *at));
	} while (depth);
	for (at++; *at && n; at++) {
		depth += (strchr(open, *at) != NULL) - (strchr(close, *at) != NULL);
		n -= !depth && *at == ',';
	}
	return at + strspn(at, " ");
}

struct element element_of(const struct launch *l, unsigned n)
{
	static const char opaque[] = "OpaqueType<", wrapped[] = "device_ptr<";
	struct element e = { 0 };
	const char *from = parameter(l, n), *inner;
	size_t length = from ? strcspn(from, "<,)*") : 0;
	if (!from)
		return e;
	if (from[length] == '<') {
		inner = from + length + 1;
		bool is_opaque = length >= strlen(opaque) - 1 &&
				 !strncmp(inner - strlen(opaque), opaque, strlen(opaque));
		bool is_wrapped = length >= strlen(wrapped) - 1 &&
				  !strncmp(inner - strlen(wrapped), wrapped, strlen(wrapped));
		if (is_opaque)
			e.size = strtoul(inner, NULL, 10);
		else if (is_wrapped)
			e.type = launch_type(inner);
	} else if (from[length] == '*') {
		e.type = launch_type(from);
	}
	e.size = e.type ? number_size(e.type) : e.size <= sizeof(long double) ? e.size : 0;
	return e;
}

bool launch_device(const void *pointer, uint64_t bytes)
{
	return memory_is_device(pointer) && bytes < BEYOND &&
	       memory_is_device((const char *)pointer + bytes);
}

size_t strided_read(struct strided *s, const void *from, unsigned arguments)
{
	const unsigned *word = from;
	unsigned columns = arguments ? arguments : 1;
	if (word[0] > DIMENSIONS || columns > ARGUMENTS)
		return 0;
	*s = (struct strided){ .dimensions = word[0], .arguments = arguments };
	word++;
	for (unsigned i = 0; i < s->dimensions; i++) /* divisor, magic, shift */
		if (!(s->sizes[i] = word[3 * i]))
			return 0;
	word += 3 * DIMENSIONS;
	for (unsigned i = 0; i < s->dimensions; i++)
		for (unsigned a = 0; a < columns; a++)
			s->strides[i][a] = word[i * columns + a];
	word += DIMENSIONS * columns;
	return (size_t)((const char *)word - (const char *)from);
}

uint64_t strided_reach(const struct strided *s, unsigned argument)
{
	uint64_t reach = 0;
	for (unsigned i = 0; i < s->dimensions; i++)
		if (__builtin_add_overflow(
			    reach, (uint64_t)(s->sizes[i] - 1) * s->strides[i][argument], &reach) ||
		    reach > BEYOND)
			return BEYOND;
	return reach;
}

void strided_offsets(const struct strided *s, uint64_t index, uint64_t offsets[ARGUMENTS])
{
	memset(offsets, 0, ARGUMENTS * sizeof *offsets);
	for (unsigned i = 0; i < s->dimensions; i++) {
		uint64_t at = index % s->sizes[i];
		index /= s->sizes[i];
		for (unsigned a = 0; a < s->arguments; a++)
			offsets[a] += at * s->strides[i][a];
	}
}

static void advance(struct walk *w, unsigned step)
{
	const struct strided *s = w->layout;
	w->at[0] += step;
	for (unsigned a = 0; a < s->arguments; a++)
		w->offsets[a] += (uint64_t)step * s->strides[0][a];
	for (unsigned d = 0; d + 1 < s->dimensions && w->at[d] == s->sizes[d]; d++) {
		for (unsigned a = 0; a < s->arguments; a++)
			w->offsets[a] +=
				s->strides[d + 1][a] - (uint64_t)s->sizes[d] * s->strides[d][a];
		w->at[d] = 0;
		w->at[d + 1]++;
	}
}

void walk_next(struct walk *w, uint64_t offsets[][CHUNK], unsigned n)
{
	const struct strided *s = w->layout;
	for (unsigned done = 0, run; done < n; done += run) {
		unsigned row = s->dimensions ? s->sizes[0] - w->at[0] : 1;
		run = row && row < n - done ? row : n - done;
		for (unsigned a = 0; a < s->arguments; a++) {
			uint64_t first = w->offsets[a], step = s->strides[0][a];
			for (unsigned i = 0; i < run; i++)
				offsets[a][done + i] = first + i * step;
		}
		advance(w, run);
	}
}

struct strided strided_row(uint64_t items, unsigned arguments, const size_t *bytes)
{
	struct strided s = { .dimensions = 1, .arguments = arguments };
	s.sizes[0] = (unsigned)items;
	for (unsigned a = 0; a < arguments; a++)
		s.strides[0][a] = (unsigned)bytes[a];
	return s;
}

uint64_t computed_most(enum number_type type)
{
	return number_floating(type) ? COMPUTED_FLOATS
	       : type == NUMBER_BOOL ? COMPUTED_FLAGS
				     : COMPUTED_INTEGERS;
}

/* ---- tainted data */

static _Thread_local const char *because; /* of the taint that the launch has read, or NULL */

unsigned launch_outputs(const char *name)
{
	struct launch l = { .name = name };
	unsigned outputs = 0;
	for (unsigned n = 0; n < 32; n++) {
		const char *type = parameter(&l, n);
		size_t length = type ? strcspn(type, "<,)*&") : 0;
		if (!length)
			break;
		if (type[length] == '*' && !strstr(type, "std::") &&
		    number_integral(launch_type(type)) &&
		    strncmp(type + length - 5, "const", 5) != 0)
			outputs |= 1u << n;
	}
	return outputs;
}

void launch_taint(const struct launch *l, unsigned outputs)
{
	for (unsigned n = 0; outputs >> n; n++) {
		const char *to = outputs >> n & 1 ? *(char **)l->arguments[n] : NULL;
		size_t size = to ? element_of(l, n).size : 0;
		if (size && launch_device(to, size))
			taint_set(to, size, (unsigned)size, l->name);
	}
}

void launch_begins(void)
{
	because = NULL;
}

void launch_reads(const void *from, uint64_t bytes)
{
	if (!because)
		because = taint_of(from, bytes);
}

void launch_writes(const void *to, uint64_t bytes)
{
	if (because)
		taint_set(to, bytes, 1, because);
	else
		taint_clear(to, bytes);
}

void launch_leaves(const struct launch *l, const void *to, uint64_t bytes)
{
	if (launch_device(to, bytes))
		taint_set(to, bytes, 1, because ? because : l->name);
}
