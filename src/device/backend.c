#include "device/backend.h"

int ls_backend_update(const ls_backend *backend, float *out, const float *w, float *moments, const float *g, size_t n,
                      const ls_update *how)
{
    if (how->rule == LS_RULE_ADAM)
        return backend->adam(out, w, moments, moments + how->stride, g, n, &how->adam);
    return backend->sgd(out, w, moments, g, n, &how->sgd);
}
