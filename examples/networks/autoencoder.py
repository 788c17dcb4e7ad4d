"""autoencoder.c in PyTorch: pictures drawn anew from a few numbers of each, by the encoder's weights transposed."""
import argparse

import numpy as np
import torch
from safetensors.torch import save_file
from synthetic import KINDS, paint
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

SIDE, MIDDLE, CODE, TEST = 24, 128, 16, 400
PLACES = SIDE * SIDE


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.outer = nn.Parameter(torch.empty(MIDDLE, PLACES))
        self.inner = nn.Parameter(torch.empty(CODE, MIDDLE))
        self.bias1 = nn.Parameter(torch.zeros(MIDDLE))
        self.bias2 = nn.Parameter(torch.zeros(CODE))
        self.bias3 = nn.Parameter(torch.zeros(MIDDLE))
        self.bias4 = nn.Parameter(torch.zeros(PLACES))
        nn.init.xavier_uniform_(self.outer)
        nn.init.xavier_uniform_(self.inner)

    def forward(self, x):
        code = F.linear(F.relu(F.linear(x, self.outer, self.bias1)), self.inner, self.bias2)  # (images, code)
        y = F.relu(code @ self.inner + self.bias3)
        return torch.sigmoid(y @ self.outer + self.bias4)  # (images, places)


def pictures(first, rows):
    images = np.stack([paint(first + i, 1 << i % KINDS, 1, SIDE)[0].ravel() for i in range(rows)])
    images = torch.from_numpy(images).float() / 255
    return TensorDataset(images, images)


def loss(net, x, y):
    return F.mse_loss(net(x), y)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("epochs", type=int, nargs="?", default=20)
    parser.add_argument("images", type=int, nargs="?", default=2000)
    parser.add_argument("file", nargs="?", default="autoencoder.safetensors")
    a = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = DataLoader(pictures(0, a.images), batch_size=64, shuffle=True)
    test = DataLoader(pictures(a.images, TEST), batch_size=200)
    net = Network().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.001)
    for epoch in range(a.epochs):
        for x, y in train:
            optimizer.zero_grad()
            loss(net, x.to(device), y.to(device)).backward()
            optimizer.step()
        with torch.no_grad():
            losses = [loss(net, x.to(device), y.to(device)).item() for x, y in test]
        print(f"epoch {epoch + 1}: test loss {np.mean(losses):.5f}")
    save_file(net.state_dict(), a.file)


if __name__ == "__main__":
    main()
