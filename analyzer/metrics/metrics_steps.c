#include "metrics/metrics_steps.h"

#define WARM_UP 3 /* growth in the first steps is no trend */
#define GIB (INT64_C(1) << 30)

/* The floor of the steps rises for at least three steps and falls back: blocks waited for Python's
 * garbage collector. */
static void record_sawtooth(const struct device_pass *d)
{
	bytes low = 0, high = 0;
	unsigned rise = 0;

	for (size_t i = WARM_UP; i < d->count; i++) {
		bytes floor = d->list[i].floor;

		if (i == WARM_UP || floor < low)
			low = high = floor;
		if (floor > high) {
			high = floor;
			rise++;
			continue;
		}
		if (rise >= 3 && high - low >= 4 << 20 && (high - floor) / 8 > (high - low) / 10) {
			d->m->sawtooth_teeth++;
			if (high - low > d->m->sawtooth_bytes)
				d->m->sawtooth_bytes = high - low;
		}
		if (high - floor > (high - low) / 2) {
			low = high = floor;
			rise = 0;
		}
	}
}

static void record_growth(const struct device_pass *d)
{
	const struct step_levels *first = &d->list[WARM_UP], *last = &d->list[d->count - 1];
	bytes reserved = 0, least = INT64_MAX, most = 0, peak = 0, lowest = INT64_MAX;

	for (size_t i = 0; i < d->count; i++) {
		const struct step_levels *s = &d->list[i];
		bytes rise = s->peak - s->floor;

		if (i >= WARM_UP && i + 1 < d->count && s->reserved > reserved)
			d->m->ratchet_steps++;
		reserved = s->reserved > reserved ? s->reserved : reserved;
		if (i < WARM_UP || i + 1 >= d->count)
			continue;
		peak = s->peak > peak ? s->peak : peak;
		lowest = s->peak < lowest ? s->peak : lowest;
		least = rise < least ? rise : least;
		most = rise > most ? rise : most;
	}
	d->m->reserved_growth = last->reserved - first->reserved;
	d->m->peak_growth = peak - first->peak;
	d->m->floor_growth = last->floor - first->floor;
	d->m->peak_spread = peak > lowest ? peak - lowest : 0;
	d->m->size_spread = least >= 100 && least < INT64_MAX ? most / (least / 100) : 0;
	d->m->outside_growth = last->outside - first->outside;
	if (d->count > WARM_UP)
		d->m->outside_per_step = d->m->outside_growth / (bytes)(d->count - WARM_UP);
	/* The step that failed may not have had its growth. */
	if (d->failure && d->count > WARM_UP + 2)
		d->m->outside_per_step =
			(last[-1].outside - first->outside) / (bytes)(d->count - WARM_UP - 2);
}

/* Host memory that PyTorch pins stays pinned: buffers that are reused stop to grow it. */
static void record_pinned(const struct device_pass *d)
{
	bytes first = d->list[WARM_UP].pinned, middle = d->list[(WARM_UP + d->count) / 2].pinned,
	      most = first;
	int64_t rises = 0;
	size_t last = WARM_UP;

	for (size_t i = WARM_UP + 1; i < d->count; i++) {
		if (d->list[i].pinned > most) {
			rises++;
			last = i;
		}
		most = d->list[i].pinned > most ? d->list[i].pinned : most;
	}
	if (!rises || most - middle < (most - first) / 3)
		return;
	d->m->pinned_growth = most - first;
	d->m->pinned_steps = rises;
	d->m->pinned_per_step = d->m->pinned_growth / (bytes)(last - WARM_UP);
}

static void record_calls(const struct device_pass *d)
{
	uint64_t retry_steps = 0, emptied_steps = 0, calls = 0, counted = 0;
	bytes emptied = 0;

	for (size_t i = 0; i < d->count; i++) {
		d->m->retries += d->list[i].retries;
		if (i < WARM_UP)
			continue;
		counted++;
		retry_steps += d->list[i].retries != 0;
		emptied_steps += d->list[i].emptied > 0;
		emptied = bytes_add(emptied, d->list[i].emptied);
		calls += d->list[i].calls;
	}
	if (!counted)
		return;
	d->m->retry_steps = (int64_t)(retry_steps * 100 / counted);
	d->m->emptied_steps = (int64_t)(emptied_steps * 100 / counted);
	d->m->emptied_bytes = emptied / (bytes)counted;
	d->m->segment_calls = (int64_t)(calls / counted);
}

/* How much less the steps need without one kind of blocks. The passes of the first step are those
 * of a later one without the optimizer's states. */
static bytes saved_without(const struct device_pass *d, enum counterfactual kind)
{
	bytes need = d->m->peak_needed, least = d->best[kind];

	if (d->m->whole_measured)
		need = larger_of(need, d->m->whole_need);
	if (d->later_states)
		least = larger_of(least, d->best_first[kind] + d->later_states);
	return larger_of(need - least, 0);
}

static void record_counterfactuals(const struct device_pass *d)
{
	struct metrics *m = d->m;
	bytes request = d->failure ? d->failure->requested : 0, before = d->peak_before;

	/* The second step has the states that the first one made, in its passes too. */
	if (d->later_states)
		before = larger_of(before, m->whole_pass);
	/* An evaluation follows the training of its step. */
	if (m->in_evaluation)
		before = larger_of(before, d->trained_peak);
	m->allocated_peak = d->device->peak.allocated;
	m->reserved_peak = d->device->reserved_peak;
	m->peak_needed = m->allocated_peak > m->allocated + request ? m->allocated_peak
								    : m->allocated + request;
	if (m->peak_needed > before && before > 0)
		m->size_growth = m->peak_needed - before;
	/* The step that failed would have grown in all its parts as in those that it got to. */
	for (size_t i = 0; i + 1 < d->count && m->failed && m->size_ratio > 100; i++) {
		bytes rise = (d->list[i].peak - d->list[i].floor) / 100;

		rise = rise > BYTES_LIMIT / m->size_ratio ? BYTES_LIMIT
							  : rise * (m->size_ratio - 100);
		m->batch_growth = rise > m->batch_growth ? rise : m->batch_growth;
	}
	m->batch_growth = m->size_growth > m->batch_growth ? m->size_growth : m->batch_growth;
	m->without_logits =
		saved_without(d, d->logits_are_huge ? WITHOUT_OWN_LOGITS : WITHOUT_LOGITS);
#define SET(field, id) m->without_##field = saved_without(d, WITHOUT_##id)
	SET(attention, ATTENTION);
	SET(optimizer_temporaries, TEMPORARIES);
	SET(huge, HUGE);
	SET(clipping, CLIPPING);
	SET(loaded, LOADED);
	SET(saving, SAVING);
	SET(new_run, NEW_RUN);
	SET(old_gradients, OLD_GRADIENTS);
	SET(teacher, TEACHER);
	SET(rollout, ROLLOUT);
	SET(unoptimized, UNOPTIMIZED);
	SET(generated, GENERATED);
#undef SET
}

/* A library was refused in one of the first steps: what libraries hold has grown in each of them,
 * at least twice, or would have grown by the request in the last one. Tensors are compared from the
 * second step on: the first one makes the optimizer's states. */
static void record_early_growth(const struct device_pass *d)
{
	const struct step_levels *last = &d->list[d->count - 1];
	size_t grew = last->outside > last[-1].outside ? d->count - 1 : d->count - 2;
	bytes peak = 0;

	if (grew < 2 || last->outside < last[-1].outside)
		return;
	for (size_t i = 1; i <= grew; i++)
		if (d->list[i].outside <= d->list[i - 1].outside)
			return;
	for (size_t i = 2; i < d->count; i++)
		peak = larger_of(peak, d->list[i].peak);
	d->m->peak_growth = peak - d->list[1].peak;
	d->m->outside_growth = last->outside - d->list[0].outside;
	d->m->outside_per_step = d->m->outside_growth / (bytes)grew;
}

/* The memory that libraries took since the first step began. The growth of that step counts as
 * much as that of any other. */
static void record_outside_saving(const struct device_pass *d)
{
	struct metrics *m = d->m;

	if (d->count && m->outside_per_step > 0)
		m->outside_saving =
			d->list[d->count - 1].outside - d->list[0].outside + m->outside_per_step;
}

void metrics_from_steps(struct device_pass *d)
{
	struct metrics *m = d->m;

	m->steps = d->backward_seen ? (int64_t)d->count : 0;
	m->context = d->device->context;
	m->other_process = m->context > 2 * GIB ? m->context - GIB : 0;
	m->nccl = d->device->owners_at_device_peak[OWNER_NCCL];
	m->optimizer_peak = d->now.optimizer_peak;
	for (size_t i = 0; i < d->count; i++)
		m->optimizer_peak = larger_of(m->optimizer_peak, d->list[i].optimizer_peak);
	record_calls(d);
	record_counterfactuals(d);
	if (d->count > WARM_UP + 1) {
		record_growth(d);
		record_sawtooth(d);
		record_pinned(d);
	} else if (d->count > 2 && d->failure && d->failure->from_runtime) {
		record_early_growth(d);
	}
	record_outside_saving(d);
}

uint32_t metrics_pinned_stack(const struct metrics_pass *p)
{
	uint32_t largest = MT_NO_STACK;

	for (uint32_t i = 1; i < p->tables->stack_count; i++)
		if (p->pinned_by_stack[i] > p->pinned_by_stack[largest])
			largest = i;
	return p->pinned_by_stack[largest] > 0 ? largest : MT_NO_STACK;
}
