/*
 * The identity of a communicator: what ncclGetUniqueId() gives, and the job's store carries to the
 * other ranks.
 */
#ifndef CUDASIM_UNIQUE_ID_H
#define CUDASIM_UNIQUE_ID_H

#include "nccl/comm.h"

/*
 * Writes a new identity; returns an NCCL result. Under torchrun it consists of the job, the rank
 * that asks, the number of its call, and the attempt (TORCHELASTIC_RESTART_COUNT); else it is
 * random.
 */
int unique_id_make(struct unique_id *id);

/*
 * Replaces the identity of an earlier attempt of this job by that of the present one. torchrun
 * keeps its store over a restart, so a rank may read what the attempt before it has left there, if
 * the rank that writes the new identity is slower.
 */
void unique_id_renew(struct unique_id *id);

#endif
