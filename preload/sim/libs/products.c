/* Products of matrices, which compute nothing: how long they take. */
#include "device/common.h"
#include "device/handle.h"
#include "time/speed.h"
#include "device/status.h"
#include "device/stream.h"

#include <string.h>

enum { R_32F = 0, R_16F = 2, R_8I = 3, R_16BF = 14, R_8F_E4M3 = 28, R_8F_E5M2 = 29 };
enum { COMPUTE_32F_FAST_TF32 = 77, ALLOW_TF32 = 3 };

static _Thread_local void *stream; /* PyTorch sets it before each product */
static _Thread_local int math_mode;

static enum precision precision_of(int type, bool tf32)
{
	switch (type) {
	case R_8I:
	case R_8F_E4M3:
	case R_8F_E5M2:
		return PRECISION_EIGHT;
	case R_16F:
	case R_16BF:
		return PRECISION_HALF;
	default:
		return tf32 ? PRECISION_TF32 : PRECISION_SINGLE;
	}
}

static int done(int m, int n, int k, int batch, int type, bool tf32)
{
	stream_work(stream, speed_product((uint64_t)m, (uint64_t)n, (uint64_t)k, (uint64_t)batch,
					  precision_of(type, tf32 || math_mode == ALLOW_TF32)));
	return sim_done(LIB_cublas);
}

EXPORT int cublasSetStream_v2(void *handle, void *new);
EXPORT int cublasSetStream_v2(void *handle, void *new)
{
	(void)handle;
	stream = new;
	return sim_done(LIB_cublas);
}
EXPORT int cublasSetMathMode(void *handle, int mode);
EXPORT int cublasSetMathMode(void *handle, int mode)
{
	(void)handle;
	math_mode = mode;
	return sim_done(LIB_cublas);
}

EXPORT int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k);
EXPORT int cublasSgemm_v2(void *handle, int ta, int tb, int m, int n, int k)
{
	(void)handle, (void)ta, (void)tb;
	return done(m, n, k, 1, R_32F, false);
}
EXPORT int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
			const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
			const void *beta, void *c, int c_type, int ldc, int compute, int algorithm);
EXPORT int cublasGemmEx(void *handle, int ta, int tb, int m, int n, int k, const void *alpha,
			const void *a, int a_type, int lda, const void *b, int b_type, int ldb,
			const void *beta, void *c, int c_type, int ldc, int compute, int algorithm)
{
	(void)handle, (void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)b, (void)b_type,
		(void)ldb, (void)beta, (void)c, (void)c_type, (void)ldc, (void)algorithm;
	return done(m, n, k, 1, a_type, compute == COMPUTE_32F_FAST_TF32);
}
EXPORT int cublasSgemmStridedBatched(void *handle, int ta, int tb, int m, int n, int k,
				     const float *alpha, const float *a, int lda, long long da,
				     const float *b, int ldb, long long db, const float *beta,
				     float *c, int ldc, long long dc, int batch);
EXPORT int cublasSgemmStridedBatched(void *handle, int ta, int tb, int m, int n, int k,
				     const float *alpha, const float *a, int lda, long long da,
				     const float *b, int ldb, long long db, const float *beta,
				     float *c, int ldc, long long dc, int batch)
{
	(void)handle, (void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)da, (void)b,
		(void)ldb, (void)db, (void)beta, (void)c, (void)ldc, (void)dc;
	return done(m, n, k, batch, R_32F, false);
}
EXPORT int cublasGemmStridedBatchedEx(void *handle, int ta, int tb, int m, int n, int k,
				      const void *alpha, const void *a, int a_type, int lda,
				      long long da, const void *b, int b_type, int ldb,
				      long long db, const void *beta, void *c, int c_type, int ldc,
				      long long dc, int batch, int compute, int algorithm);
EXPORT int cublasGemmStridedBatchedEx(void *handle, int ta, int tb, int m, int n, int k,
				      const void *alpha, const void *a, int a_type, int lda,
				      long long da, const void *b, int b_type, int ldb,
				      long long db, const void *beta, void *c, int c_type, int ldc,
				      long long dc, int batch, int compute, int algorithm)
{
	(void)handle, (void)ta, (void)tb, (void)alpha, (void)a, (void)lda, (void)da, (void)b,
		(void)b_type, (void)ldb, (void)db, (void)beta, (void)c, (void)c_type, (void)ldc,
		(void)dc, (void)algorithm;
	return done(m, n, k, batch, a_type, compute == COMPUTE_32F_FAST_TF32);
}

/* ---- cublasLt: the shapes are in descriptors */

struct lt_matrix { /* of a matrix */
	uint64_t rows, columns;
	int type, batch;
};
enum layout_attribute {
	LAYOUT_TYPE,
	LAYOUT_ORDER,
	LAYOUT_ROWS,
	LAYOUT_COLUMNS,
	LAYOUT_LEADING,
	LAYOUT_BATCH
};

EXPORT int cublasLtMatrixLayoutCreate(struct lt_matrix **layout, int type, uint64_t rows,
				      uint64_t columns, int64_t leading);
EXPORT int cublasLtMatrixLayoutCreate(struct lt_matrix **layout, int type, uint64_t rows,
				      uint64_t columns, int64_t leading)
{
	(void)leading;
	*layout = malloc(sizeof **layout);
	if (!*layout)
		return 3; /* CUBLAS_STATUS_ALLOC_FAILED */
	**layout = (struct lt_matrix){ rows, columns, type, 1 };
	return sim_done(LIB_cublasLt);
}
EXPORT int cublasLtMatrixLayoutDestroy(struct lt_matrix *layout);
EXPORT int cublasLtMatrixLayoutDestroy(struct lt_matrix *layout)
{
	free(layout);
	return sim_done(LIB_cublasLt);
}
EXPORT int cublasLtMatrixLayoutSetAttribute(struct lt_matrix *layout, int attribute,
					    const void *value, size_t size);
EXPORT int cublasLtMatrixLayoutSetAttribute(struct lt_matrix *layout, int attribute,
					    const void *value, size_t size)
{
	void *field = attribute == LAYOUT_TYPE      ? (void *)&layout->type
		      : attribute == LAYOUT_ROWS    ? (void *)&layout->rows
		      : attribute == LAYOUT_COLUMNS ? (void *)&layout->columns
		      : attribute == LAYOUT_BATCH   ? (void *)&layout->batch
						    : NULL;
	size_t room = attribute == LAYOUT_ROWS || attribute == LAYOUT_COLUMNS ? 8 : 4;
	if (field)
		memcpy(field, value, size < room ? size : room);
	return sim_done(LIB_cublasLt);
}

/* The common dimension follows from the sizes of A and of the result, whichever way A lies. */
EXPORT int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a,
			  const struct lt_matrix *al, const void *b, const struct lt_matrix *bl,
			  const void *beta, const void *c, const struct lt_matrix *cl, void *d,
			  const struct lt_matrix *dl, const void *algorithm, void *workspace,
			  size_t size, void *on);
EXPORT int cublasLtMatmul(void *handle, void *operation, const void *alpha, const void *a,
			  const struct lt_matrix *al, const void *b, const struct lt_matrix *bl,
			  const void *beta, const void *c, const struct lt_matrix *cl, void *d,
			  const struct lt_matrix *dl, const void *algorithm, void *workspace,
			  size_t size, void *on)
{
	(void)handle, (void)operation, (void)alpha, (void)a, (void)b, (void)bl, (void)beta, (void)c,
		(void)cl, (void)d, (void)algorithm, (void)workspace, (void)size;
	uint64_t k = dl->rows ? al->rows * al->columns / dl->rows : 0;
	stream_work(on, speed_product(dl->rows, dl->columns, k,
				      (uint64_t)(dl->batch > 0 ? dl->batch : 1),
				      precision_of(al->type, false)));
	return sim_done(LIB_cublasLt);
}
