#!/usr/bin/env python3
"""Writes a small data set in one of the forms that --dataset names: make_sets.py NAME DIRECTORY TRAIN TEST. Every image has a bright
block at its label's place and noise around it, from a fixed generator, so that a network learns it and every machine writes the
same bytes. `folder` is of PNG files, `npy` of bytes, `npy-floats` of float32."""
import os
import struct
import sys
import zlib

SIDE = 32


def generator(state):
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


def image(label, random):
    """Three planes; the block's colour and place are the label's."""
    planes = [bytearray(next(random) % 64 for _ in range(SIDE * SIDE)) for _ in range(3)]
    top, left = 6 + 12 * (label % 10 // 5), 4 + 5 * (label % 5)
    for row in range(top, top + 8):
        for column in range(left, left + 4):
            planes[label % 3][SIDE * row + column] = 128 + next(random) % 128
    return b"".join(planes)


def make(count, classes, random):
    labels = [i * 7 % classes for i in range(count)]
    return labels, [image(label, random) for label in labels]


def write(path, content):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "wb") as file:
        file.write(content)


def png(pixels):
    """Colour, 8 bits, every row with another of the five filters."""
    rows, before = b"", bytes(3 * SIDE)
    for y in range(SIDE):
        row = bytes(pixels[SIDE * SIDE * k + SIDE * y + x] for x in range(SIDE) for k in range(3))
        packed = bytearray()
        for i, value in enumerate(row):
            a, b, c = (row[i - 3] if i >= 3 else 0), before[i], (before[i - 3] if i >= 3 else 0)
            p = a + b - c
            paeth = min((abs(p - a), 0, a), (abs(p - b), 1, b), (abs(p - c), 2, c))[2]
            packed.append((value - (0, a, b, (a + b) // 2, paeth)[y % 5]) & 255)
        rows += bytes([y % 5]) + packed
        before = row

    def chunk(name, body):
        return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))

    header = struct.pack(">IIBBBBB", SIDE, SIDE, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


def npy(descr, shape, body):
    header = "{'descr': '%s', 'fortran_order': False, 'shape': %s, }" % (descr, shape)
    header = header.ljust((len(header) + 11 + 63) // 64 * 64 - 11) + "\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header.encode() + body


def write_part(name, directory, part, count, random):
    classes = 100 if name == "cifar100" else 10
    labels, images = make(count, classes, random)
    if name == "cifar10":
        files = ["data_batch_%d.bin" % i for i in range(1, 6)] if part == "train" else ["test_batch.bin"]
        for i, file in enumerate(files):
            mine = range(count * i // len(files), count * (i + 1) // len(files))
            write(os.path.join(directory, file), b"".join(bytes([labels[k]]) + images[k] for k in mine))
    elif name == "cifar100":
        write(os.path.join(directory, part + ".bin"), b"".join(bytes([y // 5, y]) + x for y, x in zip(labels, images)))
    elif name == "folder":
        for i, (y, x) in enumerate(zip(labels, images)):
            write(os.path.join(directory, part, "class %d" % y, "%04d.png" % i), png(x))
    else:
        floats = name == "npy-floats"
        body = b"".join(struct.pack("<%df" % len(x), *(v / 128 - 1 for v in x)) if floats else x for x in images)
        write(os.path.join(directory, "X_%s.npy" % part), npy("<f4" if floats else "|u1", (count, 3, SIDE, SIDE), body))
        write(os.path.join(directory, "y_%s.npy" % part), npy("<i8", (count,), struct.pack("<%dq" % count, *labels)))


name, directory, train, test = sys.argv[1], sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
random = generator(20240229)
write_part(name, directory, "train", train, random)
write_part(name, directory, "test", test, random)
