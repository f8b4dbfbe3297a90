#include "metrics/metrics_inference.h"

#include "metrics/metrics_head.h"
#include "metrics/metrics_sizes.h"

#define MIN_JOINED 4
#define GRAPH_STACKS 6 /* without a graph, fewer stacks of a model keep what two layers made */

void metrics_tag_caches(struct metrics_pass *p, const struct snapshot *live)
{
	for (size_t i = 0; i < live->count; i++)
		if (live->groups[i].category == CATEGORY_KV_CACHE &&
		    live->groups[i].stack < p->tables->stack_count)
			p->tags[live->groups[i].stack] |= TAGGED(KV_CACHE);
}

/* The output of the head, for all tokens of the prompt; a request of a workspace's size is one. */
static void find_head(const struct metrics_pass *p, struct device_pass *d,
		      const struct snapshot *live)
{
	const struct head_depths depths = metrics_head_depths(p);
	struct metrics *m = d->m;

	if (d->failure && metrics_is_head(p, &depths, d->failure->stack) &&
	    !workspace_sizes_have(&p->workspaces, d->failure->requested))
		add(&m->head, d->failure->requested);
	for (size_t i = 0; i < live->count; i++)
		if (live->groups[i].category != CATEGORY_WORKSPACES &&
		    metrics_is_head(p, &depths, live->groups[i].stack))
			add(&m->head, live->groups[i].bytes);
}

/* The stage of generation, by the frames of transformers' generate(), else by the cache: in a
 * prefill, it has one round of blocks for each layer. One of fixed size tells no calls apart, but
 * those of a prompt have larger blocks. */
static void find_stage(const struct metrics_pass *p, const struct device_pass *d, int is_small)
{
	struct metrics *m = d->m;
	uint32_t stack = d->failure ? d->failure->stack : d->moment.stack;
	stack_tags tags = p->tags[stack < p->tables->stack_count ? stack : 0];

	if (tags & (TAGGED(PREFILL) | TAGGED(DECODE)))
		m->in_prefill = (tags & TAGGED(PREFILL)) != 0;
	else
		m->in_prefill =
			m->kv_cache && !m->kv_token && !is_small && m->tags & TAGGED(TRANSFORMERS);
	m->in_decode = !m->in_prefill &&
		       (tags & TAGGED(DECODE) || m->kv_token || (m->kv_cache && is_small));
}

/* Does a failed request belong to the cache? */
static int is_of_cache(const struct metrics_pass *p, uint32_t stack)
{
	return stack < p->tables->stack_count &&
	       (p->tags[stack] & TAGGED(KV_CACHE) ||
		hint_is_cache(stack_hint(tables_stack_flags(p->tables, stack))));
}

static bytes room_for(const struct metrics *m, bytes each)
{
	return each && m->device_total > m->outside + m->allocated
		       ? (m->device_total - m->outside - m->allocated) / each
		       : 0;
}

/* The growth of the cache: in the calls until the moment, and in the whole run. Caches that earlier
 * requests left make the sum grow too, not the cache of each request. */
static void find_growth(const struct device_pass *d, const struct live_inference *r)
{
	const struct cache_growth *whole = &d->device->cache;
	bytes token = r->cache_kept ? r->cache_token : whole->token;
	struct metrics *m = d->m;

	m->kv_token = r->cache_token && token ? token : r->cache_token;
	m->kv_growth = token ? token : r->cache_token;
	m->kv_copied = r->cache_copied;
	m->kv_tokens_left = d->failure ? 0 : larger_of(whole->left, 0);
}

/* A request of the job's own code for as many bytes as many blocks of one line have together: a
 * list of results is made one tensor, all of whose parts are there. */
static void find_joined(const struct metrics_pass *p, struct metrics *m, const struct failure *f,
			const struct snapshot *live)
{
	for (size_t i = 0; i < live->count && !m->results; i++) {
		const struct block_group *g = &live->groups[i];

		if (g->blocks < MIN_JOINED || !same_size(g->bytes, f->requested) ||
		    (g->category != CATEGORY_ACTIVATIONS && g->category != CATEGORY_TEMPORARIES) ||
		    !tables_stack_is_own_code(p->tables, f->stack))
			continue;
		m->results = g->bytes;
		m->results_blocks = (int64_t)g->blocks;
		m->repeat_stack = g->stack;
	}
}

void metrics_find_inference(const struct metrics_pass *p, struct device_pass *d,
			    const struct snapshot *live)
{
	const struct live_inference *r = &live->inference;
	const struct failure *f = d->failure && !d->failure->from_runtime ? d->failure : NULL;
	struct metrics *m = d->m;

	m->pass_live = r->activations;
	if (f && !is_of_cache(p, f->stack) &&
	    tables_stack_flags(p->tables, f->stack) & STACK_MODULE)
		add(&m->pass_live, f->requested);
	m->unused_graph = r->keeps_graph ? m->pass_live : 0;
	m->graph_layers = r->keeps_graph ? r->layers : 0;
	m->graphs_dropped = r->graphs_dropped;
	/* A second model like the first is a reference for training, whose casts of weights are
	 * freed behind each call of it, as a graph would be. */
	m->inference = r->is_inference && !(m->twin && m->graphs_dropped);
	if (!m->inference)
		return;
	find_growth(d, r);
	m->kv_request = r->cache;
	m->kv_kept = r->cache_kept;
	m->kv_caches_kept = r->caches_kept;
	m->inference_calls = r->calls;
	if (f && is_of_cache(p, f->stack)) {
		add(&m->kv_cache, f->requested);
		add(&m->kv_request, f->requested);
	}
	m->kv_requests_left = f ? 0 : room_for(m, m->kv_request);
	m->results = r->results;
	m->results_blocks = r->results_blocks;
	m->repeat_stack = r->results ? r->results_stack : m->repeat_stack;
	if (f)
		find_joined(p, m, f, live);
	find_head(p, d, live);
	find_stage(p, d, r->is_small_call);
}

/* What the preload recorded decides, else the lines that keep what several layers made. */
static int run_keeps_graph(const struct metrics *m)
{
	if (metrics_no_graph(m))
		return 0;
	return metrics_in_graph(m) || m->run_layer_stacks >= GRAPH_STACKS;
}

void metrics_find_predictions(const struct device_pass *d)
{
	struct metrics *m = d->m;
	int keeps = run_keeps_graph(m);

	if (m->inference && metrics_no_graph(m))
		m->unused_graph = m->graph_layers = 0;
	else if (m->inference && metrics_in_graph(m))
		m->unused_graph = m->pass_live;
	if (d->backward_seen && m->in_evaluation && m->run_evaluates && !keeps) {
		m->pass_live = bytes_add(m->pass_newest, m->requested);
		m->evaluates_all = 1;
	}
	if (m->inference || d->backward_seen || !m->in_forward ||
	    ((!m->run_evaluates || m->run_trains) &&
	     !(m->source_infers && (metrics_in_graph(m) || metrics_no_graph(m)))))
		return;
	if (keeps) {
		m->unused_graph = m->run_live;
		m->predicts = 1;
	} else if (!m->unused_graph) {
		m->pass_live = m->run_live;
		m->predicts_all = 1;
	}
}
