/* What the plugin has NVIDIA's libraries compute, as loops by their documentation. */
#include <stdlib.h>
#include <string.h>

#include "device/cuda/card.h"
#include "memory.h"

/* ---- cuBLAS ---- */

const char *cublasGetStatusString(cublasStatus_t status)
{
    return status == CUBLAS_STATUS_SUCCESS ? "" : "unsupported";
}

static float number(const void *at, cudaDataType type, size_t i)
{
    uint32_t bits = 0;
    float x;
    if (type == CUDA_R_32F)
        return ((const float *)at)[i];
    bits = (uint32_t)((const uint16_t *)at)[i] << 16;
    memcpy(&x, &bits, sizeof x);
    return x;
}

static void put_number(void *at, cudaDataType type, size_t i, float x)
{
    uint32_t bits;
    memcpy(&bits, &x, sizeof bits);
    if (type == CUDA_R_32F)
        ((float *)at)[i] = x;
    else
        ((uint16_t *)at)[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

/* As cuBLAS documents it: column by column, c[m][n] = a[m][k] b[k][n], each turned where so said. */
cublasStatus_t cublasGemmEx(cublasHandle_t handle, cublasOperation_t transa, cublasOperation_t transb, int m, int n,
                            int k, const void *alpha, const void *A, cudaDataType Atype, int lda, const void *B,
                            cudaDataType Btype, int ldb, const void *beta, void *C, cudaDataType Ctype, int ldc,
                            cublasComputeType_t type, cublasGemmAlgo_t algo)
{
    (void)handle, (void)type, (void)algo;
    if (*(const float *)alpha != 1 || *(const float *)beta != 0 || lda < (transa == CUBLAS_OP_N ? m : k) ||
        ldb < (transb == CUBLAS_OP_N ? k : n) || ldc < m)
        return CUBLAS_STATUS_INVALID_VALUE;
    emulated_enter();
    for (size_t j = 0; j < (size_t)n; j++)
        for (size_t i = 0; i < (size_t)m; i++) {
            float sum = 0;
            for (size_t l = 0; l < (size_t)k; l++)
                sum += number(A, Atype, transa == CUBLAS_OP_N ? l * (size_t)lda + i : i * (size_t)lda + l) *
                       number(B, Btype, transb == CUBLAS_OP_N ? j * (size_t)ldb + l : l * (size_t)ldb + j);
            put_number(C, Ctype, j * (size_t)ldc + i, sum);
        }
    emulated_leave();
    return CUBLAS_STATUS_SUCCESS;
}

/* ---- cuDNN ---- */

static float *floats_of(const void *at, cudaDataType type, size_t n)
{
    float *x = malloc((n + 1) * sizeof *x);
    for (size_t i = 0; i < n; i++)
        x[i] = number(at, type, i);
    return x;
}

/* What cuDNN is shown of a convolution: the rows and columns that it sees, and how it pads them in front. */
typedef struct view {
    ls_cuda_axis down, right;
} view;

static view view_of(const ls_cuda_conv *v)
{
    return (view){ls_cuda_axis_of(v->x.h, v->y.h, &v->windows.rows),
                  ls_cuda_axis_of(v->x.w, v->y.w, &v->windows.columns)};
}

/* One tap of one window: y[out] and x[in], with the tap's weights of all pairs of channels from w[0] on, `row`
 * apart. */
static void add_products(ls_card_direction direction, float *x, float *w, float *y, const ls_cuda_conv *v)
{
    const int in = v->x.c / v->windows.groups, out = v->y.c / v->windows.groups;
    const size_t row = (size_t)ls_cuda_taps(v) * (size_t)in;
    for (int o = 0; o < v->y.c; o++, w += row) {
        float *of_group = x + o / out * in;
        for (int c = 0; c < in; c++)
            if (direction == LS_CARD_FORWARD)
                y[o] += of_group[c] * w[c];
            else if (direction == LS_CARD_DATA || direction == LS_CARD_MORE_DATA)
                of_group[c] += y[o] * w[c];
            else
                w[c] += of_group[c] * y[o];
    }
}

static void convolve(ls_card_direction direction, float *x, float *w, float *y, const ls_cuda_conv *v, const view *seen)
{
    const ls_windows_axis *rows = &v->windows.rows, *columns = &v->windows.columns;
    const size_t in = (size_t)(v->x.c / v->windows.groups);
    for (size_t place = 0; place < ls_cuda_rows(v->y); place++) {
        const size_t image = place / (size_t)(v->y.h * v->y.w), in_image = place % (size_t)(v->y.h * v->y.w);
        const int top = (int)in_image / v->y.w * rows->stride - seen->down.before,
                  left = (int)in_image % v->y.w * columns->stride - seen->right.before;
        for (int tap = 0; tap < ls_cuda_taps(v); tap++) {
            const int r = top + tap / columns->kernel * rows->dilation;
            const int q = left + tap % columns->kernel * columns->dilation;
            if (r < 0 || r >= seen->down.input || q < 0 || q >= seen->right.input)
                continue;
            float *from = x + ((image * (size_t)v->x.h + (size_t)r) * (size_t)v->x.w + (size_t)q) * (size_t)v->x.c;
            add_products(direction, from, w + (size_t)tap * in, y + place * (size_t)v->y.c, v);
        }
    }
}

static void put_numbers(void *at, cudaDataType type, const float *x, size_t n)
{
    for (size_t i = 0; i < n; i++)
        put_number(at, type, i, x[i]);
}

/* Of the gradient of x only what cuDNN sees. */
static void put_seen(void *at, cudaDataType type, const float *x, const ls_cuda_conv *v, const view *seen)
{
    for (size_t i = 0; i < ls_cuda_numbers(v->x); i++) {
        const size_t place = i / (size_t)v->x.c;
        if ((int)(place / (size_t)v->x.w % (size_t)v->x.h) < seen->down.input &&
            (int)(place % (size_t)v->x.w) < seen->right.input)
            put_number(at, type, i, x[i]);
    }
}

/* For five images there is no engine, so that the plugin's own kernels are taken. */
bool ls_card_engine(ls_card *card, ls_card_direction direction, const ls_cuda_conv *v, int64_t *bytes)
{
    (void)card, (void)direction;
    *bytes = 0;
    return v->x.images != 5;
}

void ls_card_convolve(ls_card *card, ls_card_direction direction, const ls_cuda_conv *v, void *x, void *w, void *y,
                      void *workspace)
{
    (void)workspace;
    const cudaDataType type = ls_card_half(card) ? CUDA_R_16BF : CUDA_R_32F;
    const view seen = view_of(v);
    void *const places[] = {x, w, y};
    const size_t n[] = {ls_cuda_numbers(v->x), ls_cuda_weights(v), ls_cuda_numbers(v->y)};
    const int made = direction == LS_CARD_FORWARD ? 2 : direction == LS_CARD_WEIGHT ? 1 : 0;
    float *all[3];
    emulated_enter();
    for (int i = 0; i < 3; i++)
        all[i] = i == made && direction != LS_CARD_MORE_DATA ? calloc(n[i] + 1, sizeof(float))
                                                             : floats_of(places[i], type, n[i]);
    convolve(direction, all[0], all[1], all[2], v, &seen);
    if (made == 0)
        put_seen(x, type, all[0], v, &seen);
    else
        put_numbers(places[made], type, all[made], n[made]);
    emulated_leave();
    for (int i = 0; i < 3; i++)
        free(all[i]);
}
