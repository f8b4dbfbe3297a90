/* The copies that really move bytes. A simulation must not pay host memory for tensors that only
 * kernels would touch, yet what the host reads back (a loss, a found-inf flag, token counts) should
 * be what it wrote:
 * - host to host: always;
 * - from the host to the device: up to CUDASIM_COPY_MAX, and of integers (token ids, lengths) up
 *   to ON_DEVICE_MAX;
 * - on the device, and from it: what holds data, of larger ones by pages (a page that nobody wrote
 *   has none); on the device up to ON_DEVICE_MAX;
 * - fills with a value: up to ON_DEVICE_MAX; with zero: always. Large ones give the pages back,
 *   which then read as zero.
 * What is left out is tainted (taint.h). */
#define _GNU_SOURCE
#include "device/copy.h"

#include "device/common.h"
#include "device/taint.h"
#include "device/memory.h"
#include "device/settings.h"

#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#define WHOLE_MAX KIB(64)
#define ON_DEVICE_MAX MIB(64)
#define TOO_LARGE "a copy is larger than 64 MiB"
#define TOO_LARGE_FILL "a fill is larger than 64 MiB"

enum { PAGE = 4096, PAGES = 512, SAMPLES = 512 };

/* Which of the pages hold data? By /proc/self/pagemap: present, or swapped out. */
static bool pages_used(int map, uint64_t first, unsigned pages, uint64_t entries[PAGES])
{
	ssize_t bytes = (ssize_t)(pages * sizeof *entries);
	return pread(map, entries, (size_t)bytes, (off_t)(first / PAGE * sizeof *entries)) == bytes;
}

bool copy_used(const void *from, uint64_t bytes)
{
	uint64_t entries[PAGES], at = (uint64_t)from / PAGE * PAGE, end = (uint64_t)from + bytes;
	int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	bool used = map < 0;
	while (at < end && !used) {
		uint64_t pages = (end - at + PAGE - 1) / PAGE;
		unsigned n = pages < PAGES ? (unsigned)pages : PAGES;
		used = !pages_used(map, at, n, entries);
		for (unsigned i = 0; i < n && !used; i++)
			used = entries[i] >> 62;
		at += n * (uint64_t)PAGE;
	}
	if (map >= 0)
		close(map);
	return used;
}

static void copy_part(char *to, const char *from, size_t bytes, bool used)
{
	if (used)
		memmove(to, from, bytes);
	else if (memory_is_device(to))
		memory_forget((uint64_t)to, bytes);
}

/* Copies as many pages at a time as are stored alike; nothing overlaps. */
static void copy_parts(char *to, const char *from, size_t bytes)
{
	uint64_t entries[PAGES];
	int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
	while (bytes) {
		uint64_t first = (uint64_t)from / PAGE * PAGE, end = (uint64_t)from + bytes;
		uint64_t pages = (round_up(end, PAGE) - first) / PAGE;
		unsigned n = pages < PAGES ? (unsigned)pages : PAGES;
		bool known = map >= 0 && pages_used(map, first, n, entries);
		for (unsigned i = 0, next; i < n; i = next) {
			bool used = !known || entries[i] >> 62;
			for (next = i + 1; next < n && used == (!known || entries[next] >> 62);)
				next++;
			size_t part = first + (uint64_t)next * PAGE - (uint64_t)from;
			part = part < bytes ? part : bytes;
			copy_part(to, from, part, used);
			to += part, from += part, bytes -= part;
		}
	}
	if (map >= 0)
		close(map);
}

static void copy_kept(void *to, const void *from, size_t bytes)
{
	const char *end = (const char *)from + bytes;
	bool apart = (char *)to >= end || (const char *)from >= (char *)to + bytes;
	uint64_t whole = memory_is_device(to) ? WHOLE_MAX : settings.copy_max;
	if (bytes <= whole || !memory_is_device(from) || !apart)
		memmove(to, from, bytes);
	else
		copy_parts(to, from, bytes);
}

/* By a sample: small integers of 32 or 64 bits, or booleans, not all 0. Numbers in floating point
 * have an exponent in their highest byte. */
static bool are_integers(const char *from, uint64_t bytes)
{
	bool any = false;
	for (unsigned i = 0; i < SAMPLES; i++) {
		uint32_t word;
		memcpy(&word, from + bytes / SAMPLES * i / 8 * 8 % (bytes - 8) + i % 2 * 4, 4);
		if (word >> 24 && word >> 24 != 0xff && (word & 0xfefefefe))
			return false;
		any |= word != 0;
	}
	return any;
}

/* Moves the taint; false: the bytes are not kept. */
static bool kept(const void *to, const void *from, uint64_t bytes)
{
	bool to_device = memory_is_device(to), from_device = memory_is_device(from);
	if (from_device && !to_device)
		taint_read(from, bytes);
	if (!to_device)
		return true;
	bool integers = from_device || bytes <= settings.copy_max || are_integers(from, bytes);
	if (!integers)
		return false;
	if (bytes > ON_DEVICE_MAX && (from_device || bytes > settings.copy_max)) {
		taint_set(to, bytes, 1, TOO_LARGE);
		return false;
	}
	if (from_device)
		taint_copy(to, from, bytes);
	else
		taint_clear(to, bytes);
	return true;
}

void copy_bytes(void *to, const void *from, size_t bytes)
{
	if (bytes && to != from && kept(to, from, bytes))
		copy_kept(to, from, bytes);
}

int cudasim_copy(void *to, const void *from, size_t bytes)
{
	bool known = !memory_is_device(from) || !taint_of(from, bytes);
	if (memory_is_device(to))
		taint_clear(to, bytes);
	copy_kept(to, from, bytes);
	return known;
}

void cudasim_forget(const void *at, size_t bytes, const char *cause)
{
	if (bytes && memory_is_device(at))
		taint_set(at, bytes, 1, cause);
}

void copy_rows(void *to, size_t to_pitch, const void *from, size_t from_pitch, size_t width,
	       size_t rows)
{
	if (!kept(to, from, product(width, rows)))
		return;
	for (size_t row = 0; row < rows; row++)
		copy_kept((char *)to + row * to_pitch, (const char *)from + row * from_pitch,
			  width);
}

void fill_bytes(void *to, int value, size_t bytes)
{
	if (memory_is_device(to))
		taint_clear(to, bytes);
	if (bytes <= WHOLE_MAX || !memory_is_device(to) || (value && bytes <= ON_DEVICE_MAX))
		memset(to, value, bytes);
	else if (!value)
		memory_forget((uint64_t)to, bytes);
	else
		taint_set(to, bytes, 1, TOO_LARGE_FILL);
}

void fill_words(void *to, unsigned value, size_t width, size_t count)
{
	uint64_t bytes = product(width, count);
	if (memory_is_device(to) && bytes > ON_DEVICE_MAX) {
		taint_set(to, bytes, 1, TOO_LARGE_FILL);
		return;
	}
	if (memory_is_device(to))
		taint_clear(to, bytes);
	for (size_t i = 0; i < count; i++) /* little endian: the low bytes are the value */
		memcpy((char *)to + i * width, &value, width);
}
