/* Linear layers by cuBLAS. Its matrices lie column by column, so that a row of numbers here is a column there. */
#include "device/cuda/card.h"

/* One product there: c[m][n] = a[m][k] b[k][n], a and b turned where so said; the three are matrices of `rows` numbers
 * to a column. */
typedef struct matrix {
    const void *at;
    int rows;
    cublasOperation_t turned;
} matrix;

static void multiply(ls_card *card, int m, int n, int k, matrix a, matrix b, void *c, int rows, cudaDataType_t of_c)
{
    const cudaDataType_t type = ls_card_half(card) ? CUDA_R_16BF : CUDA_R_32F;
    const cublasComputeType_t how = card->dtype == LS_TF32 ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
    const float one = 1, zero = 0;
    cublasStatus_t status = cublasGemmEx(card->blas, a.turned, b.turned, m, n, k, &one, a.at, type, a.rows, b.at, type,
                                         b.rows, &zero, c, of_c, rows, how, CUBLAS_GEMM_DEFAULT);
    if (status != CUBLAS_STATUS_SUCCESS)
        ls_card_fail(card, LS_INTERNAL, "a linear layer by cuBLAS", cublasGetStatusString(status));
}

void ls_card_linear(ls_card *card, ls_card_direction direction, const ls_cuda_conv *conv, void *x, void *w, void *y)
{
    const int images = conv->x.images, in = conv->x.c, out = conv->y.c;
    const cublasOperation_t as_is = CUBLAS_OP_N, turned = CUBLAS_OP_T;
    const cudaDataType_t type = ls_card_half(card) ? CUDA_R_16BF : CUDA_R_32F;
    /* w[out][in] is a matrix of `in` rows there, w[in][out] one of `out`. */
    matrix weights = {w, conv->in_out ? out : in, as_is}, rows = {x, in, as_is}, slopes = {y, out, as_is};
    switch (direction) {
    case LS_CARD_FORWARD:
        weights.turned = conv->in_out ? as_is : turned;
        multiply(card, out, images, in, weights, rows, y, out, type);
        break;
    case LS_CARD_MORE_DATA: /* not asked for */
    case LS_CARD_DATA:
        weights.turned = conv->in_out ? turned : as_is;
        multiply(card, in, images, out, weights, slopes, x, in, type);
        break;
    case LS_CARD_WEIGHT:
        if (conv->in_out) {
            rows.turned = turned;
            multiply(card, out, in, images, slopes, rows, w, out, CUDA_R_32F);
        } else {
            slopes.turned = turned;
            multiply(card, in, out, images, rows, slopes, w, in, CUDA_R_32F);
        }
        break;
    }
}
