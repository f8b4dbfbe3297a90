#include "offload/groups.h"

#include <stdlib.h>
#include <string.h>

#include "torch/autograd.h"
#include "torch/streams.h"
#include "util/util.h"

/* The streams of copies to the host and back. */
enum { TO_HOST = 1, TO_DEVICE = 2 };
#define NESTED 4

/* A saved tensor. */
struct saved_tensor {
	struct grad_node *node; /* NULL: its backward pass is done */
	int at;                 /* in saved[] of the node */
	int away, movable;
	int64_t n;
	enum dtype type;
	enum term_id term;
};

struct offload_group {
	int module, stays;
	struct saved_tensor *entries;
	size_t count, room;
};

/* ChunkOffloadHandler: a micro-batch in a model chunk. The order of groups is that of the first
 * step. */
struct handler {
	struct offload *offload;
	struct offload_group **groups;
	size_t count, room, begun;
	struct offload_group *open[NESTED];
	size_t open_count;
	struct offload_group **moved; /* groups in host memory, the last one on top */
	size_t moved_count, moved_room;
};

struct handlers {
	struct handler **list;
	size_t count, room;
};

/* PipelineOffloadManager */
struct offload {
	int chunks, warm;
	int64_t least;
	struct handlers forward, backward; /* in the order of their passes */
	struct handlers *waiting;          /* for each chunk: not yet in `backward` */
	size_t forward_at, backward_at;
	struct handler *current, *current_backward;
};

static void append(struct handlers *h, struct handler *one)
{
	h->list = grow(h->list, h->count, &h->room, sizeof(*h->list));
	h->list[h->count++] = one;
}

struct offload *offload_new(int chunks, int64_t least)
{
	struct offload *o = xcalloc(1, sizeof(*o));

	o->chunks = chunks;
	o->least = least;
	o->waiting = xcalloc((size_t)chunks, sizeof(*o->waiting));
	return o;
}

static void handler_free(struct handler *h)
{
	for (size_t i = 0; i < h->count; i++) {
		free(h->groups[i]->entries);
		free(h->groups[i]);
	}
	free(h->groups);
	free(h->moved);
	free(h);
}

void offload_free(struct offload *o)
{
	if (!o)
		return;
	for (size_t i = 0; i < o->forward.count; i++)
		handler_free(o->forward.list[i]);
	for (int i = 0; i < o->chunks; i++)
		free(o->waiting[i].list);
	free(o->waiting);
	free(o->forward.list);
	free(o->backward.list);
	free(o);
}

/* ---- the order of chunks ---- */

static void flush(struct offload *o)
{
	if (o->waiting[0].count != o->waiting[o->chunks - 1].count)
		return;
	o->waiting[o->chunks - 1].count = 0;
	for (int i = o->chunks - 1; i >= 0; i--) {
		for (size_t k = 0; k < o->waiting[i].count; k++)
			append(&o->backward, o->waiting[i].list[k]);
		o->waiting[i].count = 0;
	}
}

/* init_model_chunk_offload_handler() */
static struct handler *first_time(struct offload *o, int chunk)
{
	struct handler *h = xcalloc(1, sizeof(*h));
	int last = chunk == o->chunks - 1;

	h->offload = o;
	if (last)
		flush(o);
	append(&o->waiting[chunk], h);
	if (last) {
		append(&o->backward, h);
		flush(o);
	}
	append(&o->forward, h);
	return h;
}

void offload_begin(struct offload *o, int chunk)
{
	if (!o)
		return;
	o->current = o->warm ? o->forward.list[o->forward_at] : first_time(o, chunk);
	o->forward_at++;
}

static int has_group(const struct handler *h, int module, size_t from)
{
	for (size_t i = from; i < h->count; i++)
		if (h->groups[i]->module == module)
			return 1;
	return 0;
}

/* post_warmup_callback(): in the chunk whose backward pass is the first, the last group of each
 * module stays. */
static void keep_last_groups(struct offload *o)
{
	struct handler *h = o->backward.count ? o->backward.list[0] : NULL;

	for (size_t i = 0; h && i < h->count; i++)
		h->groups[i]->stays = !has_group(h, h->groups[i]->module, i + 1);
}

void offload_end_step(struct offload *o)
{
	if (!o)
		return;
	if (!o->warm)
		keep_last_groups(o);
	o->warm = 1;
	o->forward_at = o->backward_at = 0;
	o->current = o->current_backward = NULL;
	for (size_t i = 0; i < o->forward.count; i++) {
		struct handler *h = o->forward.list[i];

		h->begun = h->open_count = h->moved_count = 0;
	}
}

/* front_backward_chunk(). `module` -1: of any module */
static struct handler *next_backward(struct offload *o, int module)
{
	for (size_t i = o->backward_at; i < o->backward.count; i++) {
		struct handler *h = o->backward.list[i];

		if (module < 0 ? h->count > 0 : has_group(h, module, 0))
			return h;
	}
	return NULL;
}

/* ---- saved tensors ---- */

static void bring_back(struct machine *m, struct saved_tensor *e, int stream)
{
	e->node->saved[e->at] = tensor_new_on(m, stream, e->term, e->n, e->type);
	e->away = 0;
}

/* tensor_pop(): a tensor that was not copied in time is copied now */
static void unpack(struct machine *m, struct grad_node *n)
{
	struct offload_group *g = n->packed;

	for (size_t i = 0; i < g->count; i++)
		if (g->entries[i].node == n && g->entries[i].away)
			bring_back(m, &g->entries[i], m->stream);
}

static void release(struct machine *m, struct grad_node *n)
{
	struct offload_group *g = n->packed;

	(void)m;
	for (size_t i = 0; i < g->count; i++)
		if (g->entries[i].node == n)
			g->entries[i].node = NULL;
}

/* tensor_need_offloading_checker() */
static int is_movable(const struct offload *o, tensor t)
{
	return t.n >= o->least && !(t.grad_fn && t.grad_fn->param && t.grad_fn->param->in);
}

static void pack(struct machine *m, struct grad_node *n, tensor t)
{
	static const struct saved_hooks hooks = { unpack, release };
	struct offload_group *g = n->saved_hooks ? n->packed : m->offloading;

	node_keep(n, tensor_ref(t));
	n->saved_hooks = &hooks;
	n->packed = g;
	g->entries = grow(g->entries, g->count, &g->room, sizeof(*g->entries));
	g->entries[g->count++] = (struct saved_tensor){ .node = n,
							.at = n->kept - 1,
							.movable = is_movable(m->offloader, t),
							.n = t.n,
							.type = t.type,
							.term = t.storage->term };
}

/* bulk_offload_group() */
static void move(struct machine *m, struct handler *h, struct offload_group *g)
{
	for (size_t i = 0; i < g->count; i++) {
		struct saved_tensor *e = &g->entries[i];

		if (!e->node || !e->movable)
			continue;
		stream_work(m, TO_HOST, 1);
		record_stream(e->node->saved[e->at], TO_HOST);
		tensor_unref(m, &e->node->saved[e->at]);
		e->away = 1;
	}
	h->moved = grow(h->moved, h->moved_count, &h->moved_room, sizeof(struct offload_group *));
	h->moved[h->moved_count++] = g;
}

/* bulk_reload_group() */
static void reload(struct machine *m, struct handler *h)
{
	struct offload_group *g = h->moved[--h->moved_count];

	stream_wait(m, TO_DEVICE, TO_HOST);
	for (size_t i = 0; i < g->count; i++)
		if (g->entries[i].node && g->entries[i].away)
			bring_back(m, &g->entries[i], TO_DEVICE);
}

/* should_bulk_offload() */
static int leaves(struct offload *o, const struct handler *h, const struct offload_group *g)
{
	if (!o->warm)
		return 1;
	return !g->stays && (next_backward(o, g->module) != h || has_group(h, g->module, h->begun));
}

/* ---- the marks of a group in the graph ---- */

struct mark {
	struct handler *handler;
	int module;
};

/* bulk_reload() */
static void start_backward(struct machine *m, struct grad_node *n)
{
	struct handler *h = ((struct mark *)n->ctx)->handler, *next;

	n->out[0] = tensor_ref(n->in[0]);
	stream_wait(m, TO_DEVICE, m->stream);
	if (h->moved_count) {
		reload(m, h);
		return;
	}
	next = next_backward(h->offload, -1);
	if (next && next->begun == next->count && next->moved_count)
		reload(m, next);
}

/* on_group_commit_backward(): the chunk's backward pass begins with its last group */
static void commit_backward(struct machine *m, struct grad_node *n)
{
	const struct mark *mark = n->ctx;
	struct offload *o = mark->handler->offload;

	n->out[0] = tensor_ref(n->in[0]);
	stream_wait(m, m->stream, TO_DEVICE);
	while (o->current_backward != mark->handler && o->backward_at < o->backward.count)
		o->current_backward = o->backward.list[o->backward_at++];
}

static void set_mark(struct machine *m, struct handler *h, int module, tensor *t,
		     void (*gradient)(struct machine *, struct grad_node *))
{
	struct grad_node *n = grad_node_new(m, gradient, t, 1);
	struct mark *mark;

	if (!n)
		return;
	mark = n->ctx = xcalloc(1, sizeof(*mark));
	*mark = (struct mark){ h, module };
	*t = with_grad_fn(*t, n, 0);
}

/* on_group_start_forward() */
static struct offload_group *begin_group(struct handler *h, int module)
{
	struct offload_group *g;

	if (h->offload->warm) {
		g = h->groups[h->begun++];
	} else {
		g = xcalloc(1, sizeof(*g));
		g->module = module;
		h->groups = grow(h->groups, h->count, &h->room, sizeof(struct offload_group *));
		h->groups[h->count++] = g;
		h->begun = h->count;
	}
	g->count = 0;
	if (h->open_count == NESTED)
		BUG("groups of offloaded tensors are nested too deeply");
	h->open[h->open_count++] = g;
	return g;
}

tensor offload_enter(struct machine *m, struct offload *o, int module, tensor x)
{
	tensor in = tensor_ref(x);

	if (!o)
		return in;
	m->offloader = o;
	m->offloading = begin_group(o->current, module);
	set_mark(m, o->current, module, &in, start_backward);
	m->pack = pack;
	return in;
}

void offload_leave(struct machine *m, struct offload *o)
{
	if (o)
		m->pack = NULL;
}

void offload_commit(struct machine *m, struct offload *o, int module, tensor *out,
		    const tensor *released, int count)
{
	struct handler *h;
	struct offload_group *g;

	if (!o)
		return;
	h = o->current;
	g = h->open[--h->open_count];
	stream_wait(m, TO_HOST, m->stream);
	if (leaves(o, h, g)) {
		move(m, h, g);
		for (int i = 0; i < count; i++)
			if (is_movable(o, released[i]))
				storage_empty(m, released[i]);
	}
	set_mark(m, h, module, out, commit_backward);
}
