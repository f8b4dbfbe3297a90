#include "export/exposition.h"

#include "attribution/category.h"
#include "attribution/owner.h"
#include "report/report.h"
#include "util/hash.h"

#include <memtrace/trace.h>
#include <string.h>

struct process_samples {
	struct buf labels; /* run="...",rank="..." */
	uint64_t start_ns;
	struct buf samples[METRIC_COUNT];
	UT_hash_handle hh;
};

static const struct metric {
	const char *name, *type, *help;
} metrics[] = {
#define METRIC(id, name, type, help) { name, type, help },
#include "export/prometheus.def"
#undef METRIC
};

static void add_label(struct buf *b, const char *name, const char *value, size_t length)
{
	struct buf clean = { 0 };

	buf_add_clean(&clean, (struct str){ value, length });
	buf_addf(b, "%s=\"", name);
	for (size_t i = 0; i < clean.length; i++) {
		buf_puts(b, strchr("\"\\", clean.text[i]) ? "\\" : "");
		buf_add(b, &clean.text[i], 1);
	}
	buf_puts(b, "\"");
	buf_release(&clean);
}

/* The process with these labels, whose samples are to be written; NULL: it is another one. */
static struct process_samples *take_labels(struct exposition *x, struct buf *labels,
					   uint64_t start_ns)
{
	struct process_samples *p;

	HASH_FIND(hh, x->processes, labels->text, labels->length, p);
	if (p) {
		x->left_out++;
		if (p->start_ns > start_ns)
			return NULL;
		for (size_t i = 0; i < METRIC_COUNT; i++)
			p->samples[i].length = 0;
	} else {
		p = xcalloc(1, sizeof(*p));
		p->labels = *labels;
		*labels = (struct buf){ 0 };
		HASH_ADD_KEYPTR(hh, x->processes, p->labels.text, p->labels.length, p);
	}
	p->start_ns = start_ns;
	return p;
}

void exposition_process(struct exposition *x, const char *run, int rank, uint64_t start_ns)
{
	struct buf labels = { 0 };

	add_label(&labels, "run", run, strlen(run));
	buf_addf(&labels, ",rank=\"%d\"", rank_number(rank));
	x->device = MT_NO_DEVICE;
	x->process = take_labels(x, &labels, start_ns);
	buf_release(&labels);
}

void exposition_device(struct exposition *x, unsigned device)
{
	x->device = device;
}

void exposition_sample(struct exposition *x, enum metric_id id, const char *label, const char *of,
		       double value)
{
	struct buf *b;

	if (!x->process)
		return;
	b = &x->process->samples[id];
	buf_addf(b, "%s{%s", metrics[id].name, x->process->labels.text);
	if (x->device != MT_NO_DEVICE)
		buf_addf(b, ",device=\"%u\"", x->device);
	if (label) {
		buf_puts(b, ",");
		add_label(b, label, of, strlen(of));
	}
	buf_addf(b, "} %.17g\n", value);
}

static void put(struct exposition *x, enum metric_id id, bytes value)
{
	exposition_sample(x, id, NULL, NULL, (double)value);
}

void exposition_levels(struct exposition *x, const struct device_levels *l)
{
	put(x, METRIC_ALLOCATED, l->allocated);
	put(x, METRIC_ALLOCATED_PEAK, l->allocated_peak);
	put(x, METRIC_RESERVED, l->reserved);
	put(x, METRIC_RESERVED_PEAK, l->reserved_peak);
	if (l->total)
		put(x, METRIC_TOTAL, l->total);
	exposition_sample(x, METRIC_OOMS, NULL, NULL, (double)l->ooms);
}

void exposition_use(struct exposition *x, bytes now, bytes peak)
{
	put(x, METRIC_DEVICE, now);
	put(x, METRIC_DEVICE_PEAK, peak);
}

void exposition_categories(struct exposition *x, enum metric_id id, const bytes values[])
{
	for (enum category c = 0; c < CATEGORIES; c++)
		if (values[c])
			exposition_sample(x, id, "category", category_key(c), (double)values[c]);
}

void exposition_owners(struct exposition *x, enum metric_id id, const bytes values[])
{
	for (enum owner o = 0; o < OWNERS; o++)
		if (values[o])
			exposition_sample(x, id, "owner", owner_key(o), (double)values[o]);
}

static void write_metric(const struct exposition *x, size_t id, struct output *o)
{
	const struct metric *m = &metrics[id];
	struct buf head = { 0 };

	buf_addf(&head, "# HELP %s %s\n# TYPE %s %s\n", m->name, m->help, m->name, m->type);
	for (const struct process_samples *p = x->processes; p; p = p->hh.next) {
		const struct buf *b = &p->samples[id];

		if (!b->length)
			continue;
		output_add(o, head.text, head.length); /* before the first one */
		head.length = 0;
		output_add(o, b->text, b->length);
	}
	buf_release(&head);
}

void exposition_write(struct exposition *x, struct output *o)
{
	for (size_t i = 0; i < METRIC_COUNT; i++)
		write_metric(x, i, o);
}

void exposition_release(struct exposition *x)
{
	for (struct process_samples *p = x->processes; p; p = p->hh.next) {
		buf_release(&p->labels);
		for (size_t i = 0; i < METRIC_COUNT; i++)
			buf_release(&p->samples[i]);
	}
	HASH_RELEASE(x->processes);
}
