/* PyTorch's operations: the allocations, saved tensors and frees of each, forward and backward.
 * Names are PyTorch's. An operation returns a tensor that the caller owns and does not release its
 * inputs. `n` is the number of elements of the result. */
#ifndef MEMTRACE_TORCH_OPS_H
#define MEMTRACE_TORCH_OPS_H

#include "torch/autograd.h"

/* Allocates the workspace of a cuBLAS call. */
void gemm_workspace(struct machine *m);
/* The result of a matrix product; uses cuBLAS's workspace. */
tensor gemm(struct machine *m, int64_t n, enum dtype type);
/* The result of addmm; uses cuBLASLt's workspace. */
tensor biased(struct machine *m, int64_t n, enum dtype type);

/* F.linear. `bias` may be NULL. */
tensor linear(struct machine *m, tensor x, struct param *weight, struct param *bias);
/* The same for a matrix of rows, without a batch dimension. */
tensor linear_rows(struct machine *m, tensor x, struct param *weight, struct param *bias);
/* addmm(bias, x, weight): transformers' Conv1D, whose weight has a row for each input. */
tensor conv1d(struct machine *m, tensor x, struct param *weight, struct param *bias);
/* F.conv2d with n results of x, which needs no gradient, by cuDNN, whose workspace is not counted.
 * `bias` may be NULL. */
tensor conv2d(struct machine *m, tensor x, struct param *weight, struct param *bias, int64_t n);
/* x @ weight.T: autocast makes a copy of a view of a parameter at each use, and keeps none. */
tensor linear_of_view(struct machine *m, tensor x, struct param *weight);
/* F.linear without a module of its own. */
tensor linear_function(struct machine *m, tensor x, struct param *weight);
/* The same with a matrix of `width` columns that is not a parameter. */
tensor linear_with(struct machine *m, tensor x, tensor matrix, int64_t width);
/* a @ b of contiguous operands; each gradient has its operand's size. */
tensor matmul(struct machine *m, tensor a, tensor b, int64_t n);
/* alpha * a @ b + bias of rows that need no gradient */
tensor baddbmm(struct machine *m, tensor bias, tensor a, tensor b, int64_t n);
/* a @ b if each b is one column. */
tensor matvec(struct machine *m, tensor a, tensor b, int64_t n);
tensor embedding(struct machine *m, tensor tokens, struct param *weight, int64_t width);
/* The same for `rows` tokens, as which the tensor of tokens is expanded. */
tensor embedding_of(struct machine *m, tensor tokens, int64_t rows, struct param *weight,
		    int64_t width);
/* The same, if the result is used with its dimensions in another order: its gradient is copied. */
tensor embedding_permuted(struct machine *m, tensor tokens, struct param *weight, int64_t width);
/* Elementwise. The result has the wider type and the larger size. */
tensor add(struct machine *m, tensor a, tensor b);
/* a += b of tensors alike */
tensor add_in_place(struct machine *m, tensor a, tensor b);
tensor mul(struct machine *m, tensor a, tensor b);
/* The same with a row that is computed from a parameter. */
tensor mul_row(struct machine *m, tensor a, tensor row);
tensor sum_rows(struct machine *m, int64_t columns, int64_t rows, enum dtype type);
/* x^2, x to another power; mean over rows, n of them; x + a number; 1/sqrt(x) */
tensor square(struct machine *m, tensor x);
tensor power(struct machine *m, tensor x);
tensor mean(struct machine *m, tensor x, int64_t n);
tensor shift(struct machine *m, tensor x);
tensor rsqrt(struct machine *m, tensor x);
/* A copy with n elements; its gradient is summed. */
tensor repeat(struct machine *m, tensor x, int64_t n);
/* A view of n elements, fewer or (an expanded one) more; its gradient has all elements of x. */
tensor slice(struct machine *m, tensor x, int64_t n);
tensor cat(struct machine *m, tensor a, tensor b);
/* x[indices] */
tensor gather(struct machine *m, tensor x, tensor indices, int64_t n);
/* into.index_add_(0, indices, x) */
tensor index_add(struct machine *m, tensor into, tensor x, tensor indices);
tensor topk(struct machine *m, tensor x, int64_t n, tensor *indices);
/* Rows sorted by group, each group times its own matrix; `offsets` has one element for each group.
 */
tensor grouped_mm(struct machine *m, tensor x, tensor weight, tensor offsets, int64_t n);
/* n sums; their gradient is expanded without a copy. */
tensor sum_to(struct machine *m, tensor x, int64_t n);
/* x /= by; `by` is a column. */
tensor divide_in_place(struct machine *m, tensor x, tensor by);
/* x times a number. */
tensor scale(struct machine *m, tensor x);
tensor to(struct machine *m, tensor x, enum dtype type);
tensor contiguous(struct machine *m, tensor x);
/* A view; its gradient is copied because its layout differs. */
tensor copied_back(struct machine *m, tensor x);
/* `weight` and `bias` may be NULL. */
tensor layer_norm(struct machine *m, tensor x, struct param *weight, struct param *bias,
		  int64_t width);
tensor fused_rms_norm(struct machine *m, tensor x, struct param *weight, int64_t width);
/* x.masked_fill_(mask) */
tensor masked_in_place(struct machine *m, tensor x, tensor mask);
tensor gelu(struct machine *m, tensor x);
/* its result is saved */
tensor relu(struct machine *m, tensor x);
tensor silu(struct machine *m, tensor x);
tensor sigmoid(struct machine *m, tensor x);
/* cap * torch.tanh(x / cap) */
tensor capped(struct machine *m, tensor x);
tensor softmax(struct machine *m, tensor x, enum dtype type);
tensor dropout(struct machine *m, tensor x, double p);
/* torch.where(mask, x, number) */
tensor where(struct machine *m, tensor mask, tensor x);
/* masked_fill(mask == 0) with a mask of `n_mask` elements. */
tensor masked_fill(struct machine *m, tensor x, int64_t n_mask);
/* Splits x into views of `sizes` elements, which the caller owns; the gradient is one tensor. */
void split(struct machine *m, tensor x, tensor *parts, const int64_t *sizes, int count);
/* F.cross_entropy with reduction="mean". */
tensor cross_entropy(struct machine *m, tensor logits, tensor targets);
/* Scaled dot product attention by the kernel that PyTorch chooses. */
struct flash_shape {
	int64_t batch, heads, queries, width;
	double dropout;
};
tensor flash_attention(struct machine *m, tensor q, tensor k, tensor v,
		       const struct flash_shape *shape);
/* The same with an explicit mask. */
tensor masked_attention(struct machine *m, tensor q, tensor k, tensor v,
			const struct flash_shape *shape);
/* The same with an additive mask that may need a gradient: a number for each head, query and key,
 * the same for all sequences or not. */
tensor biased_attention(struct machine *m, tensor q, tensor k, tensor v, tensor bias,
			const struct flash_shape *shape);

#endif
