#include "device/cpu/select.h"

#if LOCKSTEP_HAVE_AVX512
const ls_backend *ls_lanes_avx512(void);
#endif
#if LOCKSTEP_HAVE_AVX2
const ls_backend *ls_lanes_avx2(void);
#endif
#if LOCKSTEP_HAVE_NEON
const ls_backend *ls_lanes_neon(void);
#endif
#if LOCKSTEP_HAVE_PLAIN
const ls_backend *ls_lanes_plain(void);
#endif

/* Each asks for every feature that the build compiles the kernels for. */
static const ls_backend *avx512(void)
{
#if LOCKSTEP_HAVE_AVX512
    if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
        __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("fma"))
        return ls_lanes_avx512();
#endif
    return NULL;
}

static const ls_backend *avx2(void)
{
#if LOCKSTEP_HAVE_AVX2
    if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma"))
        return ls_lanes_avx2();
#endif
    return NULL;
}

static const ls_backend *neon(void)
{
#if LOCKSTEP_HAVE_NEON
    return ls_lanes_neon();
#else
    return NULL;
#endif
}

static const ls_backend *plain(void)
{
#if LOCKSTEP_HAVE_PLAIN
    return ls_lanes_plain();
#else
    return ls_backend_ref();
#endif
}

static const ls_backend *widest(void)
{
    const ls_backend *backend = avx512();
    backend = backend ? backend : avx2();
    backend = backend ? backend : neon();
    return backend ? backend : plain();
}

const ls_backend *ls_cpu_backend(ls_isa cap)
{
    switch (cap) {
    case LS_ISA_AUTO:
        return widest();
    case LS_ISA_PLAIN:
        return plain();
    case LS_ISA_NEON:
        return neon();
    case LS_ISA_AVX2:
        return avx2();
    case LS_ISA_AVX512:
        return avx512();
    case LS_ISA_REFERENCE:
        return ls_backend_ref();
    }
    return NULL;
}

const char *ls_cpu_isa_name(ls_isa cap)
{
    const ls_backend *backend = ls_cpu_backend(cap);
    return backend ? backend->name : NULL;
}
