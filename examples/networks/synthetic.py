"""What the networks of this folder learn from, by the formulas of synthetic.h, number by number."""
import numpy as np

KINDS = 4  # of marks on pictures: a square, a disc, a cross, a ring


def draw(example, what):
    """Random numbers of an example, below 2**32."""
    x = (np.uint64(example * 4096 + 1) + np.asarray(what, np.uint64)) * np.uint64(2654435761) & np.uint64(0xFFFFFFFF)
    x = (x ^ x >> np.uint64(15)) * np.uint64(2246822519) & np.uint64(0xFFFFFFFF)
    return (x ^ x >> np.uint64(13)).astype(np.int64)


def covers(kind, x, y, radius):
    distance, square = x * x + y * y, radius * radius
    inside = (abs(x) <= radius) & (abs(y) <= radius)
    return (inside, distance <= square, inside & ((abs(x) <= radius // 3) | (abs(y) <= radius // 3)),
            (distance <= square) & (3 * distance >= square))[kind]


def paint(i, kinds, channels, side):
    """Picture i, bytes (channels, side, side), with a mark of each kind whose bit is set, and its places (side, side)."""
    rows, columns = np.indices((side, side))
    found = np.zeros((side, side), np.int64)
    for k in range(KINDS):
        radius = side // 8 + draw(i, 3 * k) % (side // 8)
        x, y = (radius + draw(i, 3 * k + more) % (side - 2 * radius) for more in (1, 2))
        if kinds >> k & 1:
            found[covers(k, columns - x, rows - y, radius)] = k + 1
    noise = draw(i, 16 + np.arange(channels * side * side)).reshape(channels, side, side) % 128
    colour = 64 + draw(i, 4000 + found * 4 + np.arange(channels)[:, None, None]) % 64
    return (noise + np.where(found, colour, 0)).astype(np.uint8), found


def move(i, tokens, length):
    """Series i, (tokens, 2), zeros behind the length, and which of the three ways it goes."""
    way = int(draw(i, 0) % 3)
    phase, speed = draw(i, 1) % 628 / 100, 0.2 + draw(i, 2) % 100 / 200
    angle = phase + speed * np.arange(tokens) * (-1 if way == 1 else 1)
    places = np.stack([np.zeros(tokens) if way == 2 else np.cos(angle), np.sin(angle)], 1)
    series = places + draw(i, 16 + np.arange(tokens * 2)).reshape(tokens, 2) % 1000 / 1000 - 0.5
    series[length:] = 0
    return series.astype(np.float32), way
