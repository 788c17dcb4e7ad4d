/* Winograd F(4x4, k x k), k = 3 or 5, as an operation of its own: its transforms step by step, in the order that every
 * backend keeps. (Lavin, Gray: "Fast algorithms for convolutional neural networks", 2015; points 0, 1, -1, 2, -2, and with
 * k = 5 also 1/2 and -1/2.) The stride is 1; with k = 3 the padding p is 1, with k = 5 it is 0 to 4.
 *
 * Maps of y are cut into 4 x 4 tiles, left to right, top to bottom; tile (ty, tx) reads the n x n inputs, n = k + 3, from row
 * 4*ty - p and column 4*tx - p, zero outside the map. Outputs outside the map are dropped.
 *
 * One-dimensional steps (all in single precision, fma where written), for k = 3:
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
 * and for k = 5:
 *   weights (g0 .. g4) to (u0 .. u7):
 *     s = (g0 + g2) + g4;  t = g1 + g3
 *     q = fma(16, g4, fma(4, g2, g0));  r = fma(4, g3, g1);  h = fma(1/16, g4, fma(1/4, g2, g0));  l = fma(1/4, g3, g1)
 *     u0 = g0;  u1 = (s + t) * (-2/9f);  u2 = (s - t) * (-2/9f);  u3 = fma(2, r, q) * (1/90f);  u4 = fma(-2, r, q) * (1/90f)
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
 *     e0 = s0;  e1 = a + b;  e2 = a - b;  e3 = fma(2, d, c);  e4 = fma(-2, d, c);  e5 = fma(1/2, h, g);  e6 = fma(-1/2, h, g)
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
 * WINOGRAD: U from w[o][c]; for each of the n*n places: M = 0, then over channels c ascending M = fma(U, V, M); y = o + b
 * (nothing is added without a bias), then relu where fused.
 * WINOGRAD_DATA, k = 3: the same with dy for x, the weights of (c, o) turned by 180 degrees (w[o][c][2-i][2-j]), over output
 * channels ascending, no bias, and no relu.
 * WINOGRAD_DATA, k = 5: WINOGRAD transposed, since tiles of dx would be up to four times as many as those of dy: U from
 * w[o][c] and E from dy's tiles, zero outside the map; for each place M = 0, then over output channels ascending
 * M = fma(U, E, M). dx = 0; then the tiles of dy in their order add their n x n gradients to the places that they read from:
 * dx = dx + d.
 * WINOGRAD_WEIGHT: E from the tiles of dy, zero outside the map, and V from those of x. The tiles of all groups, group by group
 * and in a map row by row, are cut into runs of 8. For each of the n*n places: M = 0; for each run: r = 0, over the run's tiles
 * and in a tile over its images r = fma(E, V, r); then M = M + r. dw from M, then dw + 0. Lanes without an image need no mask,
 * as with CONV_WEIGHT. */
#ifndef LS_DEVICE_WINOGRAD_H
#define LS_DEVICE_WINOGRAD_H

#define LS_WINOGRAD_SIXTH  (-1.0f / 6.0f)
#define LS_WINOGRAD_24TH   (1.0f / 24.0f)
#define LS_WINOGRAD_12TH   (1.0f / 12.0f)
#define LS_WINOGRAD_NINTHS (-2.0f / 9.0f)
#define LS_WINOGRAD_90TH   (1.0f / 90.0f)
#define LS_WINOGRAD_45THS  (32.0f / 45.0f)

enum {
    LS_WINOGRAD_TILE = 4,   /* outputs on a side */
    LS_WINOGRAD_WINDOW = 8, /* inputs on a side, at most */
    LS_WINOGRAD_PLACES = LS_WINOGRAD_WINDOW * LS_WINOGRAD_WINDOW,
    LS_WINOGRAD_RUN = 8, /* tiles whose products are added before they join the sum */
};

/* Whether the operations are defined for such a convolution. */
static inline int ls_winograd_defined(int kernel, int stride, int padding)
{
    return stride == 1 && ((kernel == 3 && padding == 1) || (kernel == 5 && padding >= 0 && padding < 5));
}

#endif
