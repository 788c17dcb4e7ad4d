"""lstm.c in PyTorch: an LSTM that says how a point moves, from series of different lengths."""
import argparse

import numpy as np
import torch
from safetensors.torch import save_file
from synthetic import draw, move
from torch import nn
from torch.nn import functional as F
from torch.nn.utils.rnn import pack_padded_sequence
from torch.utils.data import DataLoader, TensorDataset

TOKENS, SHORTEST, FEATURES, WAYS, TEST = 32, 12, 2, 3, 400


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(FEATURES, 24, batch_first=True, bidirectional=True)
        self.out = nn.Linear(2 * 24, WAYS)

    def forward(self, x, lengths):
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        _, (h, _) = self.lstm(packed)
        return self.out(torch.cat([h[0], h[1]], 1))


def series(first, rows):
    lengths = [SHORTEST + int(draw(first + i, 3)) % (TOKENS - SHORTEST + 1) for i in range(rows)]
    places, ways = zip(*(move(first + i, TOKENS, lengths[i]) for i in range(rows)))
    return TensorDataset(torch.from_numpy(np.stack(places)), torch.tensor(lengths), torch.tensor(ways))


def loss(net, x, lengths, y):
    return F.cross_entropy(net(x, lengths), y)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("epochs", type=int, nargs="?", default=8)
    parser.add_argument("series", type=int, nargs="?", default=2000)
    parser.add_argument("file", nargs="?", default="lstm.safetensors")
    a = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    train = DataLoader(series(0, a.series), batch_size=64, shuffle=True)
    test = DataLoader(series(a.series, TEST), batch_size=200)
    net = Network().to(device)
    optimizer = torch.optim.Adam(net.parameters(), lr=0.005)
    for epoch in range(a.epochs):
        for x, lengths, y in train:
            optimizer.zero_grad()
            loss(net, x.to(device), lengths, y.to(device)).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1)
            optimizer.step()
        with torch.no_grad():
            right = sum((net(x.to(device), lengths).argmax(1).cpu() == y).sum().item() for x, lengths, y in test)
        print(f"epoch {epoch + 1}: test acc {right / TEST:.3f}")
    save_file(net.state_dict(), a.file)


if __name__ == "__main__":
    main()
