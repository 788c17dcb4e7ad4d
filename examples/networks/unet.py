"""unet.c in PyTorch: a U-Net, small, which says for each place of a picture which mark is there."""
import argparse

import numpy as np
import torch
from safetensors.torch import save_file
from synthetic import KINDS, paint
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

SIDE, CLASSES, TEST = 32, KINDS + 1, 200


def two_convolutions(inputs, channels):
    return nn.Sequential(nn.Conv2d(inputs, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                         nn.Conv2d(channels, channels, 3, padding=1, bias=False), nn.BatchNorm2d(channels), nn.ReLU())


class Network(nn.Module):
    def __init__(self, channels=8):
        super().__init__()
        self.down1 = two_convolutions(1, channels)
        self.down2 = two_convolutions(channels, 2 * channels)
        self.bottom = two_convolutions(2 * channels, 4 * channels)
        self.up2 = nn.ConvTranspose2d(4 * channels, 2 * channels, 2, stride=2)
        self.right2 = two_convolutions(4 * channels, 2 * channels)
        self.up1 = nn.ConvTranspose2d(2 * channels, channels, 2, stride=2)
        self.right1 = two_convolutions(2 * channels, channels)
        self.out = nn.Conv2d(channels, CLASSES, 1)

    def forward(self, x):
        large = self.down1(x)
        middle = self.down2(F.max_pool2d(large, 2))
        small = self.bottom(F.max_pool2d(middle, 2))
        y = self.right2(torch.cat([middle, self.up2(small)], 1))
        y = self.right1(torch.cat([large, self.up1(y)], 1))
        return self.out(y)  # (images, classes, height, width)


def pictures(first, rows):
    images, places = zip(*(paint(first + i, 1 + i % 15, 1, SIDE) for i in range(rows)))
    return TensorDataset(torch.from_numpy(np.stack(images)).float() / 255, torch.from_numpy(np.stack(places)))


def loss(net, x, y):
    return F.cross_entropy(net(x), y)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("epochs", type=int, nargs="?", default=10)
    parser.add_argument("images", type=int, nargs="?", default=1000)
    parser.add_argument("file", nargs="?", default="unet.safetensors")
    a = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = DataLoader(pictures(0, a.images), batch_size=32, shuffle=True)
    test = DataLoader(pictures(a.images, TEST), batch_size=100)
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
            losses = [loss(net, x.to(device), y.to(device)).item() for x, y in test]
        print(f"epoch {epoch + 1}: test loss {np.mean(losses):.4f} a place")
    save_file(net.state_dict(), a.file)


if __name__ == "__main__":
    main()
