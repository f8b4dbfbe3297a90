/* What the levels of the steps say, and what is left of a device's measures. */
#include "metrics/metrics_pass.h"

#define WARM_UP 3 /* steps whose growth is no trend */
#define GIB (INT64_C(1) << 30)

/* The least allocated of a step rises for three steps and more, and falls back: blocks that wait
 * for Python's collector. */
static void take_sawtooth(const struct watched *w)
{
	bytes low = 0, high = 0;
	unsigned rise = 0;

	for (size_t i = WARM_UP; i < w->count; i++) {
		bytes floor = w->list[i].floor;

		if (i == WARM_UP || floor < low)
			low = high = floor;
		if (floor > high) {
			high = floor;
			rise++;
			continue;
		}
		if (rise >= 3 && high - low >= 4 << 20 && (high - floor) / 8 > (high - low) / 10) {
			w->m->sawtooth_teeth++;
			if (high - low > w->m->sawtooth_bytes)
				w->m->sawtooth_bytes = high - low;
		}
		if (high - floor > (high - low) / 2) {
			low = high = floor;
			rise = 0;
		}
	}
}

static void take_growth(const struct watched *w)
{
	const struct step_levels *first = &w->list[WARM_UP], *last = &w->list[w->count - 1];
	bytes reserved = 0, least = INT64_MAX, most = 0, peak = 0, lowest = INT64_MAX;

	for (size_t i = 0; i < w->count; i++) {
		const struct step_levels *s = &w->list[i];
		bytes rise = s->peak - s->floor;

		if (i >= WARM_UP && i + 1 < w->count && s->reserved > reserved)
			w->m->ratchet_steps++;
		reserved = s->reserved > reserved ? s->reserved : reserved;
		if (i < WARM_UP || i + 1 >= w->count)
			continue;
		peak = s->peak > peak ? s->peak : peak;
		lowest = s->peak < lowest ? s->peak : lowest;
		least = rise < least ? rise : least;
		most = rise > most ? rise : most;
	}
	w->m->reserved_growth = last->reserved - first->reserved;
	w->m->peak_growth = peak - first->peak;
	w->m->peak_spread = peak > lowest ? peak - lowest : 0;
	w->m->size_spread = least >= 100 && least < INT64_MAX ? most / (least / 100) : 0;
	w->m->outside_growth = last->outside - first->outside;
	w->m->outside_per_step = w->m->outside_growth / (bytes)(w->count - WARM_UP);
}

static void take_calls(const struct watched *w)
{
	uint64_t retry_steps = 0, emptied_steps = 0, calls = 0, counted = 0;
	bytes emptied = 0;

	for (size_t i = 0; i < w->count; i++) {
		w->m->retries += w->list[i].retries;
		if (i < WARM_UP)
			continue;
		counted++;
		retry_steps += w->list[i].retries != 0;
		emptied_steps += w->list[i].emptied > 0;
		emptied = bytes_add(emptied, w->list[i].emptied);
		calls += w->list[i].calls;
	}
	if (!counted)
		return;
	w->m->retry_steps = (int64_t)(retry_steps * 100 / counted);
	w->m->emptied_steps = (int64_t)(emptied_steps * 100 / counted);
	w->m->emptied_bytes = emptied / (bytes)counted;
	w->m->segment_calls = (int64_t)(calls / counted);
}

static void take_without(const struct watched *w)
{
	struct measures *m = w->m;
	bytes request = w->failure ? w->failure->requested : 0;

	m->allocated_peak = w->device->peak.allocated;
	m->reserved_peak = w->device->reserved_peak;
	m->peak_needed = m->allocated_peak > m->allocated + request ? m->allocated_peak
								    : m->allocated + request;
	if (m->peak_needed > w->peak_before && w->peak_before > 0)
		m->size_growth = m->peak_needed - w->peak_before;
#define SET(field, id)                                                        \
	m->without_##field = m->peak_needed > w->best[WITHOUT_##id]           \
				     ? m->peak_needed - w->best[WITHOUT_##id] \
				     : 0
	SET(logits, LOGITS);
	SET(attention, ATTENTION);
	SET(optimizer_temporaries, TEMPORARIES);
	SET(clipping, CLIPPING);
	SET(loaded, LOADED);
	SET(saving, SAVING);
	SET(new_run, NEW_RUN);
	SET(old_gradients, OLD_GRADIENTS);
#undef SET
}

void measure_steps(struct watched *w)
{
	struct measures *m = w->m;

	m->steps = w->backward_seen ? (int64_t)w->count : 0;
	m->context = w->device->context;
	m->other_process = m->context > 2 * GIB ? m->context - GIB : 0;
	m->nccl = w->device->at_device_peak[OWNER_NCCL];
	take_calls(w);
	take_without(w);
	if (w->count > WARM_UP + 1) {
		take_growth(w);
		take_sawtooth(w);
	}
}
