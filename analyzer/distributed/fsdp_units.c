#include "distributed/fsdp_units.h"

void fsdp_keep(struct machine *m, struct unit *u, tensor reduced)
{
	if (u->reduced.at)
		drop(m, &reduced);
	else
		u->reduced = reduced;
}

void fsdp_drop_gradients(struct machine *m, struct fsdp *f)
{
	for (size_t i = 0; i < f->count; i++)
		drop(m, &f->units[i].reduced);
}
