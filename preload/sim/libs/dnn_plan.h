/* The job's own cuDNN as the planner of its graph API. From version 9.8 on, cuDNN chooses engines
 * and builds plans for a GPU that is only described, by a descriptor of its properties ("Deviceless
 * Ahead-of-time Compilation" in the documentation of cuDNN's frontend). So the engines, the plans
 * that a GPU would refuse, and the workspaces are those that the job would get on the GPU. */
#ifndef CUDASIM_DNN_PLAN_H
#define CUDASIM_DNN_PLAN_H

#include <stdbool.h>
#include <stdint.h>

enum { /* cudnnBackendDescriptorType_t, as far as the device takes part */
       DESCRIPTOR_ENGINE = 2,
       DESCRIPTOR_HEURISTIC = 4,
       DESCRIPTOR_PLAN = 5,
       DESCRIPTOR_PROPERTIES = 38,
};

enum { /* cudnnBackendAttributeType_t */
       TYPE_HANDLE = 0,
       TYPE_INT64 = 3,
       TYPE_NUMERICAL_NOTE = 11,
       TYPE_DESCRIPTOR = 15,
       TYPE_BEHAVIOR_NOTE = 19,
       TYPE_CHAR = 24,
};

/* A descriptor of the real library, owned by the caller; NULL: the library is older than 9.8, is
 * not loaded, or refuses. */
void *plan_create(int type);
void plan_destroy(void *descriptor);
/* The real library's answers, of descriptors that plan_create() returned; ELEMENTS of
 * TYPE_DESCRIPTOR are such, too. */
int plan_set(void *descriptor, int name, int type, int64_t count, const void *elements);
int plan_get(void *descriptor, int name, int type, int64_t asked, int64_t *count, void *elements);
/* The workspace of the plans of a configuration, which is known before a plan is compiled; -1: the
 * library does not say. */
int64_t plan_workspace(void *configuration);
/* Tells a heuristic, an engine or a plan which GPU it is for, and finalizes it. */
int plan_finalize(void *descriptor, int type);

#endif
