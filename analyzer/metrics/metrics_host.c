#include "metrics/metrics_host.h"

static void change_pinned(struct metrics_pass *p, const struct mt_record *r, bytes change)
{
	add(&p->pinned_live, change);
	if (r->stack < p->tables->stack_count)
		add(&p->pinned_by_stack[r->stack], change);
}

void metrics_record_host(struct metrics_pass *p, const struct mt_record *r)
{
	if (r->kind == MT_HOST_FREE) {
		struct mt_record was;

		if (!live_set_take(&p->live, MT_HOST_ALLOC, r->address, &was))
			return;
		change_pinned(p, &was, -was.bytes);
		if (tables_stack_owner(p->tables, was.stack) == OWNER_NCCL)
			p->nccl_pinned -= was.bytes;
		return;
	}
	if (r->kind != MT_HOST_ALLOC || !live_set_add(&p->live, r))
		return;
	change_pinned(p, r, r->bytes);
	p->pinned = bytes_add(p->pinned, r->bytes);
	if (r->bytes >= 1 << 20 && !(r->bytes & (r->bytes - 1)))
		p->pinned_powers = bytes_add(p->pinned_powers, r->bytes);
	if (tables_stack_owner(p->tables, r->stack) == OWNER_NCCL) {
		p->nccl_pinned = bytes_add(p->nccl_pinned, r->bytes);
		if (p->nccl_pinned > p->nccl_pinned_peak)
			p->nccl_pinned_peak = p->nccl_pinned;
	}
}
