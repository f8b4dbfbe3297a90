/* cuDNN's graph ("backend") API: a caller describes an operation, asks for engine configurations,
 * turns one into a plan, asks what workspace the plan needs and executes it. Nothing is executed.
 *
 * From cuDNN 9.8 on the job's own library answers, for the simulated GPU (dnn_plan.h). Plans of
 * attention are left unfinished: to finish one compiles a kernel, 0.2 to 1 s for each new shape,
 * and their workspace is the one that their configuration names (the same in 210 plans, forward and
 * backward, on four GPUs, of which none was refused). Of a convolution all plans are finished, for
 * one that is refused leads to another one. Otherwise
 * the answers are modelled: one engine, without notes that a caller could filter it out by, and the
 * copies of a convolution's tensors as its workspace.
 *
 * Tensor cores take NHWC only. cuDNN copies the tensors of a convolution that are in NCHW, and pads
 * their channels to a multiple of 8 (Developer Guide of cuDNN 7 and 8, "Padding" and "Conversion
 * Between NCHW and NHWC"). The copies are in the workspace: on an RTX 3090, two copies of
 * 2 x 4 x L x L in bfloat16 with 8 channels, for all L from 32 to 1024 (docs/published.md,
 * multi_token_attention). ASSUMED: every convolution of half precision runs on tensor cores.
 *
 * MODELLED AS 0: the partial sums of a filter's gradient (0.7 to 1.1 MiB in the same rows),
 * convolutions in TF32, with groups or fused with other operations, and attention. */
#include "device/common.h"
#include "device/settings.h"
#include "device/status.h"
#include "libs/dnn_plan.h"

#include <string.h>

enum { /* cudnnBackendAttributeName_t, cudnnDataType_t, cudnnStatus_t */
       HEURISTIC_GRAPH = 201,
       HEURISTIC_RESULTS = 202,
       CONFIGURATION_ENGINE = 300,
       PLAN_CONFIGURATION = 401,
       PLAN_WORKSPACE = 402,
       PLAN_INTERMEDIATE_UIDS = 403,
       FORWARD_W = 703, /* W, X, Y; the same three of the backward operations: 709 and 715 */
       FILTER_DY = 717,
       GRAPH_OPERATIONS = 801,
       TENSOR_TYPE = 901,
       TENSOR_SIZES = 902,
       TENSOR_STRIDES = 903,
       ENGINE_GRAPH = 1300,
       HALF = 2,
       BFLOAT16 = 9,
       STATUS_NOT_SUPPORTED = 3000,
       STATUS_INTERNAL_ERROR = 4000,
};

enum { TENSOR_DIMENSIONS = 8, CHANNELS = 1, TENSOR_CORE_CHANNELS = 8 };

struct tensor {
	int type, dimensions;
	int64_t sizes[TENSOR_DIMENSIONS], strides[TENSOR_DIMENSIONS];
};

enum { W, X, Y, TENSORS };

enum { PARTS_AT_MOST = 4096 };

/* A descriptor of any kind. It keeps copies: PyTorch destroys a part before the whole. */
struct backend_descriptor {
	int type;
	void *real; /* the job's library's own; NULL: the answers are modelled */
	struct tensor tensors[TENSORS]; /* an operation's; a tensor's own is the first */
	uint64_t workspace;             /* of a graph, and of all that is made from it */
	bool convolves;                 /* the same: it has a convolution */
	bool is_unfinished;             /* a plan that the library did not finalize yet */
	int64_t configured;             /* the workspace that a plan's configuration names */
};

/* The bytes of one element, by attribute type; the enumerations are ints. */
static size_t element_size(int type)
{
	switch (type) {
	case 0:
	case TYPE_INT64:
	case 5:
	case 6:
		return 8; /* handle, int64, double, pointer */
	case 2:
	case TYPE_CHAR:
		return 1; /* boolean, character */
	case 26:
		return 16; /* fraction */
	default:
		return 4;
	}
}

/* The bytes of a tensor's copy in NHWC; 0: it needs none. */
static uint64_t copy_bytes(const struct tensor *t)
{
	uint64_t bytes = 2;
	if ((t->type != HALF && t->type != BFLOAT16) || t->dimensions < 4 ||
	    t->strides[CHANNELS] == 1)
		return 0;
	for (int i = 0; i < t->dimensions; i++) {
		if (t->sizes[i] <= 0)
			return 0;
		uint64_t n = (uint64_t)t->sizes[i];
		bytes = product(bytes, i == CHANNELS ? round_up(n, TENSOR_CORE_CHANNELS) : n);
	}
	return bytes > INT64_MAX / TENSORS ? 0 : bytes;
}

static uint64_t convolution_workspace(const struct backend_descriptor *operation)
{
	const struct tensor *t = operation->tensors;
	if (t[W].sizes[CHANNELS] != t[X].sizes[CHANNELS])
		return 0; /* groups */
	return copy_bytes(&t[W]) + copy_bytes(&t[X]) + copy_bytes(&t[Y]);
}

/* The answers of this descriptor, and of all that is made from it, are modelled from now on. */
static void leave_library(struct backend_descriptor *d)
{
	if (d->real)
		sim_log("cuDNN cannot plan with a descriptor of type %d", d->type);
	plan_destroy(d->real);
	d->real = NULL;
}

EXPORT int cudnnBackendCreateDescriptor(int type, void **descriptor);
EXPORT int cudnnBackendCreateDescriptor(int type, void **descriptor)
{
	struct backend_descriptor *d = calloc(1, sizeof *d);
	*descriptor = d;
	if (d) {
		d->type = type;
		d->real = plan_create(type);
	}
	return sim_done(LIB_cudnn);
}

EXPORT int cudnnBackendDestroyDescriptor(void *descriptor);
EXPORT int cudnnBackendDestroyDescriptor(void *descriptor)
{
	struct backend_descriptor *d = descriptor;
	if (d)
		plan_destroy(d->real);
	free(d);
	return 0;
}

static bool can_wait(const struct backend_descriptor *d)
{
	return d->real && d->type == DESCRIPTOR_PLAN && !d->convolves && d->configured >= 0;
}

/* Something else than the workspace is asked of a plan. */
static void finish(struct backend_descriptor *d)
{
	d->is_unfinished = false;
	if (plan_finalize(d->real, d->type))
		leave_library(d);
}

/* What a GPU does not support, the library says here too; any other error is a limit of planning
 * without a GPU. */
EXPORT int cudnnBackendFinalize(void *descriptor);
EXPORT int cudnnBackendFinalize(void *descriptor)
{
	struct backend_descriptor *d = descriptor;
	int status = 0;
	if (d && can_wait(d))
		d->is_unfinished = true;
	else if (d && d->real)
		status = plan_finalize(d->real, d->type);
	if (status >= STATUS_NOT_SUPPORTED && status < STATUS_INTERNAL_ERROR)
		return status;
	if (status)
		leave_library(d);
	return sim_done(LIB_cudnn);
}

static void set_tensor(struct tensor *t, int name, int64_t count, const void *elements)
{
	size_t kept = (size_t)(count < TENSOR_DIMENSIONS ? count : TENSOR_DIMENSIONS);
	if (name == TENSOR_TYPE) {
		memcpy(&t->type, elements, sizeof t->type);
	} else {
		t->dimensions = (int)kept;
		memcpy(name == TENSOR_SIZES ? t->sizes : t->strides, elements,
		       kept * sizeof *t->sizes);
	}
}

static void set_part(struct backend_descriptor *d, int name, int64_t count,
		     const struct backend_descriptor *part)
{
	switch (name) {
	case GRAPH_OPERATIONS:
		d->workspace = count == 1 ? convolution_workspace(part) : 0;
		break;
	case HEURISTIC_GRAPH:
	case ENGINE_GRAPH:
	case CONFIGURATION_ENGINE:
	case PLAN_CONFIGURATION:
		d->workspace = part->workspace;
		break;
	default:
		if (name >= FORWARD_W && name <= FILTER_DY && (name - FORWARD_W) % 6 < TENSORS) {
			d->tensors[(name - FORWARD_W) % 6] = part->tensors[0];
			d->convolves = true;
		}
	}
}

static void set_parts(struct backend_descriptor *d, int name, int64_t count, const void *elements)
{
	struct backend_descriptor *const *parts = elements;
	for (int64_t i = 0; i < count; i++)
		d->convolves |= parts[i] && parts[i]->convolves;
	if (parts[0])
		set_part(d, name, count, parts[0]);
	if (name == PLAN_CONFIGURATION)
		d->configured = parts[0] && parts[0]->real ? plan_workspace(parts[0]->real) : -1;
}

/* The real descriptors of COUNT elements, in memory that the caller frees; NULL: one has none. */
static void **real_parts(int64_t count, const void *elements)
{
	struct backend_descriptor *const *parts = elements;
	void **real = count <= PARTS_AT_MOST ? calloc((size_t)count, sizeof *real) : NULL;
	for (int64_t i = 0; real && i < count; i++) {
		real[i] = parts[i] ? parts[i]->real : NULL;
		if (parts[i] && !real[i]) {
			free(real);
			real = NULL;
		}
	}
	return real;
}

/* A handle is the device's, and means nothing to the library. */
static void set_real(struct backend_descriptor *d, int name, int type, int64_t count,
		     const void *elements)
{
	void **parts = NULL;
	if (type == TYPE_HANDLE)
		return;
	if (type == TYPE_DESCRIPTOR && !(parts = real_parts(count, elements)))
		leave_library(d);
	else if (plan_set(d->real, name, type, count, parts ? parts : elements))
		leave_library(d);
	free(parts);
}

EXPORT int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count,
				    const void *elements);
EXPORT int cudnnBackendSetAttribute(void *descriptor, int name, int type, int64_t count,
				    const void *elements)
{
	struct backend_descriptor *d = descriptor;
	if (!d || !elements || count < 1)
		return sim_done(LIB_cudnn);
	if (d->real)
		set_real(d, name, type, count, elements);
	if (name >= TENSOR_TYPE && name <= TENSOR_STRIDES)
		set_tensor(&d->tensors[0], name, count, elements);
	else if (type == TYPE_DESCRIPTOR)
		set_parts(d, name, count, elements);
	return sim_done(LIB_cudnn);
}

/* The caller made the descriptors for the answer: the workspace that is modelled goes into them
 * too, for the case that the library cannot plan with one. */
static int get_real(struct backend_descriptor *d, int name, int type, int64_t asked, int64_t *count,
		    void *elements)
{
	void **parts = NULL;
	if (type == TYPE_DESCRIPTOR && elements && asked > 0) {
		struct backend_descriptor *const *made = elements;
		if (!(parts = real_parts(asked, elements)))
			return STATUS_INTERNAL_ERROR;
		for (int64_t i = 0; i < asked; i++)
			if (made[i]) {
				made[i]->workspace = d->workspace;
				made[i]->convolves = d->convolves;
			}
	}
	int status = plan_get(d->real, name, type, asked, count, parts ? parts : elements);
	free(parts);
	return status;
}

/* The first of the caller's descriptors becomes the one engine's configuration. */
static void get_modelled_parts(const struct backend_descriptor *d, int name, void *elements)
{
	struct backend_descriptor *first;
	memcpy(&first, elements, sizeof first);
	if (name == HEURISTIC_RESULTS && first) {
		first->workspace = d->workspace;
		first->convolves = d->convolves;
		leave_library(first);
	}
}

static void get_modelled(const struct backend_descriptor *d, int name, int type, int64_t asked,
			 int64_t *count, void *elements)
{
	bool empty = type == TYPE_NUMERICAL_NOTE || type == TYPE_BEHAVIOR_NOTE ||
		     type == TYPE_CHAR || name == PLAN_INTERMEDIATE_UIDS;
	if (count)
		*count = !empty;
	if (!d || !elements || asked < 1 || empty)
		return;
	if (type == TYPE_DESCRIPTOR)
		get_modelled_parts(d, name, elements);
	else if (name == PLAN_WORKSPACE && type == TYPE_INT64)
		memcpy(elements, &d->workspace, sizeof d->workspace);
	else
		memset(elements, 0, element_size(type));
}

EXPORT int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t asked,
				    int64_t *count, void *elements);
EXPORT int cudnnBackendGetAttribute(void *descriptor, int name, int type, int64_t asked,
				    int64_t *count, void *elements)
{
	struct backend_descriptor *d = descriptor;
	sim_log("cudnnBackendGetAttribute name %d, type %d, %lld asked", name, type,
		(long long)asked);
	if (d && d->is_unfinished && name == PLAN_WORKSPACE && type == TYPE_INT64 && elements &&
	    asked > 0) {
		memcpy(elements, &d->configured, sizeof d->configured);
		if (count)
			*count = 1;
		return sim_done(LIB_cudnn);
	}
	if (d && d->is_unfinished)
		finish(d);
	if (d && d->real && type != TYPE_HANDLE) {
		int status = get_real(d, name, type, asked, count, elements);
		return status ? status : sim_done(LIB_cudnn);
	}
	get_modelled(d, name, type, asked, count, elements);
	return sim_done(LIB_cudnn);
}
