#!/usr/bin/env python3
"""Writes a small data set in Fashion-MNIST's four files: make_data.py DIRECTORY TRAIN TEST. Every image has a bright block
at its label's place and noise around it, from a fixed generator, so that a network learns it and every machine writes the
same bytes."""
import os
import struct
import sys


def generator(state):
    while True:
        state = (state * 6364136223846793005 + 1442695040888963407) % 2**64
        yield state >> 33


def write_part(directory, part, count, random):
    labels = bytes(next(random) % 10 for _ in range(count))
    images = bytearray()
    for label in labels:
        image = bytearray(next(random) % 64 for _ in range(28 * 28))
        top, left = 4 + 12 * (label // 5), 2 + 5 * (label % 5)
        for row in range(top, top + 8):
            for column in range(left, left + 4):
                image[28 * row + column] = 128 + next(random) % 128
        images += image
    with open(os.path.join(directory, part + "-images-idx3-ubyte"), "wb") as file:
        file.write(struct.pack(">4i", 2051, count, 28, 28) + images)
    with open(os.path.join(directory, part + "-labels-idx1-ubyte"), "wb") as file:
        file.write(struct.pack(">2i", 2049, count) + labels)


directory, train, test = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])
os.makedirs(directory, exist_ok=True)
random = generator(20240229)
write_part(directory, "train", train, random)
write_part(directory, "t10k", test, random)
