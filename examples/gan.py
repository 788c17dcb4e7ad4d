#!/usr/bin/env python3
"""What gan.c does, in PyTorch, with random numbers of its own. gan.py [EPOCHS [IMAGES]]: Fashion-MNIST is in $LOCKSTEP_DATA."""
import gzip
import os
import sys

import torch
import torch.nn.functional as F
from torch import nn

NOISE, BATCH, SIDE = 32, 128, 28


def read_images(count):
    path = os.path.join(os.environ["LOCKSTEP_DATA"], "train-images-idx3-ubyte")
    with open(path, "rb") if os.path.exists(path) else gzip.open(path + ".gz") as file:
        pixels = torch.frombuffer(bytearray(file.read()[16:]), dtype=torch.uint8)
    return pixels.reshape(-1, 1, SIDE, SIDE)[:count] / 255


def generator():
    return nn.Sequential(nn.Linear(NOISE, 16 * 7 * 7), nn.Unflatten(1, (16, 7, 7)), nn.ReLU(), nn.ConvTranspose2d(16, 8, 4, 2, 1), nn.ReLU(),
                         nn.ConvTranspose2d(8, 1, 4, 2, 1), nn.Sigmoid())


def discriminator():
    return nn.Sequential(nn.Conv2d(1, 8, 4, 2, 1), nn.LeakyReLU(0.2), nn.Conv2d(8, 16, 4, 2, 1), nn.LeakyReLU(0.2), nn.Flatten(),
                         nn.Linear(16 * 7 * 7, 1))


def optimizer(net):
    return torch.optim.Adam(net.parameters(), lr=0.001, betas=(0.5, 0.999))


def judged(D, pictures, real):
    logits = D(pictures)
    return F.binary_cross_entropy_with_logits(logits, torch.full_like(logits, real))


def take_step(G, D, g, d, images, z):
    made = G(z)
    of_d = (judged(D, images, 1) + judged(D, made.detach(), 0)) / 2
    d.zero_grad()  # G's backward pass has left gradients in D
    of_d.backward()
    d.step()
    of_g = judged(D, made, 1)
    g.zero_grad()
    of_g.backward()
    g.step()
    return of_d.item(), of_g.item()


def main(epochs, count):
    G, D = generator(), discriminator()
    for net in (G, D):
        for name, p in net.named_parameters():
            nn.init.zeros_(p) if name.endswith("bias") else nn.init.normal_(p, std=0.02)
    g, d = optimizer(G), optimizer(D)
    data = read_images(count)
    for epoch in range(epochs):
        losses = [take_step(G, D, g, d, data[rows], torch.randn(len(rows), NOISE)) for rows in torch.randperm(len(data)).split(BATCH)]
        print("epoch %d: loss of D %.3f, of G %.3f" % (epoch + 1, *(sum(l) / len(l) for l in zip(*losses))))


if __name__ == "__main__":
    main(*(int(a) for a in (sys.argv[1:] + ["3", "20000"][len(sys.argv) - 1:])))
