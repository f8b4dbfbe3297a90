/* Kernels do nothing on the simulated device, but for a few that decide what the host does next:
 * comparisons, counts, routing. Those are recognised by name (kernels.def) and computed, where they
 * are small, on the host memory that backs small device buffers. Large tensors, and what only other
 * kernels read, are left alone.
 *
 * A handler that does not find what it expects (another version's layout of arguments) computes
 * nothing and says so, once a kernel.
 */
#define _GNU_SOURCE
#include "kernels/kernels.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* ---- every kernel's name, by the address that programs launch it by */

struct kernel {
	const void *host;
	const char *name; /* mangled; demangled once it has been launched */
	bool (*compute)(const struct launch *l);
	bool seen, told;
};

static pthread_rwlock_t lock = PTHREAD_RWLOCK_INITIALIZER;
static struct kernel *kernels;
static size_t count, capacity; /* a power of 2 */

static struct kernel *place_of(struct kernel *table, size_t size, const void *host)
{
	size_t at = (size_t)((uintptr_t)host >> 4) * 0x9e3779b97f4a7c15ull & (size - 1);
	while (table[at].host && table[at].host != host)
		at = (at + 1) & (size - 1);
	return &table[at];
}

static bool grow(void)
{
	size_t more = capacity ? capacity * 2 : 4096;
	struct kernel *table = calloc(more, sizeof *table);
	if (!table)
		return false;
	for (size_t i = 0; i < capacity; i++)
		if (kernels[i].host)
			*place_of(table, more, kernels[i].host) = kernels[i];
	free(kernels);
	kernels = table;
	capacity = more;
	return true;
}

void kernel_register(const void *host, const char *name)
{
	pthread_rwlock_wrlock(&lock);
	if (count * 2 < capacity || grow()) {
		struct kernel *kernel = place_of(kernels, capacity, host);
		count += !kernel->host;
		*kernel = (struct kernel){ .host = host, .name = name };
	}
	pthread_rwlock_unlock(&lock);
}

bool kernel_registered(const char *part)
{
	bool found = false;
	pthread_rwlock_rdlock(&lock);
	for (size_t i = 0; i < capacity && !found; i++)
		found = kernels[i].host && strstr(kernels[i].name, part);
	pthread_rwlock_unlock(&lock);
	return found;
}

/* By the C++ library of the program that has C++ kernels. */
static const char *demangle(const char *name)
{
	static char *(*real)(const char *, char *, size_t *, int *);
	int status = 0;
	if (!real) {
		void *library = dlopen("libstdc++.so.6", RTLD_NOLOAD | RTLD_LAZY);
		if (library)
			*(void **)&real = dlsym(library, "__cxa_demangle");
	}
	char *clear = real ? real(name, NULL, NULL, &status) : NULL;
	return clear ? clear : name;
}

static const struct {
	const char *part, *second;
	bool (*compute)(const struct launch *l);
} computed[] = {
#define KERNEL(part, second, compute) { part, second, compute },
#include "kernels/kernels.def"
#undef KERNEL
};

static void recognise(struct kernel *kernel)
{
	kernel->name = demangle(kernel->name);
	for (size_t i = 0; i < LENGTH(computed) && !kernel->compute; i++)
		if (strstr(kernel->name, computed[i].part) &&
		    strstr(kernel->name, computed[i].second))
			kernel->compute = computed[i].compute;
	sim_log("kernel %s%s", kernel->compute ? "(computed) " : "", kernel->name);
	kernel->seen = true;
}

static bool find(const void *host, struct kernel *found)
{
	pthread_rwlock_rdlock(&lock);
	struct kernel *kernel = capacity ? place_of(kernels, capacity, host) : NULL;
	bool known = kernel && kernel->host;
	if (known)
		*found = *kernel;
	pthread_rwlock_unlock(&lock);
	if (!known || found->seen)
		return known;
	pthread_rwlock_wrlock(&lock);
	kernel = place_of(kernels, capacity, host);
	if (!kernel->seen)
		recognise(kernel);
	*found = *kernel;
	pthread_rwlock_unlock(&lock);
	return true;
}

static void tell(const struct kernel *which)
{
	pthread_rwlock_wrlock(&lock);
	struct kernel *kernel = place_of(kernels, capacity, which->host);
	bool told = kernel->told;
	kernel->told = true;
	pthread_rwlock_unlock(&lock);
	if (!told)
		sim_say("kernel %.400s is not simulated: sizes that depend on what it writes will differ",
			which->name);
}

void kernel_run(const void *host, void **arguments, unsigned columns, unsigned rows)
{
	struct kernel kernel;
	if (!find(host, &kernel) || !kernel.compute)
		return;
	struct launch l = { kernel.name, arguments, columns, rows };
	if (!kernel.compute(&l))
		tell(&kernel);
}

/* ---- what handlers share */

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

/* <type, ...>(type *out, ...): a result that nobody computes, and which must be finite. */
bool compute_zero(const struct launch *l)
{
	void *to = *(void **)l->arguments[0];
	size_t size = number_size(launch_type(launch_after(l, "<")));
	if (launch_device(to, size))
		memset(to, 0, size);
	return true;
}
