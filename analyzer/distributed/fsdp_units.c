#include "distributed/fsdp_units.h"

void fsdp_add_reduced(struct machine *m, struct fsdp_unit *u, tensor reduced)
{
	if (u->reduced.storage)
		tensor_unref(m, &reduced);
	else
		u->reduced = reduced;
}

void fsdp_clear_reduced(struct machine *m, struct fsdp *f)
{
	for (size_t i = 0; i < f->count; i++)
		tensor_unref(m, &f->units[i].reduced);
}
