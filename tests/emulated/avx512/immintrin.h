/* AVX-512's instructions for processors that have none: found before the compiler's header of this name, it adds
 * SIMDe's, which are made of AVX2's and give the same bits. */
#ifndef LOCKSTEP_TESTS_EMULATED_AVX512_H
#define LOCKSTEP_TESTS_EMULATED_AVX512_H

#include_next <immintrin.h>

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>

/* What SIMDe 0.7 does not have. */
static inline simde__m512 lockstep_shuffle_f32x4(simde__m512 a, simde__m512 b, int quads)
{
    simde__m512_private from[2] = {simde__m512_to_private(a), simde__m512_to_private(b)}, to;
    for (int i = 0; i < 4; i++)
        to.m128[i] = from[i / 2].m128[quads >> 2 * i & 3];
    return simde__m512_from_private(to);
}
#undef _mm512_stream_ps
#define _mm512_stream_ps(p, a) simde_mm512_store_ps(p, a)
#undef _mm512_shuffle_f32x4
#define _mm512_shuffle_f32x4(a, b, quads) lockstep_shuffle_f32x4(a, b, quads)

#endif
