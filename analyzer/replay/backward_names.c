#include "replay/backward_names.h"

void backward_names_init(struct backward_names *n, struct replay *r, const struct trace *t, int all)
{
	*n = (struct backward_names){ .all = all };
	for (int i = 0; i < MT_MAX_DEVICES; i++)
		backward_init(&r->device[i].backward, &t->tables, (bytes)t->header.stack_min, all);
}

void backward_names_begin(struct backward_names *n, struct replay *r, int device)
{
	n->count += !n->of[device];
	n->of[device] = &r->device[device].backward;
}

void backward_names_want(struct backward_names *n, int device, int is_last)
{
	if (!n->of[device])
		return;
	backward_want(n->of[device]);
	n->is_last[device] = is_last && !n->all;
	if (n->is_last[device] && !n->of[device]->pass_ns)
		backward_names_end(n, device);
}

void backward_names_gap(struct backward_names *n)
{
	for (int i = 0; i < MT_MAX_DEVICES; i++)
		if (n->of[i])
			backward_gap(n->of[i]);
}

void backward_names_end(struct backward_names *n, int device)
{
	if (!n->of[device])
		return;
	backward_end(n->of[device]);
	n->of[device] = NULL;
	n->count--;
}
