/* Winograd F(4x4, 3x3) as an operation of its own: its transforms step by step, in the order that every backend keeps.
 * (Lavin, Gray: "Fast algorithms for convolutional neural networks", 2015; points 0, 1, -1, 2, -2.)
 *
 * Maps are cut into 4 x 4 output tiles, left to right, top to bottom; tile (ty, tx) reads the 6 x 6 inputs from row 4*ty - 1
 * and column 4*tx - 1, zero outside the map. Outputs outside the map are dropped.
 *
 * One-dimensional steps (all in single precision, fma where written):
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
 * In two dimensions the step runs down the columns first (over the row index, for each column), then along the rows.
 *
 * WINOGRAD: U from w[o][c]; for each of the 36 places: M = 0, then over channels c ascending M = fma(U, V, M); y = o + b
 * (nothing is added without a bias), then relu where fused.
 * WINOGRAD_DATA: the same with dy for x, the weights of (c, o) turned by 180 degrees (w[o][c][2-i][2-j]), over output channels
 * ascending, no bias, and no relu.
 * WINOGRAD_WEIGHT: E from the tiles of dy, zero outside the map, and V from those of x. The tiles of all groups, group by group
 * and in a map row by row, are cut into runs of 8. For each of the 36 places: M = 0; for each run: r = 0, over the run's tiles
 * and in a tile over its images r = fma(E, V, r); then M = M + r. dw from M, then dw + 0. Lanes without an image need no mask,
 * as with CONV_WEIGHT. */
#ifndef LS_DEVICE_WINOGRAD_H
#define LS_DEVICE_WINOGRAD_H

#define LS_WINOGRAD_SIXTH (-1.0f / 6.0f)
#define LS_WINOGRAD_24TH  (1.0f / 24.0f)
#define LS_WINOGRAD_12TH  (1.0f / 12.0f)

enum { LS_WINOGRAD_RUN = 8 }; /* tiles whose products are added before they join the sum */

#endif
