"""multilabel.c in PyTorch: pictures with several labels at once."""
import argparse

import numpy as np
import torch
from safetensors.torch import save_file
from synthetic import KINDS, paint
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

SIDE, CHANNELS, TEST = 24, 3, 400


def stage(inputs, channels):
    return nn.Sequential(nn.Conv2d(inputs, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                         nn.MaxPool2d(2))


class Network(nn.Sequential):
    def __init__(self):
        super().__init__(stage(CHANNELS, 16), stage(16, 32), stage(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten(),
                         nn.Linear(64, KINDS))


def pictures(first, rows):
    images = np.stack([paint(first + i, i % 16, CHANNELS, SIDE)[0] for i in range(rows)])
    there = np.arange(rows)[:, None] >> np.arange(KINDS) & 1
    return TensorDataset(torch.from_numpy(images).float() / 255, torch.from_numpy(there).float())


def loss(net, x, y):
    more = torch.tensor([1.0, 1, 2, 2], device=x.device)  # a cross or a ring that is not seen counts twice
    return F.binary_cross_entropy_with_logits(net(x), y, pos_weight=more)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("epochs", type=int, nargs="?", default=15)
    parser.add_argument("images", type=int, nargs="?", default=2000)
    parser.add_argument("file", nargs="?", default="multilabel.safetensors")
    a = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = DataLoader(pictures(0, a.images), batch_size=64, shuffle=True)
    test = DataLoader(pictures(a.images, TEST), batch_size=200)
    net = Network().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.005, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, a.epochs * len(train))
    for epoch in range(a.epochs):
        net.train()
        for x, y in train:
            optimizer.zero_grad()
            loss(net, x.to(device), y.to(device)).backward()
            optimizer.step()
            schedule.step()
        net.eval()
        with torch.no_grad():
            right = sum(((net(x.to(device)) > 0).cpu() == y).sum(0) for x, y in test)
        print(f"epoch {epoch + 1}: test acc", *(f"{share:.3f}" for share in (right / TEST).tolist()))
    save_file(net.state_dict(), a.file)


if __name__ == "__main__":
    main()
