/* Graphs, of which the simulated device has none with memory; a part of fake_device.so. */
#define _GNU_SOURCE
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <stdint.h>

#define EXPORT __attribute__((visibility("default")))
#define MiB (1ull << 20)
#define FOREIGN 0x7e0000000000ull /* as in fake_device.c */

static uint64_t round_to(uint64_t n, uint64_t unit)
{
	return (n + unit - 1) / unit * unit;
}

/* ---- graphs: one graph; its allocation nodes take memory when it is uploaded or launched first, a
 * trim gives it back */

static uint64_t graph_nodes, graph_reserved;

static CUdeviceptr graph_node(CUgraphNode *node, uint64_t bytes)
{
	CUdeviceptr address = FOREIGN + (100ull << 30) + graph_nodes;

	graph_nodes += round_to(bytes, 2 * MiB);
	*node = (CUgraphNode)(uintptr_t)address;
	return address;
}

EXPORT CUresult cuGraphAddMemAllocNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
				       size_t n, CUDA_MEM_ALLOC_NODE_PARAMS *p)
{
	(void)graph, (void)after, (void)n;
	p->dptr = graph_node(node, p->bytesize);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddMemFreeNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
				      size_t n, CUdeviceptr address)
{
	(void)graph, (void)after, (void)n;
	*node = (CUgraphNode)(uintptr_t)(address + 1);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
				  const CUgraphEdgeData *edges, size_t n, CUgraphNodeParams *p)
{
	(void)graph, (void)after, (void)edges, (void)n;
	if (p->type != CU_GRAPH_NODE_TYPE_MEM_ALLOC)
		return CUDA_ERROR_NOT_SUPPORTED;
	p->alloc.dptr = graph_node(node, p->alloc.bytesize);
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphLaunch(CUgraphExec graph, CUstream stream)
{
	(void)graph, (void)stream;
	graph_reserved = graph_nodes;
	return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphUpload(CUgraphExec graph, CUstream stream)
{
	return cuGraphLaunch(graph, stream);
}

EXPORT cudaError_t cudaGraphUpload(cudaGraphExec_t graph, cudaStream_t stream)
{
	return (cudaError_t)cuGraphUpload((CUgraphExec)graph, (CUstream)stream);
}

EXPORT CUresult cuGraphInstantiateWithParams(CUgraphExec *made, CUgraph graph,
					     CUDA_GRAPH_INSTANTIATE_PARAMS *p)
{
	*made = (CUgraphExec)graph;
	return p->flags & CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD
		       ? cuGraphUpload(*made, p->hUploadStream)
		       : CUDA_SUCCESS;
}

EXPORT cudaError_t cudaGraphInstantiateWithParams(cudaGraphExec_t *made, cudaGraph_t graph,
						  cudaGraphInstantiateParams *p)
{
	CUDA_GRAPH_INSTANTIATE_PARAMS same = { .flags = p->flags };

	return (cudaError_t)cuGraphInstantiateWithParams((CUgraphExec *)made, (CUgraph)graph,
							 &same);
}

/* The twins of a default stream per thread are the same. */
#define TWIN(name) EXPORT __typeof__(name) name##_ptsz __attribute__((alias(#name)))
TWIN(cuGraphUpload);
TWIN(cudaGraphUpload);
TWIN(cuGraphInstantiateWithParams);
TWIN(cudaGraphInstantiateWithParams);

EXPORT CUresult cuGraphExecDestroy(CUgraphExec graph)
{
	(void)graph;
	return CUDA_SUCCESS;
}

EXPORT cudaError_t cudaGraphLaunch(cudaGraphExec_t graph, cudaStream_t stream)
{
	return (cudaError_t)cuGraphLaunch((CUgraphExec)graph, (CUstream)stream);
}

EXPORT CUresult cuDeviceGraphMemTrim(CUdevice device)
{
	(void)device;
	graph_reserved = 0;
	return CUDA_SUCCESS;
}

EXPORT cudaError_t cudaDeviceGraphMemTrim(int device)
{
	return (cudaError_t)cuDeviceGraphMemTrim(device);
}

EXPORT CUresult cuDeviceGetGraphMemAttribute(CUdevice device, CUgraphMem_attribute attribute,
					     void *value)
{
	(void)device;
	*(uint64_t *)value =
		attribute == CU_GRAPH_MEM_ATTR_RESERVED_MEM_CURRENT ? graph_reserved : 0;
	return CUDA_SUCCESS;
}

EXPORT cudaError_t cudaDeviceGetGraphMemAttribute(int device,
						  enum cudaGraphMemAttributeType attribute,
						  void *value)
{
	return (cudaError_t)cuDeviceGetGraphMemAttribute(device, (CUgraphMem_attribute)attribute,
							 value);
}
