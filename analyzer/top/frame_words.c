#include "top/frame_words.h"

#include <math.h>
#include <string.h>

void frame_size(struct buf *b, bytes size)
{
	static const char units[] = "BKMGTPE";
	double value = fabs((double)size);
	size_t unit = 0;

	/* 999.6 would be four digits. */
	while (value >= 999.5 && unit + 2 < sizeof(units)) {
		value /= 1024;
		unit++;
	}
	buf_addf(b, "%s%.*f%c", size < 0 ? "-" : "", unit && value < 99.95 ? 1 : 0, value,
		 units[unit]);
}

void frame_time(struct buf *b, double seconds)
{
	if (seconds < 99.5)
		buf_addf(b, "%.0f s", seconds);
	else if (seconds < 99.5 * 60)
		buf_addf(b, "%.0f min", seconds / 60);
	else if (seconds < 48 * 3600)
		buf_addf(b, "%.0f h", seconds / 3600);
	else
		buf_addf(b, "%.0f d", seconds < 1e11 ? seconds / 86400 : 999);
}

void frame_name(struct buf *b, const struct live_process *p)
{
	const char *slash = strrchr(p->path, '/'), *name = slash ? slash + 1 : p->path;

	if (p->state == LIVE_DAMAGED)
		buf_add_clean(b, (struct str){ name, strlen(name) });
	else if (p->rank >= 0)
		buf_addf(b, "rank %d", p->rank);
	else
		buf_addf(b, "pid %u", p->pid);
}
