/* An operation of one's own with kernels for cards, for tests: y = w[channel] * x^2, and its gradients, each with the
 * roundings and the order of sums of the C functions beside it. */
#ifndef TEST_OWN_KERNELS_H
#define TEST_OWN_KERNELS_H

#include <lockstep_nn.h>

#ifdef __cplusplus
extern "C" {
#endif

bool own_kernel_forward(const ls_custom_call *call, const float *const in[], float *out, void *stream);
bool own_kernel_backward(const ls_custom_call *call, const float *const in[], const float *out, const float *dout,
                         float *const din[], void *stream);

#ifdef __cplusplus
}
#endif

#endif
