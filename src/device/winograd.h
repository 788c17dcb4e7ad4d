/* Winograd F(m x m, k x k) as an operation of its own: its transforms step by step, in the order that every backend
 * keeps. (Lavin, Gray: "Fast algorithms for convolutional neural networks", 2015.) A convolution has a stride of 1 and
 * k = 3 with padding p = 1 or k = 5 with p = 0 to 4, or a stride of 2, k = 3 and p = 1. The forms, each with its points
 * and infinity besides:
 *   k = 3, m = 4: 0, 1, -1, 2, -2                 k = 3, m = 7: +-1/4, +-11/16, +-9/8, +-9/4
 *   k = 5, m = 4: 0, 1, -1, 2, -2, 1/2, -1/2
 *   k = 2, m = 4: 0, 1, -1, 2                     k = 2, m = 7: 0, 1, -1, 2, -2, 1/2, -1/2
 * ls_winograd_tile chooses m by the map. The eight points of k = 3, m = 7 were found by search
 * (tools/winograd_points.py), as those that are used elsewhere lose a digit more; they are in pairs, and fractions of
 * powers of two, so that all factors but the weights' are exact.
 *
 * A stride of 2 makes four convolutions of stride 1, the phases, by which of x's rows and columns they read: in each
 * dimension phase 0 has the taps 0 and 2 and phase 1 has tap 1, so that a phase has 2 x 2, 2 x 1, 1 x 2 or 1 x 1 taps,
 * rows first; they come in this order. The gradient of the input has four of the same kind, one for each quarter of dx.
 * A dimension of one tap has no transform: n = m, each step hands its numbers on, all n places have the same U, and
 * their products one sum in a weight's gradient. `ls_winograd_axis` says what a phase reads and writes in one
 * dimension.
 *
 * Maps of y (or of the phase's outputs) are cut into m x m tiles, left to right, top to bottom; a tile reads n x n
 * inputs, n = k + m - 1, zero outside the map: with a stride of 1 those from row m*ty - p and column m*tx - p. Outputs
 * outside the map are dropped.
 *
 * One-dimensional steps (all in single precision, fma where written), for k = 3 and m = 4:
 *   weights (g0 g1 g2) to (u0 .. u5):
 *     s = g0 + g2;  q = fma(4, g2, g0)
 *     u0 = g0 * 0.25f;  u1 = (s + g1) * (-1/6f);  u2 = (s - g1) * (-1/6f)
 *     u3 = fma(2, g1, q) * (1/24f);  u4 = fma(-2, g1, q) * (1/24f);  u5 = g2
 *   inputs (d0 .. d5) to (v0 .. v5):
 *     p = fma(-4, d2, d4);  q = fma(-4, d1, d3);  r = d4 - d2;  s = 2 * (d3 - d1)
 *     v0 = fma(4, d0, fma(-5, d2, d4));  v1 = p + q;  v2 = p - q;  v3 = r + s;  v4 = r - s
 *     v5 = fma(4, d1, fma(-5, d3, d5))
 *   products (m0 .. m5) to (o0 .. o3):
 *     a = m1 + m2;  b = m1 - m2;  c = m3 + m4;  d = m3 - m4
 *     o0 = (m0 + a) + c;  o1 = fma(2, d, b);  o2 = fma(4, c, a);  o3 = fma(8, d, b) + m5
 *   slopes (s0 .. s3) to (e0 .. e5), the products' step transposed:
 *     a = s0 + s2;  b = s1 + s3;  c = fma(4, s2, s0);  d = fma(4, s3, s1)
 *     e0 = s0;  e1 = a + b;  e2 = a - b;  e3 = fma(2, d, c);  e4 = fma(-2, d, c);  e5 = s3
 *   sums (m0 .. m5) to (g0 g1 g2), the weights' step transposed:
 *     a = m1 + m2;  b = m1 - m2;  c = m3 + m4;  d = m3 - m4
 *     g0 = fma(1/24f, c, fma(-1/6f, a, m0 * 0.25f));  g1 = fma(1/12f, d, b * (-1/6f));  g2 = fma(1/6f, c - a, m5)
 * for k = 3 and m = 7, i = 0 to 3 numbering the pairs of points +-a, each with the factors of ls_winograd_pairs:
 *   weights (g0 g1 g2) to (u0 .. u8):
 *     e = fma(weight[2], g2, weight[0] * g0);  o = weight[1] * g1
 *     u[2i] = e + o;  u[2i+1] = e - o;  u8 = g2
 *   inputs (d0 .. d8) to (v0 .. v8):
 *     e = fma(even[0], d0, fma(even[1], d2, fma(even[2], d4, a * d6)));
 *     o = fma(odd[0], d1, fma(odd[1], d3, fma(odd[2], d5, d7)))
 *     v[2i] = e + o;  v[2i+1] = e - o;  v8 = fma(last[0], d0, fma(last[1], d2, fma(last[2], d4, fma(last[3], d6, d8))))
 *   products (m0 .. m8) to (o0 .. o6):
 *     s[i] = m[2i] + m[2i+1];  t[i] = m[2i] - m[2i+1]
 *     o0 = (s[0] + s[1]) + (s[2] + s[3])
 *     o[j] = fma(a3^j, z[3], fma(a2^j, z[2], fma(a1^j, z[1], a0^j * z[0]))), z = s where j is even, t where it is odd;
 *       o6 = .. + m8
 *   slopes (s0 .. s6) to (e0 .. e8), the products' step transposed:
 *     p = fma(a^6, s6, fma(a^4, s4, fma(a^2, s2, s0)));  q = fma(a^5, s5, fma(a^3, s3, a * s1))
 *     e[2i] = p + q;  e[2i+1] = p - q;  e8 = s6
 *   sums (m0 .. m8) to (g0 g1 g2), the weights' step transposed: s and t as of the products,
 *     g[j] = fma(weight3[j], z[3], fma(weight2[j], z[2], fma(weight1[j], z[1], weight0[j] * z[0]))), z = t where
 *       j is 1;
 *     g2 = .. + m8
 * for k = 2 and m = 4:
 *   weights (g0 g1) to (u0 .. u4):  s = g0 + g1
 *     u0 = g0 * 0.5f;  u1 = s * -0.5f;  u2 = (g1 - g0) * (1/6f);  u3 = fma(2, g1, g0) * (1/6f);  u4 = g1
 *   inputs (d0 .. d4) to (v0 .. v4):
 *     v0 = fma(2, d0 - d2, d3 - d1);  v1 = fma(-2, d1, d3 - d2);  v2 = fma(2, d1, fma(-3, d2, d3));  v3 = d3 - d1
 *     v4 = fma(2, d1 - d3, d4 - d2)
 *   products (m0 .. m4) to (o0 .. o3):
 *     a = m1 + m2;  b = m1 - m2;  o0 = (m0 + a) + m3;  o1 = fma(2, m3, b);  o2 = fma(4, m3, a);
 *     o3 = fma(8, m3, b) + m4
 *   slopes (s0 .. s3) to (e0 .. e4), the products' step transposed:
 *     a = s0 + s2;  b = s1 + s3
 *     e0 = s0;  e1 = a + b;  e2 = a - b;  e3 = fma(8, s3, fma(4, s2, fma(2, s1, s0)));  e4 = s3
 *   sums (m0 .. m4) to (g0 g1), the weights' step transposed:
 *     g0 = fma(1/6f, m3 - m2, (m0 - m1) * 0.5f);  g1 = fma(1/3f, m3, fma(1/6f, m2, m1 * -0.5f)) + m4
 * for k = 2 and m = 7, with the inputs' step of k = 5:
 *   weights (g0 g1) to (u0 .. u7):
 *     u0 = g0;  u1 = (g0 + g1) * (-2/9f);  u2 = (g0 - g1) * (-2/9f);  u3 = fma(2, g1, g0) * (1/90f);
 *     u4 = fma(-2, g1, g0) * (1/90f)
 *     u5 = fma(1/2, g1, g0) * (32/45f);  u6 = fma(-1/2, g1, g0) * (32/45f);  u7 = g1
 *   products (m0 .. m7) to (o0 .. o6): a, b, c, d, e, f as of k = 5
 *     o0 = ((m0 + a) + c) + e;  o1 = fma(1/2, f, fma(2, d, b));  o2 = fma(1/4, e, fma(4, c, a));
 *     o3 = fma(1/8, f, fma(8, d, b))
 *     o4 = fma(1/16, e, fma(16, c, a));  o5 = fma(1/32, f, fma(32, d, b));  o6 = fma(1/64, e, fma(64, c, a)) + m7
 *   slopes (s0 .. s6) to (e0 .. e7), the products' step transposed:
 *     a = (s0 + s2) + (s4 + s6);  b = (s1 + s3) + s5
 *     c = fma(64, s6, fma(16, s4, fma(4, s2, s0)));  d = fma(32, s5, fma(8, s3, 2 * s1))
 *     g = fma(1/64, s6, fma(1/16, s4, fma(1/4, s2, s0)));  h = fma(1/32, s5, fma(1/8, s3, 1/2 * s1))
 *     e0 = s0;  e1 = a + b;  e2 = a - b;  e3 = c + d;  e4 = c - d;  e5 = g + h;  e6 = g - h;  e7 = s6
 *   sums (m0 .. m7) to (g0 g1), the weights' step transposed: a .. f as of k = 5's sums
 *     g0 = ((m0 + a) + c) + e;  g1 = fma(1/2, f, fma(2, d, b)) + m7
 * and for k = 5 and m = 4:
 *   weights (g0 .. g4) to (u0 .. u7):
 *     s = (g0 + g2) + g4;  t = g1 + g3
 *     q = fma(16, g4, fma(4, g2, g0));  r = fma(4, g3, g1);  h = fma(1/16, g4, fma(1/4, g2, g0));  l = fma(1/4, g3, g1)
 *     u0 = g0;  u1 = (s + t) * (-2/9f);  u2 = (s - t) * (-2/9f);  u3 = fma(2, r, q) * (1/90f);
 *     u4 = fma(-2, r, q) * (1/90f)
 *     u5 = fma(1/2, l, h) * (32/45f);  u6 = fma(-1/2, l, h) * (32/45f);  u7 = g4
 *   inputs (d0 .. d7) to (v0 .. v7):
 *     a = fma(-17/4, d4, d2 + d6);  b = fma(-17/4, d3, d1 + d5)
 *     c = fma(1/4, d2, fma(-5/4, d4, d6));  d = fma(1/2, d1, fma(-5/2, d3, d5 * 2))
 *     e = fma(4, d2, fma(-5, d4, d6));  f = fma(2, d1, fma(-5/2, d3, d5 * 1/2))
 *     v0 = fma(21/4, d4 - d2, d0 - d6);  v1 = a + b;  v2 = a - b;  v3 = c + d;  v4 = c - d;  v5 = e + f;  v6 = e - f
 *     v7 = fma(21/4, d3 - d5, d7 - d1)
 *   products (m0 .. m7) to (o0 .. o3):
 *     a = m1 + m2;  b = m1 - m2;  c = m3 + m4;  d = m3 - m4;  e = m5 + m6;  f = m5 - m6
 *     o0 = ((m0 + a) + c) + e;  o1 = fma(1/2, f, fma(2, d, b));  o2 = fma(1/4, e, fma(4, c, a))
 *     o3 = fma(1/8, f, fma(8, d, b)) + m7
 *   slopes (s0 .. s3) to (e0 .. e7), the products' step transposed:
 *     a = s0 + s2;  b = s1 + s3;  c = fma(4, s2, s0);  d = fma(4, s3, s1);  g = fma(1/4, s2, s0);  h = fma(1/4, s3, s1)
 *     e0 = s0;  e1 = a + b;  e2 = a - b;  e3 = fma(2, d, c);  e4 = fma(-2, d, c);  e5 = fma(1/2, h, g);
 *     e6 = fma(-1/2, h, g)
 *     e7 = s3
 *   sums (m0 .. m7) to (g0 .. g4), the weights' step transposed:
 *     a = (m1 + m2) * (-2/9f);  b = (m1 - m2) * (-2/9f);  c = (m3 + m4) * (1/90f);  d = (m3 - m4) * (1/90f)
 *     e = (m5 + m6) * (32/45f);  f = (m5 - m6) * (32/45f)
 *     g0 = ((m0 + a) + c) + e;  g1 = fma(1/2, f, fma(2, d, b));  g2 = fma(1/4, e, fma(4, c, a))
 *     g3 = fma(1/8, f, fma(8, d, b));  g4 = fma(1/16, e, fma(16, c, a)) + m7
 *   gradients (m0 .. m7) to (d0 .. d7), the inputs' step transposed:
 *     a, b, c, d, e, f as of the products
 *     d0 = m0;  d1 = fma(2, f, fma(1/2, d, b - m7));  d2 = fma(-21/4, m0, fma(4, e, fma(1/4, c, a)))
 *     d3 = fma(21/4, m7, fma(-17/4, b, (d + f) * (-5/2)));  d4 = fma(21/4, m0, fma(-17/4, a, fma(-5, e, c * (-5/4))))
 *     d5 = fma(-21/4, m7, fma(1/2, f, fma(2, d, b)));  d6 = ((a + c) + e) - m0;  d7 = m7
 * In two dimensions the step runs down the columns first (over the row index, for each column), then along the rows.
 *
 * WINOGRAD: U from w[o][c]; for each of the n*n places and each run of 64 channels, ascending: r = 0, over the run's
 * channels r = fma(U, V, r). M is the first run's r, -0 included; then M = M + r. y = o + b (nothing is added without
 * a bias), then relu where fused. With phases, o = ((o of the first + o of the second) + ..) + ..
 * WINOGRAD_DATA, k = 3: the same with dy for x, the weights of (c, o) turned by 180 degrees (w[o][c][2-i][2-j]), runs
 * of output channels, no bias, and no relu. Phases write places of their own.
 * WINOGRAD_DATA, k = 5: WINOGRAD transposed, since tiles of dx would be up to four times as many as those of dy: U from
 * w[o][c] and E from dy's tiles, zero outside the map; M as above, from U, E and the output channels. dx = 0; then the
 * tiles of dy in their order add their n x n gradients to the places that they read from: dx = dx + d.
 * WINOGRAD_WEIGHT: E from the tiles of dy, zero outside the map, and V from those of x. The tiles of all groups, group
 * by group and in a map row by row, are cut into runs of ls_winograd_run tiles. For each of the n*n places: M = 0; for
 * each run: r = 0, over the run's tiles and in a tile over its images r = fma(E, V, r); then M = M + r. dw from M, then
 * dw + 0. Lanes without an image need no mask, as with CONV_WEIGHT. */
#pragma once

#include "base/everywhere.h"

#define LS_WINOGRAD_SIXTH      (-1.0f / 6.0f)
#define LS_WINOGRAD_PLUS_SIXTH (1.0f / 6.0f)
#define LS_WINOGRAD_THIRD      (1.0f / 3.0f)
#define LS_WINOGRAD_24TH       (1.0f / 24.0f)
#define LS_WINOGRAD_12TH       (1.0f / 12.0f)
#define LS_WINOGRAD_NINTHS     (-2.0f / 9.0f)
#define LS_WINOGRAD_90TH       (1.0f / 90.0f)
#define LS_WINOGRAD_45THS      (32.0f / 45.0f)

enum {
    LS_WINOGRAD_TILE = 7,   /* outputs on a side, at most */
    LS_WINOGRAD_WINDOW = 9, /* inputs on a side, at most */
    LS_WINOGRAD_PLACES = LS_WINOGRAD_WINDOW * LS_WINOGRAD_WINDOW,
    LS_WINOGRAD_DEPTH = 64, /* channels whose products are added before they join M */
    LS_WINOGRAD_RUN = 8,    /* tiles, at most, whose products are added before they join the sum */
};

/* What runs on a card knows constants of the card's alone. */
#ifdef __CUDA_ARCH__
#define LS_WINOGRAD_TABLE static __device__ const
#else
#define LS_WINOGRAD_TABLE static const
#endif

/* The points +-a of m = 7. With C(x^2) the product of x^2 - b^2 over the other pairs' b: odd are C's coefficients, even
 * a times them (those of x^6, 1 and a, are left out), weight 1, a and a^2 over 2 a C(a^2); power are those of a, from
 * the first on. */
typedef struct ls_winograd_pair {
    float a, weight[3], odd[3], even[3], power[6];
} ls_winograd_pair;

LS_WINOGRAD_TABLE ls_winograd_pair ls_winograd_pairs[4] = {
    {0.25f,
     {-32768.0f / 40425.0f, -8192.0f / 40425.0f, -2048.0f / 40425.0f},
     {-3.0284156799316406f, 9.39825439453125f, -6.80078125f},
     {-0.7571039199829102f, 2.3495635986328125f, -1.7001953125f},
     {0.25f, 0.0625f, 0.015625f, 0.00390625f, 0.0009765625f, 0.000244140625f}},
    {0.6875f,
     {134217728.0f / 275496375.0f, 8388608.0f / 25045125.0f, 5767168.0f / 25045125.0f},
     {-0.40045166015625f, 6.802734375f, -6.390625f},
     {-0.2753105163574219f, 4.6768798828125f, -4.3935546875f},
     {0.6875f, 0.47265625f, 0.324951171875f, 0.2234039306640625f, 0.15359020233154297f, 0.10559326410293579f}},
    {1.125f,
     {-4194304.0f / 34184997.0f, -524288.0f / 3798333.0f, -65536.0f / 422037.0f},
     {-0.1495513916015625f, 2.73876953125f, -5.59765625f},
     {-0.1682453155517578f, 3.08111572265625f, -6.29736328125f},
     {1.125f, 1.265625f, 1.423828125f, 1.601806640625f, 1.802032470703125f, 2.0272865295410156f}},
    {2.25f,
     {32768.0f / 12848625.0f, 8192.0f / 1427625.0f, 2048.0f / 158625.0f},
     {-0.037387847900390625f, 0.70684814453125f, -1.80078125f},
     {-0.0841226577758789f, 1.5904083251953125f, -4.0517578125f},
     {2.25f, 5.0625f, 11.390625f, 25.62890625f, 57.6650390625f, 129.746337890625f}},
};
/* The coefficients of the product of x^2 - a^2 over all pairs but the highest, 1. */
LS_WINOGRAD_TABLE float ls_winograd_last[4] = {0.18927597999572754f, -3.6158065795898438f, 9.82330322265625f,
                                               -6.86328125f};

/* Whether the operations are defined for such a convolution. */
LS_EVERYWHERE int ls_winograd_defined(int kernel, int stride, int padding)
{
    return kernel == 3 ? (stride == 1 || stride == 2) && padding == 1
                       : kernel == 5 && stride == 1 && padding >= 0 && padding < 5;
}

/* The products of a tile of m x m outputs, all phases together, for an output and a channel. */
LS_EVERYWHERE long ls_winograd_products(int kernel, int stride, int tile)
{
    const long places = stride == 2 ? 2 * tile + 1 : kernel + tile - 1;
    return places * places;
}

/* Outputs on a side of a tile, by the map of y or dy. Tiles of 7 must make less than four fifths of the products of
 * those of 4. */
LS_EVERYWHERE int ls_winograd_tile(int kernel, int stride, int h, int w)
{
    const long small = (long)((h + 3) / 4) * ((w + 3) / 4) * ls_winograd_products(kernel, stride, 4);
    const long large = (long)((h + 6) / 7) * ((w + 6) / 7) * ls_winograd_products(kernel, stride, 7);
    return kernel == 3 && 5 * large < 4 * small ? 7 : 4;
}

/* One dimension of a phase, of which there are as many as the stride: window i of the tile whose first output is number
 * t reads x at from + step * (t + i), its output i is y at to + spread * (t + i), and its tap i is the kernel's number
 * tap + tap_step * i. */
typedef struct ls_winograd_axis {
    int taps, tile, tap, tap_step;
    int from, step;
    int to, spread, size; /* size: outputs */
} ls_winograd_axis;

/* `size` is that of y, or of dx where that is what a gradient by tiles of dx writes. */
LS_EVERYWHERE ls_winograd_axis ls_winograd_axis_of(int kernel, int stride, int padding, int tile, int size, int is_data,
                                                   int phase)
{
    if (stride == 1)
        return (ls_winograd_axis){.taps = kernel,
                                  .tile = tile,
                                  .tap = is_data ? kernel - 1 : 0,
                                  .tap_step = is_data ? -1 : 1,
                                  .from = -padding,
                                  .step = 1,
                                  .spread = 1,
                                  .size = size};
    if (!is_data)
        return (ls_winograd_axis){.taps = 2 - phase,
                                  .tile = tile,
                                  .tap = phase,
                                  .tap_step = 2,
                                  .from = phase - padding,
                                  .step = 2,
                                  .spread = 1,
                                  .size = size};
    return (ls_winograd_axis){.taps = 2 - phase,
                              .tile = tile,
                              .tap = 2 - phase,
                              .tap_step = -2,
                              .step = 1,
                              .to = 1 - phase,
                              .spread = 2,
                              .size = (size + phase) / 2};
}

/* Tiles whose products of a weight's gradient are added before they join its sum. */
LS_EVERYWHERE int ls_winograd_run(int tile)
{
    return tile == 7 ? 4 : LS_WINOGRAD_RUN;
}
