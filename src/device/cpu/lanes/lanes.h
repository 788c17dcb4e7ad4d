/* Sixteen lanes on this machine: the only file with vector instructions.
 *
 * `vf` holds LS_VL floats: 16 with AVX-512, 8 with AVX2, 4 with NEON, 1 in plain C. A group of 16 lanes is LS_NV of
 * them. Every operator and function is one IEEE operation to a lane (or a fixed tree of additions), so the width never
 * shows in a result.
 *
 * vm_bits gives a bit for each lane, lane 0 in bit 0; vm_of_bits takes a vector's lanes from bit `from` on.
 *
 * vf_stream stores to a multiple of LS_VL floats and around the caches where the machine can, so that no line is
 * fetched only to be overwritten; lanes_streamed comes after the last of a call's, before another core may read
 * them. */
#pragma once

#include "device/cpu/fma.h"
#include "device/cpu/lanes/table.h"

#define LANES_WIDTH_plain  1
#define LANES_WIDTH_neon   4
#define LANES_WIDTH_avx2   8
#define LANES_WIDTH_avx512 16
#define LS_VL              LANES(LANES_WIDTH)
#define LS_NV              (LS_LANES / LS_VL)

/* A tile of accumulators, LS_OB x LS_PB, that fits the registers beside its operands. LS_OB is also the width of a
 * panel of packed weights. */
#define LS_OB 4
#if LS_VL == 8
#define LS_PB 3
#elif LS_VL == 1
#define LS_PB 2
#else
#define LS_PB 6
#endif

#define LS_INLINE static inline __attribute__((always_inline, unused))
#if defined(__clang__)
#define LS_UNROLL _Pragma("clang loop unroll(full)")
#define LS_ROLL   _Pragma("clang loop unroll(disable)")
#else
#define LS_UNROLL _Pragma("GCC unroll 16")
#define LS_ROLL   _Pragma("GCC unroll 1")
#endif

#if LS_VL >= 8
#include <immintrin.h>
#elif LS_VL == 4
#include <arm_neon.h>
#endif

/* The compiler's own vectors: +, -, * and / go lane by lane, also between a vector and a number. */
#if LS_VL > 1
typedef float vf __attribute__((vector_size(LS_VL * sizeof(float))));
typedef vf vf_anywhere __attribute__((aligned(sizeof(float)), may_alias));
#else
typedef float vf, vf_anywhere;
#endif

LS_INLINE vf vf_load(const float *p)
{
    return *(const vf_anywhere *)p;
}
LS_INLINE void vf_store(float *p, vf a)
{
    *(vf_anywhere *)p = a;
}
LS_INLINE vf vf_zero(void)
{
    return (vf){0.0f};
}
LS_INLINE vf vf_set(float a)
{
    return a - vf_zero(); /* 0 + a would make 0 of -0 */
}

/* Masks, which & and | combine. */
#if LS_VL == 16
typedef __mmask16 vm;
LS_INLINE vm vm_first(int count)
{
    return (vm)(count >= 16 ? 0xffff : count <= 0 ? 0 : (1u << count) - 1);
}
LS_INLINE vm vm_greater(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_GT_OQ);
}
LS_INLINE vm vm_less_equal(vf a, vf b)
{
    return _mm512_cmp_ps_mask(a, b, _CMP_LE_OQ);
}
LS_INLINE vm vm_unordered(vf a)
{
    return _mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q);
}
LS_INLINE vm vm_of_bits(unsigned bits, int from)
{
    return (vm)(bits >> from);
}
#else
#if LS_VL == 8
typedef int32_t vm __attribute__((vector_size(32)));
static const vm lane_number = {0, 1, 2, 3, 4, 5, 6, 7};
#elif LS_VL == 4
typedef int32_t vm __attribute__((vector_size(16)));
static const vm lane_number = {0, 1, 2, 3};
static const uint32_t lane_bit[] = {1, 2, 4, 8};
#else
typedef int32_t vm;
static const vm lane_number = 0;
#endif
LS_INLINE vm vm_first(int count)
{
    return lane_number < count;
}
LS_INLINE vm vm_greater(vf a, vf b)
{
    return a > b;
}
LS_INLINE vm vm_less_equal(vf a, vf b)
{
    return a <= b;
}
LS_INLINE vm vm_unordered(vf a)
{
    return a != a;
}
LS_INLINE vm vm_of_bits(unsigned bits, int from)
{
#if LS_VL == 4
    return (vm)vtstq_u32(vdupq_n_u32(bits >> from), vld1q_u32(lane_bit));
#else
    const vm bit = 1 << lane_number;
    return ((int32_t)(bits >> from) & bit) == bit;
#endif
}
#endif

/* What takes an instruction of the machine's. */
#if LS_VL == 16
LS_INLINE vf vf_sqrt(vf a)
{
    return _mm512_sqrt_ps(a);
}
LS_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm512_fmadd_ps(a, b, c);
}
LS_INLINE vf vf_relu(vf a)
{
    return _mm512_max_ps(vf_zero(), a);
}
LS_INLINE vf vf_select(vm m, vf a, vf b)
{
    return _mm512_mask_blend_ps(m, b, a);
}
LS_INLINE vf vf_keep(vm m, vf a)
{
    return _mm512_maskz_mov_ps(m, a);
}
LS_INLINE unsigned vm_bits(vm m)
{
    return m;
}
#elif LS_VL == 8
LS_INLINE vf vf_sqrt(vf a)
{
    return _mm256_sqrt_ps(a);
}
LS_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return _mm256_fmadd_ps(a, b, c);
}
LS_INLINE vf vf_relu(vf a)
{
    return _mm256_max_ps(vf_zero(), a);
}
LS_INLINE vf vf_select(vm m, vf a, vf b)
{
    return _mm256_blendv_ps(b, a, (vf)m);
}
LS_INLINE vf vf_keep(vm m, vf a)
{
    return _mm256_and_ps((vf)m, a);
}
LS_INLINE unsigned vm_bits(vm m)
{
    return (unsigned)_mm256_movemask_ps((vf)m);
}
#elif LS_VL == 4
LS_INLINE vf vf_sqrt(vf a)
{
    return vsqrtq_f32(a);
}
LS_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return vfmaq_f32(c, a, b);
}
LS_INLINE vf vf_select(vm m, vf a, vf b)
{
    return vbslq_f32((uint32x4_t)m, a, b);
}
LS_INLINE vf vf_relu(vf a)
{
    return vf_select(a < 0.0f, vf_zero(), a);
}
LS_INLINE vf vf_keep(vm m, vf a)
{
    return (vf)(m & (vm)a);
}
LS_INLINE unsigned vm_bits(vm m)
{
    return vaddvq_u32(vandq_u32((uint32x4_t)m, vld1q_u32(lane_bit)));
}
#else
LS_INLINE vf vf_sqrt(vf a)
{
    return __builtin_sqrtf(a);
}
LS_INLINE vf vf_fma(vf a, vf b, vf c)
{
    return ls_fma(a, b, c);
}
LS_INLINE vf vf_relu(vf a)
{
    return a < 0.0f ? 0.0f : a;
}
LS_INLINE vf vf_select(vm m, vf a, vf b)
{
    return m ? a : b;
}
LS_INLINE vf vf_keep(vm m, vf a)
{
    return m ? a : 0.0f;
}
LS_INLINE unsigned vm_bits(vm m)
{
    return (unsigned)m;
}
#endif

LS_INLINE void vf_stream(float *p, vf a)
{
#if LS_VL == 16
    _mm512_stream_ps(p, a);
#elif LS_VL == 8
    _mm256_stream_ps(p, a);
#else
    vf_store(p, a);
#endif
}
LS_INLINE void lanes_streamed(void)
{
#if LS_VL >= 8
    _mm_sfence();
#endif
}

/* lanes(a) of op.h. */
LS_INLINE float lanes_sum(const float *a)
{
    float s[8];
    for (int i = 0; i < 8; i++)
        s[i] = a[i] + a[i + 8];
    for (int i = 0; i < 4; i++)
        s[i] += s[i + 4];
    return (s[0] + s[2]) + (s[1] + s[3]);
}

/* lanes(a) of 16 groups that lie one after another; the same pairs, with a transposition hidden in the tree. */
#if LS_VL == 16
LS_INLINE vf lanes_pair8(vf a, vf b)
{
    return _mm512_shuffle_f32x4(a, b, 0x44) + _mm512_shuffle_f32x4(a, b, 0xee);
}
LS_INLINE vf lanes_pair4(vf a, vf b)
{
    return _mm512_shuffle_f32x4(a, b, 0x88) + _mm512_shuffle_f32x4(a, b, 0xdd);
}
LS_INLINE vf lanes_pair2(vf a, vf b)
{
    return _mm512_shuffle_ps(a, b, 0x44) + _mm512_shuffle_ps(a, b, 0xee);
}
LS_INLINE vf lanes_pair1(vf a, vf b)
{
    return _mm512_shuffle_ps(a, b, 0x88) + _mm512_shuffle_ps(a, b, 0xdd);
}
LS_INLINE void lanes_sum16(const float *a, float *out)
{
    vf u[4];
    LS_UNROLL
    for (int e = 0; e < 4; e++)
        u[e] = lanes_pair4(lanes_pair8(vf_load(a + 16 * e), vf_load(a + 16 * (e + 4))),
                           lanes_pair8(vf_load(a + 16 * (e + 8)), vf_load(a + 16 * (e + 12))));
    vf_store(out, lanes_pair1(lanes_pair2(u[0], u[1]), lanes_pair2(u[2], u[3])));
}
#elif LS_VL == 8
LS_INLINE vf lanes_pair4(vf a, vf b)
{
    return _mm256_permute2f128_ps(a, b, 0x20) + _mm256_permute2f128_ps(a, b, 0x31);
}
LS_INLINE vf lanes_pair2(vf a, vf b)
{
    return _mm256_shuffle_ps(a, b, 0x44) + _mm256_shuffle_ps(a, b, 0xee);
}
LS_INLINE vf lanes_pair1(vf a, vf b)
{
    return _mm256_shuffle_ps(a, b, 0x88) + _mm256_shuffle_ps(a, b, 0xdd);
}
LS_INLINE vf lanes_half(const float *a)
{
    return vf_load(a) + vf_load(a + 8);
}
LS_INLINE void lanes_sum16(const float *a, float *out)
{
    for (int half = 0; half < 2; half++, a += 128, out += 8) {
        vf u[4];
        LS_UNROLL
        for (int e = 0; e < 4; e++)
            u[e] = lanes_pair4(lanes_half(a + 16 * e), lanes_half(a + 16 * (e + 4)));
        vf_store(out, lanes_pair1(lanes_pair2(u[0], u[1]), lanes_pair2(u[2], u[3])));
    }
}
#elif LS_VL == 4
LS_INLINE vf lanes_quarter(const float *a)
{
    return (vf_load(a) + vf_load(a + 8)) + (vf_load(a + 4) + vf_load(a + 12));
}
LS_INLINE vf lanes_pair2(vf a, vf b)
{
    return vcombine_f32(vget_low_f32(a), vget_low_f32(b)) + vcombine_f32(vget_high_f32(a), vget_high_f32(b));
}
LS_INLINE void lanes_sum16(const float *a, float *out)
{
    for (int e = 0; e < 16; e += 4, a += 64) {
        vf u = lanes_pair2(lanes_quarter(a), lanes_quarter(a + 16));
        vf v = lanes_pair2(lanes_quarter(a + 32), lanes_quarter(a + 48));
        vf_store(out + e, vuzp1q_f32(u, v) + vuzp2q_f32(u, v));
    }
}
#else
LS_INLINE void lanes_sum16(const float *a, float *out)
{
    for (int e = 0; e < 16; e++)
        out[e] = lanes_sum(a + 16 * e);
}
#endif

/* lanes(a) of four groups in registers. */
LS_INLINE void lanes_sum4(vf (*a)[LS_NV], float *out)
{
#if LS_VL == 16
    const vf quads = lanes_pair4(lanes_pair8(a[0][0], a[1][0]), lanes_pair8(a[2][0], a[3][0]));
    const vf pairs = lanes_pair2(quads, quads), sums = lanes_pair1(pairs, pairs); /* each four times */
    const __m512i first = _mm512_setr_epi32(0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12, 0, 4, 8, 12);
    _mm_storeu_ps(out, _mm512_castps512_ps128(_mm512_permutexvar_ps(first, sums)));
#elif LS_VL == 8
    __m128 q[4];
    LS_UNROLL
    for (int e = 0; e < 4; e++) {
        const vf half = a[e][0] + a[e][1];
        q[e] = _mm256_extractf128_ps(half, 1) + _mm256_castps256_ps128(half);
    }
    const __m128 ab = _mm_movelh_ps(q[0], q[1]) + _mm_movehl_ps(q[1], q[0]);
    const __m128 cd = _mm_movelh_ps(q[2], q[3]) + _mm_movehl_ps(q[3], q[2]);
    _mm_storeu_ps(out, _mm_shuffle_ps(ab, cd, 0x88) + _mm_shuffle_ps(ab, cd, 0xdd));
#elif LS_VL == 4
    vf q[4];
    LS_UNROLL
    for (int e = 0; e < 4; e++)
        q[e] = (a[e][0] + a[e][2]) + (a[e][1] + a[e][3]);
    const vf ab = lanes_pair2(q[0], q[1]), cd = lanes_pair2(q[2], q[3]);
    vf_store(out, vuzp1q_f32(ab, cd) + vuzp2q_f32(ab, cd));
#else
    for (int e = 0; e < 4; e++)
        out[e] = lanes_sum(a[e]);
#endif
}

/* A 4 x 4 block turned: to[j * to_step + i] = from[i * from_step + j]. */
LS_INLINE void lanes_turn4(const float *from, ptrdiff_t from_step, float *to, ptrdiff_t to_step)
{
#if LS_VL >= 8
    __m128 a = _mm_loadu_ps(from), b = _mm_loadu_ps(from + from_step);
    __m128 c = _mm_loadu_ps(from + 2 * from_step), d = _mm_loadu_ps(from + 3 * from_step);
    _MM_TRANSPOSE4_PS(a, b, c, d);
    _mm_storeu_ps(to, a);
    _mm_storeu_ps(to + to_step, b);
    _mm_storeu_ps(to + 2 * to_step, c);
    _mm_storeu_ps(to + 3 * to_step, d);
#elif LS_VL == 4
    float32x4x2_t ab = vtrnq_f32(vf_load(from), vf_load(from + from_step));
    float32x4x2_t cd = vtrnq_f32(vf_load(from + 2 * from_step), vf_load(from + 3 * from_step));
    vf_store(to, vcombine_f32(vget_low_f32(ab.val[0]), vget_low_f32(cd.val[0])));
    vf_store(to + to_step, vcombine_f32(vget_low_f32(ab.val[1]), vget_low_f32(cd.val[1])));
    vf_store(to + 2 * to_step, vcombine_f32(vget_high_f32(ab.val[0]), vget_high_f32(cd.val[0])));
    vf_store(to + 3 * to_step, vcombine_f32(vget_high_f32(ab.val[1]), vget_high_f32(cd.val[1])));
#else
    for (int i = 0; i < 4; i++)
        for (int j = 0; j < 4; j++)
            to[j * to_step + i] = from[i * from_step + j];
#endif
}

/* A 16 x 16 block turned. */
LS_INLINE void lanes_turn16(const float *from, ptrdiff_t from_step, float *to, ptrdiff_t to_step)
{
#if LS_VL == 16
    vf pair[16], quad[16];
    LS_UNROLL
    for (int i = 0; i < 16; i += 2) {
        const vf a = vf_load(from + i * from_step), b = vf_load(from + (i + 1) * from_step);
        pair[i] = _mm512_unpacklo_ps(a, b);
        pair[i + 1] = _mm512_unpackhi_ps(a, b);
    }
    LS_UNROLL
    for (int i = 0; i < 16; i += 4)
        LS_UNROLL
    for (int k = 0; k < 2; k++) {
        quad[i + 2 * k] = _mm512_shuffle_ps(pair[i + k], pair[i + k + 2], 0x44);
        quad[i + 2 * k + 1] = _mm512_shuffle_ps(pair[i + k], pair[i + k + 2], 0xee);
    }
    LS_UNROLL
    for (int k = 0; k < 4; k++) {
        const vf a = _mm512_shuffle_f32x4(quad[k], quad[4 + k], 0x88);
        const vf b = _mm512_shuffle_f32x4(quad[k], quad[4 + k], 0xdd);
        const vf c = _mm512_shuffle_f32x4(quad[8 + k], quad[12 + k], 0x88);
        const vf d = _mm512_shuffle_f32x4(quad[8 + k], quad[12 + k], 0xdd);
        vf_store(to + k * to_step, _mm512_shuffle_f32x4(a, c, 0x88));
        vf_store(to + (4 + k) * to_step, _mm512_shuffle_f32x4(b, d, 0x88));
        vf_store(to + (8 + k) * to_step, _mm512_shuffle_f32x4(a, c, 0xdd));
        vf_store(to + (12 + k) * to_step, _mm512_shuffle_f32x4(b, d, 0xdd));
    }
#elif LS_VL == 8
    for (int part = 0; part < 4; part++) {
        const float *source = from + part / 2 * 8 * from_step + part % 2 * 8;
        float *target = to + part % 2 * 8 * to_step + part / 2 * 8;
        vf pair[8], quad[8];
        LS_UNROLL
        for (int i = 0; i < 8; i += 2) {
            const vf a = vf_load(source + i * from_step), b = vf_load(source + (i + 1) * from_step);
            pair[i] = _mm256_unpacklo_ps(a, b);
            pair[i + 1] = _mm256_unpackhi_ps(a, b);
        }
        LS_UNROLL
        for (int i = 0; i < 8; i += 4)
            LS_UNROLL
        for (int k = 0; k < 2; k++) {
            quad[i + 2 * k] = _mm256_shuffle_ps(pair[i + k], pair[i + k + 2], 0x44);
            quad[i + 2 * k + 1] = _mm256_shuffle_ps(pair[i + k], pair[i + k + 2], 0xee);
        }
        LS_UNROLL
        for (int k = 0; k < 4; k++) {
            vf_store(target + k * to_step, _mm256_permute2f128_ps(quad[k], quad[4 + k], 0x20));
            vf_store(target + (4 + k) * to_step, _mm256_permute2f128_ps(quad[k], quad[4 + k], 0x31));
        }
    }
#else
    for (int i = 0; i < 16; i += 4)
        for (int k = 0; k < 16; k += 4)
            lanes_turn4(from + i * from_step + k, from_step, to + k * to_step + i, to_step);
#endif
}

/* A rows x columns block turned, the parts that are no multiple of 4 one number at a time. */
LS_INLINE void lanes_turn(const float *from, ptrdiff_t from_step, int rows, int columns, float *to, ptrdiff_t to_step)
{
    for (int i = 0; i < rows; i += 4) {
        int j = 0;
        for (; i + 4 <= rows && j + 4 <= columns; j += 4)
            lanes_turn4(from + i * from_step + j, from_step, to + j * to_step + i, to_step);
        for (; j < columns; j++)
            for (int k = i; k < rows && k < i + 4; k++)
                to[j * to_step + k] = from[k * from_step + j];
    }
}

/* A map that the caches will not hold until it is read again. */
LS_INLINE int lanes_many(const ls_operand *map, int groups)
{
    enum { BYTES = 4 << 20 };
    return (ptrdiff_t)groups * map->c * map->h * map->w * LS_LANES * (ptrdiff_t)sizeof(float) > BYTES;
}

LS_INLINE void vf_put(float *p, vf a, int many)
{
    if (many)
        vf_stream(p, a);
    else
        vf_store(p, a);
}

/* Copies whole groups of lanes, `count` of them, `step` apart in `from`. */
LS_INLINE void lanes_copy(float *to, const float *from, int count, ptrdiff_t step)
{
    for (int i = 0; i < count; i++, to += LS_LANES, from += step * LS_LANES)
        LS_UNROLL
    for (int v = 0; v < LS_NV; v++)
        vf_store(to + v * LS_VL, vf_load(from + v * LS_VL));
}

LS_INLINE void lanes_clear(float *to, int count)
{
    for (int i = 0; i < count * LS_LANES; i += LS_VL)
        vf_store(to + i, vf_zero());
}
