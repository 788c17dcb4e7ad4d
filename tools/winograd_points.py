#!/usr/bin/env python3
"""Factors of Winograd F(7x7, 3x3) for points in pairs +-a, and how much of single precision they lose.

    tools/winograd_points.py [a b c d]             the table of src/device/winograd.h; without points, for those that it has
    tools/winograd_points.py --check HEADER        whether HEADER has that table
    tools/winograd_points.py --search              the best of some thousands of points, by the error of 64 channels (needs NumPy)

All factors are computed as fractions (Toom and Cook: with p_i the points, input i meets the product of x - p_j over j != i, weight i
is g(p_i) over its value at p_i, output j is the sum of p_i^j times product i, and infinity adds the highest coefficient).
"""
import itertools
import re
import struct
import sys
from fractions import Fraction

POINTS = [Fraction(1, 4), Fraction(11, 16), Fraction(9, 8), Fraction(9, 4)]
TILE, TAPS = 7, 3


def times(polynomial, root):
    """polynomial(x) * (x - root), coefficients from the constant on."""
    shifted = [Fraction(0)] + polynomial
    return [s - root * p for s, p in zip(shifted, polynomial + [Fraction(0)])]


def product(roots):
    made = [Fraction(1)]
    for root in roots:
        made = times(made, root)
    return made


def pairs(points):
    """Of each pair: a, weight, odd, even and power; see ls_winograd_pair."""
    made = []
    for a in points:
        c = product([b * b for b in points if b != a])
        at = 2 * a * sum(x * a ** (2 * k) for k, x in enumerate(c))
        made.append([[a], [a**k / at for k in range(TAPS)], c[:3], [a * x for x in c[:3]], [a**k for k in range(1, TILE)]])
    return made, product([a * a for a in points])[:4]


def single(x):
    return struct.unpack("f", struct.pack("f", float(x)))[0]


def numbers(points):
    """All of the table's numbers, in order, as single precision."""
    rows, last = pairs(points)
    return [single(x) for row in rows for part in row for x in part] + [single(x) for x in last]


def table(points):
    rows, last = pairs(points)
    for row in rows:
        print("{" + ", ".join("{" + ", ".join(str(x) for x in part) + "}" if len(part) > 1 else str(part[0]) for part in row) + "}")
    print("last: " + ", ".join(map(str, last)))
    inexact = sum(Fraction(single(x)) != x for row in rows for part in row[2:] + row[:1] for x in part)
    print(f"{inexact} factors but the weights' are not exact in single precision")


def check(path):
    with open(path) as f:
        text = f.read()
    body = text[text.index("ls_winograd_pairs[4] = {"):text.index(";", text.index("ls_winograd_last[4] ="))]
    body = re.sub(r"\[4\]|static const float \w+|ls_winograd_pairs", "", re.sub(r"/\*.*?\*/", "", body, flags=re.S))
    found = []
    for over, under in re.findall(r"(-?[\d.]+(?:e-?\d+)?)f(?:\s*/\s*([\d.]+)f)?", body):
        found.append(single(single(float(over)) / single(float(under))) if under else single(float(over)))
    wanted = numbers(POINTS)
    off = [(f, w) for f, w in zip(found, wanted) if abs(f - w) > 1.3e-7 * abs(w)]
    if len(found) != len(wanted) or off:
        sys.exit(f"{path}: {len(found)} factors where there are {len(wanted)}; (found, wanted): {off}")
    print(f"{path}: {len(found)} factors as they should be")


def search():
    import numpy as np

    def matrices(points):
        roots = [s * a for a in points for s in (1, -1)]
        outputs = [[p**k for k in range(TILE)] for p in roots] + [[0] * (TILE - 1) + [1]]
        inputs, weights = [], []
        for i, p in enumerate(roots):
            c = product(roots[:i] + roots[i + 1:])
            at = sum(x * p**k for k, x in enumerate(c))
            inputs.append(c + [0])
            weights.append([p**k / at for k in range(TAPS)])
        return [np.array(m, dtype=np.float32) for m in
                (outputs, weights + [[0] * (TAPS - 1) + [1]], inputs + [product(roots)])]

    def turn(matrix, x, axis):  # one product and one rounded addition after another
        x = np.moveaxis(x, axis, 0)
        made = np.zeros((len(matrix),) + x.shape[1:], np.float32)
        for k in range(matrix.shape[1]):
            made = made + matrix[:, k].reshape((-1,) + (1,) * (x.ndim - 1)) * x[k]
        return np.moveaxis(made, 0, axis)

    def error(points, channels=64, tiles=32):
        rng, n = np.random.default_rng(1), TILE + TAPS - 1
        a, g, b = matrices(points)
        x = np.maximum(rng.standard_normal((channels, tiles, n, n)), 0).astype(np.float32)
        w = rng.uniform(-1, 1, (channels, TAPS, TAPS)).astype(np.float32)
        want = sum(np.einsum("c,ctij->tij", w[:, i, k].astype(float), x[:, :, i:i + TILE, k:k + TILE].astype(float))
                   for i in range(TAPS) for k in range(TAPS))
        u, v, m = turn(g, turn(g, w, 1), 2), turn(b, turn(b, x, 2), 3), np.zeros((tiles, n, n), np.float32)
        for c in range(channels):
            m = (m + u[c].astype(float) * v[c].astype(float)).astype(np.float32)
        got = turn(a.T, turn(a.T, m, 1), 2)
        return np.linalg.norm(got - want) / np.linalg.norm(want)

    choices = [[Fraction(k, 16) for k in ks] for ks in ((3, 4, 5), (9, 10, 11, 12), (16, 17, 18, 19, 20), (30, 32, 34, 36, 40))]
    for off, points in sorted((error(p), p) for p in itertools.product(*choices))[:10]:
        print(f"{off:.2e}", *points)
    print(f"{error(POINTS):.2e} those of the header")


def main():
    given = sys.argv[1:]
    if given[:1] == ["--check"] and len(given) == 2:
        check(given[1])
    elif given == ["--search"]:
        search()
    elif len(given) in (0, 4) and not any(g.startswith("-") for g in given):
        table([Fraction(g) for g in given] or POINTS)
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
