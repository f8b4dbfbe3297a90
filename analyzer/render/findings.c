#include "render/findings.h"

#include "diagnose/advice.h"
#include "report/rank_groups.h"
#include "util/shell.h"

#include <stdlib.h>
#include <string.h>

#define FINDINGS_SHOWN 6
#define RANKS_SHOWN 8 /* runs of ranks */

static void put_action(struct page *p, struct buf *b, size_t number, const struct remedy *r)
{
	static const char *const words[] = {
		[SAVING_ABOUT] = "saves" PAGE_HARD_SPACE "about" PAGE_HARD_SPACE,
		[SAVING_AT_LEAST] =
			"saves" PAGE_HARD_SPACE "at" PAGE_HARD_SPACE "least" PAGE_HARD_SPACE,
		[SAVING_AT_FAILURE] = "",
	};

	buf_addf(b, "%zu. %s", number, r->action);
	if (r->saving == SAVING_UNKNOWN)
		return;
	buf_addf(b, "  %s", words[r->bound]);
	page_size(p, b, r->saving);
	if (r->bound == SAVING_AT_FAILURE)
		buf_puts(b, PAGE_HARD_SPACE "less at the failure");
}

/* Some messages speak of a failed request. */
static int is_about_request(const struct finding *f)
{
	for (size_t i = 0; i < f->evidence_count; i++)
		if (!strcmp(f->evidence[i].name, "requested"))
			return 1;
	return 0;
}

static void put_finding(struct page *p, const char *label, const struct finding *f, int has_failed)
{
	struct buf b = { 0 };

	buf_addf(&b, "%s  %s confidence: %s", f->rule, f->confidence, f->title);
	page_field(p, label, b.text, 0);
	if (has_failed || !is_about_request(f))
		page_field(p, "", f->message, 0);
	if (f->stack)
		page_field(p, "", f->stack, 0);
	buf_release(&b);
	for (size_t i = 0; i < f->remedy_count; i++) {
		struct buf line = { 0 };

		put_action(p, &line, i + 1, &f->remedies[i]);
		page_field(p, i ? "" : "fix", line.text, 0);
		buf_release(&line);
	}
}

static size_t shown_rank(const struct report *r)
{
	const struct rank *worst = report_worst(r);

	return worst ? (size_t)(worst - r->ranks) : 0;
}

/* The advice for a job that did not fail, if its memory was nearly used up. */
static int put_advice(struct page *p, const struct report *r)
{
	size_t shown = shown_rank(r);
	const struct rank *rank = &r->ranks[shown];
	const struct finding *f = advice_finding(r, shown);
	struct buf b = { 0 };

	if (rank_died(rank) || !(p->style->advise || rank_is_nearly_full(rank)))
		return 0;
	buf_puts(&b, "up to ");
	page_size(p, &b, rank_held(rank));
	if (rank->total > 0) {
		buf_puts(&b, " of ");
		page_size(p, &b, rank->total);
		buf_addf(&b, " were in use, %.1f %%",
			 100.0 * (double)rank_held(rank) / (double)rank->total);
	} else {
		buf_puts(&b, " were in use");
	}
	if (rank->ooms_seen)
		buf_puts(&b, ", and a request failed");
	else if (rank->metrics && rank->metrics->retries > 0)
		buf_addf(&b, ", and the allocator freed its cache %lld times to go on",
			 (long long)rank->metrics->retries);
	buf_puts(&b, f ? "; a finding with a remedy:"
		       : "; no rule matches, see the largest stacks below");
	page_field(p, "advice", b.text, 0);
	if (f)
		put_finding(p, "", f, 0);
	buf_release(&b);
	return 1;
}

int findings_verdict(struct page *p, const struct report *r)
{
	size_t shown = shown_rank(r);
	const struct finding *cause = diagnosis_cause(r->diagnosis, shown);

	if (cause)
		put_finding(p, cause->severity == SEVERITY_ERROR ? "cause" : "waste", cause, 1);
	else if (r->count && rank_died(&r->ranks[shown]))
		page_field(p, "cause", "no rule matches; see the largest stacks below", 0);
	else
		return r->count && put_advice(p, r);
	put_advice(p, r);
	return 1;
}

static void put_measured(struct page *p, const struct measured_need *need)
{
	struct buf b = { 0 };

	buf_puts(&b, need->is_least ? "more than " : "");
	page_size(p, &b, need->allocated);
	buf_puts(&b, " in tensors, ");
	page_size(p, &b, need->device);
	buf_addf(&b, " of the device, measured in %d steps on a simulated one: memtrace report ",
		 need->steps);
	shell_add_path(&b, need->directory);
	page_field(p, "need", b.text, 0);
	buf_release(&b);
}

static void add_bytes(struct page *p, struct buf *b, const char *before, bytes size,
		      const char *after)
{
	buf_puts(b, before);
	page_size(p, b, size);
	buf_puts(b, after);
}

/* The states of an optimizer that the trace does not show. */
static void add_states(struct page *p, struct buf *b, const char *before, const struct metrics *m)
{
	if (!m->states_to_come)
		return;
	add_bytes(p, b, before, m->states_to_come, " of optimizer states");
	if (m->optimizer_known && m->trained_known)
		return;
	buf_puts(b, m->optimizer_known ? " (" : " (Adam's");
	if (!m->trained_known)
		buf_addf(b, "%sif all parameters are trained", m->optimizer_known ? "" : ", ");
	if (!m->optimizer_known)
		add_bytes(p, b, "; without states, as of plain SGD, the step needs ",
			  m->whole_need - m->states_to_come, "");
	buf_puts(b, ")");
}

/* A failure in the first forward pass shows what is there, and no more. */
static void put_least(struct page *p, const struct metrics *m)
{
	struct buf b = { 0 };

	add_bytes(p, &b, "at least ", m->least_need, " in tensors for a whole step, ");
	add_bytes(p, &b, "whose first forward pass was not over: ", m->moment_need,
		  " at this moment");
	if (m->least_need > m->moment_need)
		add_bytes(p, &b, ", ", m->states_to_come, " of optimizer states");
	buf_puts(&b, ". Not in it: what the rest of the pass keeps");
	if (m->gradients_to_come)
		add_bytes(p, &b, ", up to ", m->gradients_to_come, " of gradients");
	if (m->states_to_come && m->least_need == m->moment_need) {
		add_bytes(p, &b, ", up to ", m->states_to_come, " of optimizer states");
		buf_puts(&b, m->optimizer_known ? "" : " (Adam's; plain SGD has none)");
	}
	buf_puts(&b, ". report --whole-need measures it");
	page_field(p, "need", b.text, 0);
	buf_release(&b);
}

static void put_predicted(struct page *p, const struct metrics *m)
{
	struct buf b = { 0 };

	add_bytes(p, &b, m->whole_is_least ? "at least " : "about ", m->whole_need,
		  " in tensors for a whole step, which this job did not reach: ");
	add_bytes(p, &b, "", m->moment_need, " at this moment");
	if (m->loss_to_come)
		add_bytes(p, &b, ", ", m->loss_to_come, " more for the loss and its backward pass");
	if (m->gradients_to_come)
		add_bytes(p, &b, ", ", m->gradients_to_come, " more when all gradients are there");
	if (m->passes_to_come)
		add_bytes(p, &b, ", ", m->passes_to_come,
			  " more in the passes of the next step, with the states beside them");
	add_states(p, &b, ", ", m);
	if (m->whole_is_least)
		buf_puts(&b, "; what else the rest of the step needs is unknown");
	buf_puts(&b, ". report --whole-need measures it");
	page_field(p, "need", b.text, 0);
	buf_release(&b);
}

static void put_by_steps(struct page *p, const struct metrics *m)
{
	struct buf b = { 0 };

	add_bytes(p, &b, m->whole_is_least ? "at least " : "about ", m->whole_need,
		  " in tensors for a whole step, by the steps before: this one had reached ");
	page_size(p, &b, m->moment_need);
	page_field(p, "need", b.text, 0);
	buf_release(&b);
}

void findings_need(struct page *p, const struct report *report, const struct rank *r)
{
	const struct metrics *m = r->metrics;

	if (report->need)
		put_measured(p, report->need);
	else if (!rank_has_need(r))
		return;
	else if (m->whole_measured)
		put_by_steps(p, m);
	else if (m->pass_unfinished)
		put_least(p, m);
	else
		put_predicted(p, m);
}

static void add_cache(struct page *p, struct buf *b, const struct metrics *m)
{
	add_bytes(p, b, ", KV cache ", m->kv_cache, "");
	if (m->kv_copied)
		add_bytes(p, b, ", of it ", m->kv_copied, " just copied, to be freed");
	if (m->kv_growth)
		add_bytes(p, b, " (", m->kv_growth, " for each further token of the batch");
	if (m->kv_growth && m->kv_tokens_left)
		buf_addf(b, ", %lld more fit", (long long)m->kv_tokens_left);
	buf_puts(b, m->kv_growth ? ")" : "");
	if (m->kv_kept)
		add_bytes(p, b, ", of which ", m->kv_kept, " are of earlier requests");
}

void findings_inference(struct page *p, const struct rank *r)
{
	const struct metrics *m = r->metrics;
	struct buf b = { 0 };

	if (!m || !m->inference)
		return;
	buf_addf(&b, "no backward pass, no optimizer; at the %s: ", m->failed ? "failure" : "peak");
	add_bytes(p, &b, "weights ", m->parameters, "");
	if (m->kv_cache || m->kv_growth)
		add_cache(p, &b, m);
	add_bytes(p, &b, ", the current call ", m->pass_live, "");
	page_field(p, "inference", b.text, 0);
	if (m->kv_requests_left) {
		buf_release(&b);
		buf_addf(&b, "%lld more requests of the newest one's size (",
			 (long long)m->kv_requests_left);
		add_bytes(p, &b, "", m->kv_request, " of cache) fit beside it");
		page_field(p, "", b.text, 0);
	}
	buf_release(&b);
}

/* Was the rule listed before? Each is listed once, for the first rank that has it. */
static int is_listed(const struct diagnosis *d, size_t upto)
{
	for (size_t i = 0; i < upto; i++)
		if (!strcmp(d->findings[i].rule, d->findings[upto].rule))
			return 1;
	return 0;
}

/* " on ranks 4-7": the other ranks with the same rule, ascending. Returns how many. */
static size_t add_others(struct buf *b, const struct report *r, const char *rule, size_t shown)
{
	const struct diagnosis *d = r->diagnosis;
	int *ranks = xcalloc(d->count, sizeof(*ranks));
	size_t n = 0;

	for (size_t i = 0; i < d->count; i++) {
		const struct finding *f = &d->findings[i];
		int rank = r->ranks[f->rank].rank;

		if (f->rank != shown && rank != NO_RANK && !strcmp(f->rule, rule) &&
		    (!n || ranks[n - 1] != rank))
			ranks[n++] = rank;
	}
	if (n) {
		buf_puts(b, n > 1 ? " on ranks " : " on rank ");
		ranks_list(b, ranks, n, RANKS_SHOWN);
	}
	free(ranks);
	return n;
}

/* `told`: a finding that is no cause and was printed, or NULL. */
static void put_others(struct page *p, const struct report *r, size_t shown,
		       const struct finding *told)
{
	const struct diagnosis *d = r->diagnosis;
	size_t lines = 0;

	for (size_t i = 0; i < d->count && lines < FINDINGS_SHOWN; i++) {
		const struct finding *f = &d->findings[i];
		int is_told_above = (f->is_cause && f->rank == shown) || f == told;
		struct buf b = { 0 };
		size_t others;

		if (f->is_informational || is_listed(d, i))
			continue;
		buf_puts(&b, f->rule);
		others = f->rank != shown || is_told_above ? add_others(&b, r, f->rule, shown) : 0;
		if (is_told_above && !others) {
			buf_release(&b);
			continue;
		}
		if (!is_told_above)
			buf_addf(&b, ": %s", f->message);
		page_field(p, lines++ ? "" : "findings", b.text, 2);
		buf_release(&b);
	}
}

void findings_rest(struct page *p, const struct report *r)
{
	const struct diagnosis *d = r->diagnosis;
	size_t shown = shown_rank(r);
	int is_told = p->style->advise || rank_is_nearly_full(&r->ranks[shown]);

	for (size_t i = 0; i < d->ruled_out_count; i++)
		page_field(p, i ? "" : "ruled out", d->ruled_out[i], 0);
	put_others(p, r, shown, is_told ? advice_finding(r, shown) : NULL);
}

static void put_rule(struct page *p, const struct rule_row *row, const char *unfailed)
{
	struct buf message = { 0 };

	page_paint(p, PAINT_BOLD, row->id);
	buf_addf(p->out, "  %s\n", row->title);
	if (row->undetectable) {
		page_field(p, "undetectable", row->undetectable, 0);
		return;
	}
	buf_puts(&message, row->message);
	if (unfailed)
		buf_addf(&message, "; if no request failed: %s", unfailed);
	page_field(p, "message", message.text, 0);
	page_field(p, "source", row->source, 0);
	buf_release(&message);
}

void findings_rules(const struct style *style, struct buf *out)
{
	struct page p = { .out = out, .style = style };
	const struct rule_row *row;

	for (size_t i = 0; (row = rule_at(i)); i++)
		put_rule(&p, row, rule_unfailed(i));
}

#define STACKS_SHOWN 100 /* rows that the last line proposes to show, at most */

/* A command of the last lines, whose words and paths these are. `run`: of a directory. */
static void put_command(struct page *p, const char **label, const char *words, const char *run,
			const char *const *paths, size_t count)
{
	buf_addf(p->out, "%-*smemtrace %s", PAGE_INDENT, *label, words);
	if (run) {
		buf_puts(p->out, " --run ");
		shell_add_path(p->out, run);
	}
	for (size_t i = 0; i < count; i++) {
		buf_puts(p->out, " ");
		shell_add_path(p->out, paths[i]);
	}
	buf_puts(p->out, "\n");
	*label = "";
}

void put_next(struct page *p, const struct report *report, const struct rank *r)
{
	size_t all = r->stacks.count, top = (size_t)p->style->top;
	const char *label = "next", *trace = r->trace;
	/* A trace is of one run. */
	int is_trace = report->argument_count == 1 && trace && !strcmp(*report->arguments, trace);
	char *words;

	if (report->declared)
		put_command(p, &label, "match", report->run, &report->declared, 1);
	/* A record may be of no trace. */
	if (all > top && trace && *trace) {
		words = xasprintf("report --top %zu",
				  top < STACKS_SHOWN && all > STACKS_SHOWN ? STACKS_SHOWN : all);
		put_command(p, &label, words, NULL, &trace, 1);
		free(words);
	}
	if (report->argument_count)
		put_command(p, &label, "html", is_trace ? NULL : report->run,
			    (const char *const *)report->arguments, report->argument_count);
}
