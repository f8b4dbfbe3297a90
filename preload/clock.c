#include "clock.h"

#include <stddef.h>
#include <string.h>

#include "file.h"

#define FIRST_RATE_AFTER_NS 50000000u /* 20 ns of reading error in 50 ms: 0.4 ppm */
#define CORRECT_EVERY_NS 5000000000u
#define LINES 64          /* a line is drawn over only minutes after it was last in use */
#define ABSURD_NS 1000000 /* the counter is no clock if it is this far off */

_Atomic(const struct clock_line *) clock_line;

static struct {
	uint64_t tsc, ns; /* the first reading; 0: the counter is not to be used */
	struct clock_line line[LINES];
	unsigned next;
} c;

void clock_begin(void)
{
	char source[16] = "";

	atomic_store(&clock_line, NULL);
	memset(&c, 0, sizeof(c));
	if (file_read("/sys/devices/system/clocksource/clocksource0/current_clocksource", source,
		      sizeof(source) - 1) < 4 ||
	    strncmp(source, "tsc\n", 4) != 0)
		return;
	c.tsc = CLOCK_COUNTER();
	c.ns = now_ns();
}

void clock_correct(void)
{
	const struct clock_line *old = atomic_load(&clock_line);
	struct clock_line *l = &c.line[c.next];
	uint64_t ns = now_ns(), tsc = CLOCK_COUNTER(), shown;

	if (!c.tsc || ns - c.ns < FIRST_RATE_AFTER_NS || (old && ns - old->ns < CORRECT_EVERY_NS))
		return;
	shown = old ? clock_at(old, tsc) : ns;
	if (shown > ns + ABSURD_NS || shown + ABSURD_NS < ns) {
		c.tsc = 0;
		atomic_store(&clock_line, NULL);
		return;
	}
	l->tsc = tsc;
	l->ns = shown > ns ? shown : ns; /* never back */
	l->rate = (uint64_t)(((unsigned __int128)(ns - c.ns) << 32) / (tsc - c.tsc));
	atomic_store_explicit(&clock_line, l, memory_order_release);
	c.next = (c.next + 1) % LINES;
}
