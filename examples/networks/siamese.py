"""siamese.c in PyTorch: whether two pictures show the same kind of mark, by one tower for both."""
import argparse

import numpy as np
import torch
from safetensors.torch import save_file
from synthetic import KINDS, paint
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

SIDE, TEST = 24, 400


def stage(inputs, channels):
    return nn.Sequential(nn.Conv2d(inputs, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                         nn.MaxPool2d(2))


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = nn.Sequential(stage(1, 16), stage(16, 32), stage(32, 32), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.head = nn.Linear(32, 1)

    def forward(self, left, right):
        a = self.tower(left)
        b = self.tower(right)
        return self.head((a - b) ** 2)  # (images, 1)


def pictures(numbers, kinds):
    images = np.stack([paint(i, 1 << kind, 1, SIDE)[0] for i, kind in zip(numbers, kinds)])
    return torch.from_numpy(images).float() / 255


def pairs(first, rows):
    i = np.arange(rows)
    turn = i // KINDS % 6  # three times the same kind, then once each of the others
    left = pictures(2 * (first + i), i % KINDS)
    right = pictures(2 * (first + i) + 1, (i + np.where(turn < 3, 0, turn - 2)) % KINDS)
    return TensorDataset(left, right, torch.from_numpy(turn < 3).float()[:, None])


def loss(net, left, right, y):
    return F.binary_cross_entropy_with_logits(net(left, right), y)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("epochs", type=int, nargs="?", default=5)
    parser.add_argument("pairs", type=int, nargs="?", default=8000)
    parser.add_argument("file", nargs="?", default="siamese.safetensors")
    a = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = DataLoader(pairs(0, a.pairs), batch_size=64, shuffle=True)
    test = DataLoader(pairs(a.pairs, TEST), batch_size=200)
    net = Network().to(device)
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.005, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, a.epochs * len(train))
    for epoch in range(a.epochs):
        net.train()
        for batch in train:
            optimizer.zero_grad()
            loss(net, *(t.to(device) for t in batch)).backward()
            optimizer.step()
            schedule.step()
        net.eval()
        with torch.no_grad():
            right = sum(((net(left.to(device), other.to(device)) > 0).cpu() == y).sum().item() for left, other, y in test)
        print(f"epoch {epoch + 1}: test acc {right / TEST:.3f}")
    save_file(net.state_dict(), a.file)


if __name__ == "__main__":
    main()
