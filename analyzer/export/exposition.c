#include "export/exposition.h"

#include "report/report.h"

#include <memtrace/trace.h>
#include <string.h>

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

void exposition_process(struct exposition *x, const char *run, int rank)
{
	x->process.length = 0;
	x->device = MT_NO_DEVICE;
	add_label(&x->process, "run", run, strlen(run));
	buf_addf(&x->process, ",rank=\"%d\"", rank_number(rank));
}

void exposition_device(struct exposition *x, unsigned device)
{
	x->device = device;
}

void exposition_sample(struct exposition *x, enum metric_id id, const char *label, const char *of,
		       double value)
{
	struct buf *b = &x->samples[id];

	buf_addf(b, "%s{%s", metrics[id].name, x->process.text);
	if (x->device != MT_NO_DEVICE)
		buf_addf(b, ",device=\"%u\"", x->device);
	if (label) {
		buf_puts(b, ",");
		add_label(b, label, of, strlen(of));
	}
	buf_addf(b, "} %.17g\n", value);
}

void exposition_write(struct exposition *x, struct output *o)
{
	struct buf head = { 0 };

	for (size_t i = 0; i < METRIC_COUNT; i++) {
		if (!x->samples[i].length)
			continue;
		head.length = 0;
		buf_addf(&head, "# HELP %s %s\n# TYPE %s %s\n", metrics[i].name, metrics[i].help,
			 metrics[i].name, metrics[i].type);
		output_add(o, head.text, head.length);
		output_add(o, x->samples[i].text, x->samples[i].length);
	}
	buf_release(&head);
}

void exposition_release(struct exposition *x)
{
	for (size_t i = 0; i < METRIC_COUNT; i++)
		buf_release(&x->samples[i]);
	buf_release(&x->process);
}
