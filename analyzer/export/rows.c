#include "export/rows.h"

#include "attribution/attribution.h"
#include "attribution/stack_text.h"
#include "export/events.h"
#include "report/report.h"
#include "trace/event.h"
#include "util/buf.h"

#include <stdlib.h>
#include <string.h>

const struct export_table export_tables[TABLE_COUNT] = {
#define TABLE(id, meaning) [TABLE_##id] = { #id, meaning },
#define COLUMN(table, name, type, meaning)
#include "export/tables.def"
#undef TABLE
#undef COLUMN
};

static const struct export_column columns[] = {
#define TABLE(id, meaning)
#define COLUMN(table, name, type, meaning) { TABLE_##table, #name, CELL_##type, meaning },
#include "export/tables.def"
#undef TABLE
#undef COLUMN
};

const struct export_column *table_columns(enum table_id table, size_t *count)
{
	size_t from = 0;

	while (columns[from].table != table)
		from++;
	for (*count = 0; from + *count < ARRAY_SIZE(columns); ++*count)
		if (columns[from + *count].table != table)
			break;
	return &columns[from];
}

struct rows_pass {
	const struct input *in;
	unsigned tables;
	row_function *row;
	void *context;
	struct cell cells[MAX_COLUMNS];
	size_t columns[TABLE_COUNT]; /* how many each table has */
	struct buf *threads;         /* names of threads, as far as they were needed */
	struct buf *places;          /* labels of stacks, as far as they were needed */
};

static int is_wanted(const struct rows_pass *p, enum table_id table)
{
	return (int)(p->tables >> table & 1);
}

static void begin_row(struct rows_pass *p, enum table_id table)
{
	memset(p->cells, 0, p->columns[table] * sizeof(*p->cells));
}

static void end_row(struct rows_pass *p, enum table_id table)
{
	p->row(p->context, table, p->cells);
}

static struct cell integer(int64_t value)
{
	return (struct cell){ .type = CELL_INTEGER, .integer = value };
}

static struct cell text(const char *value, size_t length)
{
	return (struct cell){ .type = length ? CELL_TEXT : CELL_NULL, .text = { value, length } };
}

static struct cell word(const char *value)
{
	return value ? text(value, strlen(value)) : (struct cell){ 0 };
}

#define SET(p, table, name, cell) ((p)->cells[COLUMN_##table##_##name - FIRST_##table] = (cell))

/* Names the process of a row. */
#define SET_PROCESS(p, table)                                                          \
	do {                                                                           \
		SET(p, table, rank, integer(rank_number((p)->in->trace.header.rank))); \
		SET(p, table, process, integer((p)->in->process));                     \
	} while (0)

/* The thread's name, NULL if it has none. */
static struct cell thread_name(struct rows_pass *p, uint16_t thread)
{
	struct buf *b = &p->threads[thread];

	if (!b->text)
		buf_add_clean(b, tables_thread(&p->in->trace.tables, thread).name);
	return text(b->text, b->length);
}

static struct cell place(struct rows_pass *p, uint32_t stack)
{
	const struct tables *t = &p->in->trace.tables;
	struct buf *b;

	if (stack >= t->stack_count || !tables_stack(t, stack)->frame_count)
		return (struct cell){ 0 };
	b = &p->places[stack];
	if (!b->text)
		stack_add_label(t, stack, b);
	return text(b->text, b->length);
}

static void add_process(struct rows_pass *p)
{
	const struct mt_header *h = &p->in->trace.header;
	struct buf host = { 0 }, run = { 0 };

	buf_add_clean(&host, (struct str){ h->host, strnlen(h->host, sizeof(h->host)) });
	buf_add_clean(&run, (struct str){ h->run_id, strnlen(h->run_id, sizeof(h->run_id)) });
	begin_row(p, TABLE_processes);
	SET_PROCESS(p, processes);
	SET(p, processes, pid, integer(h->pid));
	SET(p, processes, host, text(host.text, host.length));
	SET(p, processes, run, text(run.text, run.length));
	SET(p, processes, restart, integer(h->restart_count));
	SET(p, processes, start_realtime_ns, integer((int64_t)h->start_realtime_ns));
	if (h->end_ns)
		SET(p, processes, end_ns, integer((int64_t)h->end_ns));
	SET(p, processes, simulated, integer((h->flags & MT_FLAG_SIMULATED) != 0));
	SET(p, processes, lost_events, integer((int64_t)h->lost_events));
	end_row(p, TABLE_processes);
	buf_release(&host);
	buf_release(&run);
}

static void add_stacks(struct rows_pass *p)
{
	const struct tables *t = &p->in->trace.tables;
	struct buf module = { 0 }, frames = { 0 };

	for (uint32_t i = 1; i < t->stack_count; i++) {
		module.length = frames.length = 0;
		buf_add_clean(&module, tables_module(t, tables_stack(t, i)->module));
		stack_add_text(t, i, &frames);
		begin_row(p, TABLE_stacks);
		SET_PROCESS(p, stacks);
		SET(p, stacks, stack, integer(i));
		SET(p, stacks, module, text(module.text, module.length));
		SET(p, stacks, owner, word(owner_key(tables_stack_owner(t, i))));
		SET(p, stacks, place, place(p, i));
		SET(p, stacks, frames, text(frames.text, frames.length));
		end_row(p, TABLE_stacks);
	}
	buf_release(&module);
	buf_release(&frames);
}

static const char *action_of(const struct rows_pass *p, const struct mt_record *r)
{
	unsigned alloc = event_alloc_kind(r->kind);
	int is_alloc = alloc == r->kind;

	if (input_is_failure(p->in, r))
		return "oom";
	if (input_is_block(p->in, r))
		return is_alloc ? "alloc" : "free_completed";
	if (!input_is_segment(p->in, r))
		return NULL;
	if (alloc == MT_MAP)
		return is_alloc ? "segment_map" : "segment_unmap";
	return is_alloc ? "segment_alloc" : "segment_free";
}

static void add_action(struct rows_pass *p, const struct mt_record *r)
{
	const char *action = action_of(p, r);

	if (!action)
		return;
	begin_row(p, TABLE_device_traces);
	SET_PROCESS(p, device_traces);
	SET(p, device_traces, device, integer(r->device));
	SET(p, device_traces, time_ns, integer((int64_t)r->time_ns));
	SET(p, device_traces, action, word(action));
	if (!input_is_failure(p->in, r))
		SET(p, device_traces, addr, integer((int64_t)r->address));
	else if (r->address != MT_UNKNOWN)
		SET(p, device_traces, device_free, integer((int64_t)r->address));
	SET(p, device_traces, size, integer(r->bytes < 0 ? -r->bytes : r->bytes));
	SET(p, device_traces, stack, integer(r->stack));
	end_row(p, TABLE_device_traces);
}

static int by_address(const void *a, const void *b)
{
	const struct lifetime *x = a, *y = b;

	return x->alloc.address < y->alloc.address ? -1 : x->alloc.address > y->alloc.address;
}

/* The block among those that are live at the peak; NULL: it is not one of them. */
static const struct lifetime *at_peak(const struct rows_pass *p, const struct mt_record *r)
{
	const struct lifetimes *l = &p->in->replay.device[r->device].peak_blocks;
	const struct lifetime key = { .alloc = *r };
	const struct lifetime *found =
		l->count ? bsearch(&key, l->list, l->count, sizeof(*l->list), by_address) : NULL;

	return found && found->alloc.time_ns == r->time_ns ? found : NULL;
}

static void add_block(struct rows_pass *p, const struct mt_record *r, const struct mt_record *freed)
{
	const struct lifetime *peak = at_peak(p, r);
	const struct span *span = input_span(p->in, r->device, r->time_ns);

	begin_row(p, TABLE_blocks);
	SET_PROCESS(p, blocks);
	SET(p, blocks, device, integer(r->device));
	SET(p, blocks, address, integer((int64_t)r->address));
	SET(p, blocks, size, integer(r->bytes));
	SET(p, blocks, allocated_ns, integer((int64_t)r->time_ns));
	if (freed)
		SET(p, blocks, freed_ns, integer((int64_t)freed->time_ns));
	if (span && span->step)
		SET(p, blocks, step, integer(span->step));
	if (span)
		SET(p, blocks, phase, word(phase_name((enum phase)span->phase)));
	SET(p, blocks, at_peak, integer(peak != NULL));
	if (peak)
		SET(p, blocks, category, word(category_key((enum category)peak->category)));
	SET(p, blocks, thread, thread_name(p, r->thread));
	SET(p, blocks, stack, integer(r->stack));
	SET(p, blocks, place, place(p, r->stack));
	end_row(p, TABLE_blocks);
}

static void add_segment(struct rows_pass *p, const struct mt_record *r,
			const struct mt_record *freed)
{
	begin_row(p, TABLE_segments);
	SET_PROCESS(p, segments);
	SET(p, segments, device, integer(r->device));
	SET(p, segments, address, integer((int64_t)r->address));
	SET(p, segments, total_size, integer(r->bytes));
	SET(p, segments, is_expandable, integer(r->kind == MT_MAP));
	SET(p, segments, allocated_ns, integer((int64_t)r->time_ns));
	if (freed)
		SET(p, segments, freed_ns, integer((int64_t)freed->time_ns));
	SET(p, segments, stack, integer(r->stack));
	end_row(p, TABLE_segments);
}

/* An allocation whose end is known; `freed` NULL: it is live at the end. */
static void add_lifetime(struct rows_pass *p, const struct mt_record *r,
			 const struct mt_record *freed)
{
	if (r->device >= MT_MAX_DEVICES)
		return;
	if (is_wanted(p, TABLE_blocks) && input_is_block(p->in, r))
		add_block(p, r, freed);
	else if (is_wanted(p, TABLE_segments) && input_is_segment(p->in, r))
		add_segment(p, r, freed);
}

static void add_record(struct rows_pass *p, uint64_t sequence, const struct mt_record *r)
{
	static const char *const names[256] = {
#define EVENT(name, id, layer, effect, meaning) [id] = #name,
#include <memtrace/events.def>
#undef EVENT
	};

	begin_row(p, TABLE_records);
	SET_PROCESS(p, records);
	SET(p, records, sequence, integer((int64_t)sequence));
	SET(p, records, time_ns, integer((int64_t)r->time_ns));
	SET(p, records, event, word(names[r->kind]));
	if (r->device != MT_NO_DEVICE)
		SET(p, records, device, integer(r->device));
	SET(p, records, address, integer((int64_t)r->address));
	SET(p, records, bytes, integer(r->bytes));
	SET(p, records, stack, integer(r->stack));
	SET(p, records, thread, thread_name(p, r->thread));
	end_row(p, TABLE_records);
}

static void on_event(void *context, uint64_t sequence, const struct mt_record *r,
		     const struct mt_record *allocated)
{
	struct rows_pass *p = context;

	if (is_wanted(p, TABLE_records))
		add_record(p, sequence, r);
	if (is_wanted(p, TABLE_device_traces) && r->device < MT_MAX_DEVICES)
		add_action(p, r);
	if (allocated)
		add_lifetime(p, allocated, r);
}

static void on_live(void *context, const struct mt_record *allocated)
{
	add_lifetime(context, allocated, NULL);
}

static void release_texts(struct buf *all, size_t count)
{
	for (size_t i = 0; i < count; i++)
		buf_release(&all[i]);
	free(all);
}

void rows_of(const struct input *in, unsigned tables, row_function *row, void *context)
{
	const unsigned of_events = 1u << TABLE_device_traces | 1u << TABLE_blocks |
				   1u << TABLE_segments | 1u << TABLE_records;
	size_t stacks = in->trace.tables.stack_count;
	struct rows_pass p = { .in = in,
			       .tables = tables,
			       .row = row,
			       .context = context,
			       .threads = xcalloc(1u << 16, sizeof(*p.threads)),
			       .places = xcalloc(stacks, sizeof(*p.places)) };
	const struct event_sink events = {
		.context = &p, .until = UINT64_MAX, .event = on_event, .live = on_live
	};

	for (enum table_id i = 0; i < TABLE_COUNT; i++)
		table_columns(i, &p.columns[i]);
	if (is_wanted(&p, TABLE_processes))
		add_process(&p);
	if (is_wanted(&p, TABLE_stacks))
		add_stacks(&p);
	if (tables & of_events)
		(void)events_visit(&in->trace, &events); /* what a cut file still has */
	release_texts(p.threads, 1u << 16);
	release_texts(p.places, stacks);
}
