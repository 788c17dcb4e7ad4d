/* Which of cuDNN's engines a card would compute the networks' convolutions by. cuDNN tells it of a card that it has
 * only a description of, so that no card is needed: every convolution of both networks must have an engine that adds in
 * the same order every time, with a workspace that fits, in each dtype that it is asked for. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <cmocka.h>

#include "device/cuda/card.h"
#include "not_run.h"

/* The call of cuDNN's that fails, from 1; 0: none. */
static struct {
    int n, at;
    cudnnStatus_t status;
} calls;

bool ls_card_fail(ls_card *card, ls_status status, const char *what, const char *why)
{
    if (calls.at == 0)
        fail_msg("status %d: %s: %s", (int)status, what, why);
    card->executor.status = status;
    return false;
}

#define COUNTED(name, parameters, arguments)                                                                           \
    cudnnStatus_t __real_##name parameters;                                                                            \
    cudnnStatus_t __wrap_##name parameters;                                                                            \
    cudnnStatus_t __wrap_##name parameters                                                                             \
    {                                                                                                                  \
        return ++calls.n == calls.at ? calls.status : __real_##name arguments;                                         \
    }

COUNTED(cudnnBackendCreateDescriptor, (cudnnBackendDescriptorType_t type, cudnnBackendDescriptor_t *d), (type, d))
COUNTED(cudnnBackendFinalize, (cudnnBackendDescriptor_t d), (d))
COUNTED(cudnnBackendSetAttribute,
        (cudnnBackendDescriptor_t d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, int64_t n,
         const void *values),
        (d, name, type, n, values))
COUNTED(cudnnBackendGetAttribute,
        (cudnnBackendDescriptor_t const d, cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
         int64_t n, int64_t *found, void *values),
        (d, name, type, n, found, values))

/* What cuDNN 9 asks of a card, as an H100 answers it. */
static const char h100[] =
    "{\"deviceName\": \"NVIDIA H100 80GB HBM3\", \"maxGridSize\": [2147483647, 65535, 65535], \"maxBlockSize\": [1024, "
    "1024, 64], "
    "\"regsPerBlock\": 65536, \"multiProcessorCount\": 132, \"warpSize\": 32, \"maxSharedMemoryPerBlock\": 49152, "
    "\"maxSharedMemoryPerBlockOptin\": 232448, \"reservedSharedMemoryPerBlock\": 1024, \"maxRegistersPerSM\": 65536, "
    "\"maxCtasPerSM\": 32, \"maxThreadsPerBlock\": 1024, \"maxThreadsPerSM\": 2048, \"pciDeviceId\": 0, "
    "\"isTccDriver\": 0, "
    "\"supportCoopLaunch\": 1, \"totalGlobalMem\": 85000000000, \"smClockRateKHz\": 1980000, \"memClockRateKHz\": "
    "2619000, "
    "\"l2CacheSize\": 52428800, \"cudaDeviceId\": 0, \"deviceVer\": 900, \"driverVer\": 13000}";

static cudnnBackendDescriptor_t description(void)
{
    cudnnBackendDescriptor_t d = NULL;
#if CUDNN_VERSION >= 90800
    if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &d) == CUDNN_STATUS_SUCCESS &&
        cudnnBackendSetAttribute(d, CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR, sizeof h100, h100) ==
            CUDNN_STATUS_SUCCESS &&
        cudnnBackendFinalize(d) == CUDNN_STATUS_SUCCESS)
        return d;
    if (d)
        cudnnBackendDestroyDescriptor(d);
    d = NULL;
#endif
    return d;
}

/* All but LeNet's and ResNet's first ones, which have one channel and are the plugin's own. */
static const struct {
    const char *name;
    int in, size, out, to, kernel, stride, padding;
} convs[] = {
    {"LeNet's second, fitted to floats", 20, 12, 52, 8, 5, 1, 0},
    {"LeNet's second, fitted to halves", 24, 12, 56, 8, 5, 1, 0},
    {"stage 1", 64, 28, 64, 28, 3, 1, 1},
    {"stage 2, first", 64, 28, 128, 14, 3, 2, 1},
    {"stage 2, beside", 64, 28, 128, 14, 1, 2, 0},
    {"stage 2", 128, 14, 128, 14, 3, 1, 1},
    {"stage 3, first", 128, 14, 256, 7, 3, 2, 1},
    {"stage 3, beside", 128, 14, 256, 7, 1, 2, 0},
    {"stage 3", 256, 7, 256, 7, 3, 1, 1},
    {"stage 4, first", 256, 7, 512, 4, 3, 2, 1},
    {"stage 4, beside", 256, 7, 512, 4, 1, 2, 0},
    {"stage 4", 512, 4, 512, 4, 3, 1, 1},
};

static void every_convolution_has_an_engine(void **state)
{
    (void)state;
    static const char *const dtypes[] = {"f32", "tf32", "bf16"}, *const directions[] = {"forward", "data", "weight",
                                                                                        "more data"};
    static const int counts[] = {256, 96, 1};
    cudnnBackendDescriptor_t card_there = description();
    if (!card_there)
        test_not_run("this cuDNN, %zu, cannot be told of a card", cudnnGetVersion());
    int missing = 0;
    for (int dtype = LS_TF32; dtype <= LS_BF16; dtype++)
        for (size_t n = 0; n < sizeof counts / sizeof *counts; n++) {
            ls_card card = {.dtype = (ls_dtype)dtype, .elsewhere = card_there};
            int64_t most = 0;
            for (size_t i = 0; i < sizeof convs / sizeof *convs; i++)
                for (int direction = LS_CARD_FORWARD; direction <= LS_CARD_MORE_DATA; direction++) {
                    const ls_windows_axis of = {convs[i].kernel, convs[i].stride, convs[i].padding, 1};
                    const ls_cuda_conv v = {.x = {counts[n], convs[i].in, convs[i].size, convs[i].size},
                                            .y = {counts[n], convs[i].out, convs[i].to, convs[i].to},
                                            .windows = {of, of, 1}};
                    int64_t bytes;
                    if (!ls_card_engine(&card, (ls_card_direction)direction, &v, &bytes)) {
                        print_message("%s, %d images: %s, %s: no engine\n", dtypes[dtype], counts[n], convs[i].name,
                                      directions[direction]);
                        missing++;
                    }
                    most = bytes > most ? bytes : most;
                }
            print_message("%s, %d images: the largest workspace %.1f MB\n", dtypes[dtype], counts[n],
                          (double)most * 1e-6);
            assert_true(most <= LS_CARD_DNN);
            ls_card_close_convs(&card);
        }
    cudnnBackendDestroyDescriptor(card_there);
    assert_int_equal(missing, 0);
}

/* Of an engine that cannot be had another takes the place; what may be otherwise the next time ends the card. */
static void every_call_fails(void **state)
{
    (void)state;
    const cudnnStatus_t never = CUDNN_STATUS_NOT_SUPPORTED_SHAPE,
                        once[] = {CUDNN_STATUS_INTERNAL_ERROR_HOST_ALLOCATION_FAILED, CUDNN_STATUS_INTERNAL_ERROR,
                                  CUDNN_STATUS_EXECUTION_FAILED};
    const ls_cuda_conv v = {.x = {96, 256, 7, 7}, .y = {96, 512, 4, 4}, .windows = {{1, 2, 0, 1}, {1, 2, 0, 1}, 1}};
    cudnnBackendDescriptor_t card_there = description();
    if (!card_there)
        test_not_run("this cuDNN, %zu, cannot be told of a card", cudnnGetVersion());
    int64_t bytes;
    for (bool done = false; !done; done = calls.n < calls.at) {
        const int at = calls.at + 1;
        for (int kind = 0; kind < 2; kind++) {
            ls_card card = {.dtype = LS_TF32, .elsewhere = card_there};
            calls.n = 0;
            calls.at = at;
            calls.status = kind ? once[at % 3] : never;
            const bool found = ls_card_engine(&card, LS_CARD_FORWARD, &v, &bytes);
            const ls_status wanted = !kind || calls.n < at ? LS_OK : at % 3 ? LS_INTERNAL : LS_OUT_OF_MEMORY;
            if (card.executor.status != wanted || (wanted != LS_OK && found))
                fail_msg("call %d, cuDNN's status %d: status %d", at, (int)calls.status, (int)card.executor.status);
            ls_card_close_convs(&card);
        }
    }
    print_message("%d calls\n", calls.n);
    assert_true(calls.n > 50);
    calls.at = 0;
    cudnnBackendDestroyDescriptor(card_there);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(every_convolution_has_an_engine),
                                       cmocka_unit_test(every_call_fails)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
