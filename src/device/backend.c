#include "device/backend.h"

int ls_backend_update(const ls_backend *backend, float *out, const float *w, float *moments, const float *g, size_t n,
                      const ls_update *how)
{
    const int finite = how->rule == LS_RULE_ADAM
                           ? backend->adam(out, w, moments, moments + how->stride, g, n, &how->adam)
                           : backend->sgd(out, w, moments, g, n, &how->sgd);
    if (how->averaging.share == 0)
        return finite;
    return backend->average(moments + how->average_at, out, n, &how->averaging) && finite;
}
