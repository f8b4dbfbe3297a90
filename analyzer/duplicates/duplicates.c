#include "duplicates/duplicates.h"

#include "attribution/attribution.h"
#include "duplicates/data_set.h"
#include "duplicates/float64.h"
#include "duplicates/remade.h"
#include "duplicates/states_too_many.h"
#include "duplicates/span_order.h"
#include "duplicates/trained.h"
#include "duplicates/unstepped.h"
#include "util/order.h"
#include "duplicates/sizes_twice.h"

#include <stdlib.h>

#define MIN_COPIED 48 /* percent of both: a copy of all parameters, about a half */
#define MIN_TWIN                                                                        \
	40 /* percent of both: a second model, which may lack a head that the first has \
	    */
#define MIN_DEEP \
	3 /* parameters of a copy: fewer are a layer, as a head that is made of an embedding */
#define MIN_REPEATED 8 /* parameters, in the order of a model before: fewer may be chance */
#define MAX_REPEATED 4096

/* Did the job's own code make it after a call of the model, in the forward pass that goes on, or
 * that is being differentiated? The backward pass may need it. */
static int is_of_forward(const struct lifetime *l, const struct spans *spans,
			 const struct span *now)
{
	const struct span *s = now ? spans_at(spans, l->alloc.time_ns) : NULL;

	return s && s->phase == PHASE_FORWARD && s->step == now->step &&
	       activity_is_forward(span_order_activity_before(spans, s)) &&
	       (l->category == CATEGORY_INPUTS || l->category == CATEGORY_OTHER);
}

static int is_by_deepcopy(const struct tables *t, uint32_t stack)
{
	return (tables_stack_info(t, stack)->tags & TAGGED(COPY)) != 0;
}

/* A tensor that the job's own code holds, or a module, outside of any forward pass. PyTorch's
 * averaged models are deep copies that a file of its optimizers makes. */
static int is_held(const struct lifetime *l, const struct tables *t)
{
	int is_copy = is_by_deepcopy(t, l->alloc.stack);

	return l->alloc.bytes >= TRAINED_MIN_SIZE &&
	       (l->category == CATEGORY_PARAMETERS || l->category == CATEGORY_BUFFERS ||
		l->category == CATEGORY_INPUTS || l->category == CATEGORY_OTHER ||
		l->category == CATEGORY_TEMPORARIES) &&
	       !(tables_stack_flags(t, l->alloc.stack) &
		 (STACK_MODULE | STACK_LOSS | (is_copy ? 0 : STACK_OPTIMIZER) | STACK_BACKWARD |
		  STACK_CLIPPING)) &&
	       !(t->thread_flags[l->alloc.thread] & THREAD_AUTOGRAD);
}

/* Did the job's own code, and no module, make the block before the model was called? */
static int is_of_setup(const struct lifetime *l, const struct spans *spans, const struct tables *t)
{
	return spans->count && l->category != CATEGORY_PARAMETERS &&
	       l->category != CATEGORY_BUFFERS && tables_stack_is_own_code(t, l->alloc.stack) &&
	       !span_order_has_model(spans, spans->list[0].start_ns, l->alloc.time_ns);
}

typedef int held_test(const struct trained *n, const struct tables *t, const struct lifetime *l);

/* May it be a copy in fp32 of what is trained in 16 bits? */
static int is_twice_as_wide(const struct trained *n, const struct tables *t,
			    const struct lifetime *l)
{
	(void)t;
	return l->category != CATEGORY_PARAMETERS && !trained_of(n, l->alloc.bytes) &&
	       trained_of(n, l->alloc.bytes / 2);
}

/* Has copy.deepcopy() made it, of about the size of a parameter? */
static int is_near_copy(const struct trained *n, const struct tables *t, const struct lifetime *l)
{
	return is_by_deepcopy(t, l->alloc.stack) && trained_near(n, l->alloc.bytes);
}

/* Of a copy of a model, or of its state_dict, several sizes are there: logits may have twice the
 * size of the largest parameter, and data the size of one. */
static int has_sizes_of_model(const struct trained *n, const struct lifetime *const *held,
			      size_t count, const struct tables *t, held_test *is_copy)
{
	struct size_counts copied = { 0 };
	size_t sizes;

	for (size_t i = 0; i < count; i++)
		if (is_copy(n, t, held[i]))
			size_counts_add(&copied, held[i]->alloc.bytes);
	size_counts_sort(&copied);
	sizes = copied.count;
	size_counts_release(&copied);
	return sizes >= TRAINED_MIN_SIZES;
}

/* Of each size, as many blocks as are trained are the model's; the others are copies. */
static void find_copies(struct duplicates *d, const struct trained *n, const struct spans *spans,
			const struct tables *t, const struct lifetime *const *held, size_t count)
{
	struct size_counts met = { 0 }, all = { 0 }, own = { 0 };
	bytes parameters = 0;
	int has_wider = has_sizes_of_model(n, held, count, t, is_twice_as_wide), deep = 0;
	int copies_several = has_sizes_of_model(n, held, count, t, is_near_copy);

	for (size_t i = 0; i < count; i++) {
		size_counts_add(&met, held[i]->alloc.bytes);
		size_counts_add(&all, held[i]->alloc.bytes);
		if (held[i]->category == CATEGORY_PARAMETERS || trained_of(n, held[i]->alloc.bytes))
			parameters = bytes_add(parameters, held[i]->alloc.bytes);
	}
	size_counts_sort(&met);
	size_counts_sort(&all);
	for (size_t i = count; i-- > 0;) {
		const struct mt_record *r = &held[i]->alloc;
		struct size_count *left = size_counts_at(&met, r->bytes);
		uint64_t trained = trained_of(n, r->bytes), near = trained_near(n, r->bytes);
		int is_copy = trained && left && left->count > trained &&
			      size_counts_count_near(&all, r->bytes) > near;

		/* The allocator may have left more or less with the block of a copy than with that
		 * of the parameter. */
		if (is_by_deepcopy(t, r->stack) &&
		    (copies_several || held[i]->category == CATEGORY_PARAMETERS)) {
			is_copy = near && size_counts_count_near(&met, r->bytes) > near;
			deep |= is_copy;
		}
		if (!is_copy && !(has_wider && is_twice_as_wide(n, t, held[i])))
			continue;
		if (left)
			left->count--;
		d->copies = bytes_add(d->copies, r->bytes);
		d->copies_count++;
		if (is_of_setup(held[i], spans, t))
			size_counts_add(&own, r->bytes);
	}
	size_counts_release(&met);
	size_counts_release(&all);
	size_counts_sort(&own);
	/* A frozen part of the model has layers of the same sizes, and no copy of the rest. But no
	 * module has what the job's own code made, in several sizes of parameters: it is a copy of
	 * a part, too. */
	if (d->copies < parameters / 100 * (deep ? MIN_TWIN : MIN_COPIED)) {
		d->copies = 0;
		d->copies_count = 0;
		for (size_t i = 0; own.count >= TRAINED_MIN_SIZES && i < own.count; i++) {
			d->copies = bytes_add(d->copies, bytes_times(own.list[i].size,
								     (int64_t)own.list[i].count));
			d->copies_count += (uint32_t)own.list[i].count;
		}
	}
	size_counts_release(&own);
}

/*
 * Before anything is trained: the sizes of parameters, in the order in which they were made, are
 * those of a first model and then the same once more, or a part of it.
 */
static void find_second_model(struct duplicates *d, const struct lifetime *const *held,
			      size_t count)
{
	bytes *sizes = xcalloc(count + 1, sizeof(*sizes));
	size_t n = 0, first;

	for (size_t i = 0; i < count && n < MAX_REPEATED; i++)
		if (held[i]->category != CATEGORY_INPUTS &&
		    held[i]->category != CATEGORY_COMMUNICATION)
			sizes[n++] = held[i]->alloc.bytes;
	first = sizes_begin_again(sizes, n, MIN_REPEATED);
	if (!first)
		first = sizes_of_equal_models(sizes, n, MIN_REPEATED);
	for (size_t i = first; first && i < n; i++)
		d->copies = bytes_add(d->copies, sizes[i]);
	d->copies_count += (uint32_t)(first ? n - first : 0);
	free(sizes);
}

/* Parameters, trained or not, that come twice. A part of a model that is like another part, as the
 * layers of a decoder, is no second model. */
static bytes twin_of(const struct lifetime *const *held, size_t count)
{
	bytes *sizes = xcalloc(count + 1, sizeof(*sizes)), parameters = 0, twin;
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		if (held[i]->category != CATEGORY_PARAMETERS)
			continue;
		parameters = bytes_add(parameters, held[i]->alloc.bytes);
		if (n < MAX_REPEATED)
			sizes[n++] = held[i]->alloc.bytes;
	}
	twin = sizes_twice(sizes, n, MIN_REPEATED);
	free(sizes);
	return twin >= parameters / 100 * MIN_TWIN ? twin : 0;
}

/* When the first optimizer's step began; UINT64_MAX: none has. A model that trains beside another
 * one is there before. */
static uint64_t first_step_ns(const struct spans *spans)
{
	for (size_t i = 0; i < spans->count && spans_have(spans, ACTIVITY_OPTIMIZER); i++)
		if (spans->list[i].activity == ACTIVITY_OPTIMIZER)
			return spans->list[i].start_ns;
	return UINT64_MAX;
}

/*
 * A constructor copies layers of one model, as nn.TransformerEncoder does, or whole models: then
 * the copies have the sizes of nearly all other parameters.
 */
static int constructor_copies_models(const struct lifetime *const *held, size_t count,
				     const struct tables *t)
{
	struct size_counts copies = { 0 };
	bytes others = 0, like = 0;

	for (size_t i = 0; i < count; i++)
		if (held[i]->category == CATEGORY_PARAMETERS &&
		    is_by_deepcopy(t, held[i]->alloc.stack))
			size_counts_add(&copies, held[i]->alloc.bytes);
	size_counts_sort(&copies);
	for (size_t i = 0; copies.count >= TRAINED_MIN_SIZES && i < count; i++) {
		if (held[i]->category != CATEGORY_PARAMETERS ||
		    is_by_deepcopy(t, held[i]->alloc.stack))
			continue;
		others = bytes_add(others, held[i]->alloc.bytes);
		if (size_counts_near(&copies, held[i]->alloc.bytes))
			like = bytes_add(like, held[i]->alloc.bytes);
	}
	size_counts_release(&copies);
	return others && like >= others / 10 * 9;
}

/* Parameters that copy.deepcopy() made; a constructor copies layers of one model, as
 * nn.TransformerEncoder does. One copy may be a reference, if it is no copy of a part; of several,
 * each is a copy too many, and so is one that was made behind an optimizer's step. Is there a copy
 * of a model? */
static int find_deep_copies(struct duplicates *d, const struct lifetime *const *held, size_t count,
			    const struct spans *spans, const struct tables *t)
{
	const uint64_t first_ns = first_step_ns(spans);
	int whole = constructor_copies_models(held, count, t);
	bytes parameters = 0, deep = 0, late = 0;
	uint32_t blocks = 0;

	for (size_t i = 0; i < count; i++) {
		uint32_t flags = tables_stack_flags(t, held[i]->alloc.stack);

		if (held[i]->category != CATEGORY_PARAMETERS)
			continue;
		parameters = bytes_add(parameters, held[i]->alloc.bytes);
		if (!is_by_deepcopy(t, held[i]->alloc.stack) || (flags & STACK_INIT && !whole))
			continue;
		deep = bytes_add(deep, held[i]->alloc.bytes);
		blocks++;
		if (held[i]->alloc.time_ns > first_ns)
			late = bytes_add(late, held[i]->alloc.bytes);
	}
	if (deep > d->copies && (deep > (parameters - deep) / 2 * 3 || late > deep / 10 * 9)) {
		d->copies = deep;
		d->copies_count = blocks;
	}
	if (blocks < MIN_DEEP || deep < parameters / 100 * MIN_TWIN)
		return 0;
	d->twin = larger_of(d->twin, deep);
	return 1;
}

static void find_remade(struct duplicates *d, const struct lifetimes *l, const struct trained *n,
			const struct lifetime *const *held, size_t count, const struct spans *spans,
			const struct tables *t, const struct failed_request *request,
			uint64_t at_ns)
{
	struct remade r = remade_live(l, n, held, count, spans, t, request, at_ns);

	d->remade = r.bytes;
	d->replicas = r.replicas;
	d->late = r.late;
	d->copies_count = r.extra > d->copies ? r.extra_count : d->copies_count;
	d->copies = larger_of(d->copies, r.extra);
}

/* Is it a time between a backward pass and the optimizer's step? An optimizer that has allocated
 * nothing until then, as SGD, may have run already, if this is not the first step. Blocks that the
 * newest step allocates after its backward pass count. */
static int is_before_optimizer(const struct spans *spans, uint64_t time_ns, int has_optimizer,
			       uint32_t now)
{
	const struct span *s = spans_at(spans, time_ns);

	return s && s->activity == ACTIVITY_MAIN && s->phase != PHASE_SETUP &&
	       activity_is_backward(span_order_activity_before(spans, s)) &&
	       (s->next == ACTIVITY_OPTIMIZER || has_optimizer ||
		((s->step <= 1 || s->step == now) && s->next == ACTIVITY_UNKNOWN));
}

/* Has the block the size of all gradients one after the other? The block of each gradient may be a
 * little larger than the gradient. */
static int is_all_gradients(bytes size, bytes gradients)
{
	return size >= gradients / 100 * 97 && size <= gradients / 100 * 101;
}

/* Has the block the size of a parameter, of a copy of one in a wider type, of a
 * state (the states show the sizes of parameters that lie in one block), or of all gradients one
 * after the other? */
static int is_gradient_size(const struct trained *n, bytes size, bytes gradients)
{
	return trained_has(n, size) || trained_has(n, size / 2) || trained_has(n, size / 4) ||
	       size_counts_find(&n->states, size) || is_all_gradients(size, gradients);
}

/* Did the job call a model with weights that its own code allocated? */
static int calls_with_own_weights(const struct spans *spans, const struct tables *t,
				  const struct span *now)
{
	for (const struct span *s = spans->list; now && s <= now; s++)
		if (tables_stack_info(t, s->stack)->tags & TAGGED(OWN_WEIGHTS))
			return 1;
	return 0;
}

/* May it be one of such weights, which an inner loop makes of gradients? */
static int is_own_weight(const struct trained *n, const struct spans *spans, const struct tables *t,
			 const struct mt_record *r)
{
	const struct span *s = spans_at(spans, r->time_ns);

	return s && s->phase != PHASE_SETUP && tables_stack_is_own_code(t, r->stack) &&
	       trained_has(n, r->bytes);
}

/* The job's own code; a deep copy is one of a model, or of a state. */
static int may_copy_gradients(const struct tables *t, uint32_t stack)
{
	return tables_stack_is_own_code(t, stack) && !is_by_deepcopy(t, stack);
}

static void find_gradient_copies(struct duplicates *d, const struct trained *n,
				 const struct lifetimes *l, const struct spans *spans,
				 const struct tables *t, const struct failed_request *request,
				 uint64_t at_ns)
{
	const struct span *now = spans_at(spans, at_ns);
	bytes gradients = 0;
	int has_optimizer = 0, whole;

	for (size_t i = 0; i < n->gradients.count; i++)
		gradients = bytes_add(gradients, bytes_times(n->gradients.list[i].size,
							     (int64_t)n->gradients.list[i].count));
	/* torch.autograd.grad() returns gradients that are gone when they are put into one vector
	 * of all of them. */
	whole = !gradients && spans_have(spans, ACTIVITY_BACKWARD);
	gradients = whole ? n->parameter_bytes : gradients;
	if (!now || !gradients)
		return;
	for (const struct span *s = spans->list; s <= now; s++)
		has_optimizer |= s->activity == ACTIVITY_OPTIMIZER;
	for (size_t i = 0; i < l->count; i++) {
		const struct mt_record *r = &l->list[i].alloc;

		if (r->bytes < TRAINED_MIN_SIZE || !may_copy_gradients(t, r->stack) ||
		    !(whole ? is_all_gradients(r->bytes, gradients)
			    : is_gradient_size(n, r->bytes, gradients)) ||
		    !is_before_optimizer(spans, r->time_ns, has_optimizer, now->step))
			continue;
		d->gradient_copies = bytes_add(d->gradient_copies, r->bytes);
		d->copies_stay |= spans_at(spans, r->time_ns)->step < now->step ||
				  spans_at(spans, r->time_ns)->next == ACTIVITY_OPTIMIZER;
	}
	if (request->bytes < TRAINED_MIN_SIZE || !may_copy_gradients(t, request->stack))
		return;
	/* If the first request after the backward pass fails, no block shows that the pass is
	 * over. */
	if ((is_gradient_size(n, request->bytes, gradients) &&
	     is_before_optimizer(spans, at_ns, has_optimizer, now->step)) ||
	    (is_all_gradients(request->bytes, gradients) && activity_is_backward(now->activity)))
		d->gradient_copies = bytes_add(d->gradient_copies, request->bytes);
}

/* Did the job's own code request, after an optimizer's step and before the next forward pass,
 * memory that is no copy of a parameter? */
static int is_own_request(const struct trained *n, const struct spans *spans,
			  const struct tables *t, const struct failed_request *request,
			  const struct span *now)
{
	return now && request->bytes && tables_stack_is_own_code(t, request->stack) &&
	       !trained_has(n, request->bytes) && !trained_has(n, request->bytes / 2) &&
	       span_order_is_behind_optimizer(spans, now);
}

struct duplicates duplicates_live(const struct lifetimes *l, const struct spans *spans,
				  const struct tables *t, const struct failed_request *request,
				  uint64_t at_ns)
{
	const struct span *now = spans_at(spans, at_ns);
	struct duplicates d = { 0 };
	struct trained n = { 0 };
	const struct lifetime **held = xcalloc(l->count + 1, sizeof(struct lifetime *));
	size_t count = 0;
	int has_deep_copy, has_own_weights;

	trained_count(&n, l, t, now && now->phase == PHASE_BACKWARD);
	has_own_weights = calls_with_own_weights(spans, t, now);
	for (size_t i = 0; i < l->count; i++)
		if (is_held(&l->list[i], t) && !is_of_forward(&l->list[i], spans, now) &&
		    !(has_own_weights && is_own_weight(&n, spans, t, &l->list[i].alloc)))
			held[count++] = &l->list[i];
	if (count)
		qsort(held, count, sizeof(struct lifetime *), lifetime_by_time);
	find_copies(&d, &n, spans, t, held, count);
	if (!n.states.count && !n.gradients.count)
		find_second_model(&d, held, count);
	d.extra_gradients = n.extra_gradients;
	d.float64_layers = layers_of_float64(l, t, &d.float32_layers);
	d.unstepped = unstepped_live(l, spans, t, now);
	d.twin = twin_of(held, count);
	d.has_deep_copy = has_deep_copy = find_deep_copies(&d, held, count, spans, t);
	find_remade(&d, l, &n, held, count, spans, t, request, at_ns);
	d.data = data_set_live(&n, spans, t, held, count, now);
	if (!has_own_weights)
		find_gradient_copies(&d, &n, l, spans, t, request, at_ns);
	d.request_is_own = is_own_request(&n, spans, t, request, now);
	d.states = larger_of(states_too_many(&n, has_deep_copy), states_again(&n, l, spans, now));
	free(held);
	trained_release(&n);
	return d;
}
