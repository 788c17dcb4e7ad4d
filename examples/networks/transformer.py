"""transformer.c in PyTorch: a text's next character, learnt by a transformer."""
import argparse

import numpy as np
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, TensorDataset

TOKENS, SYMBOLS, STEP = 64, 128, 16


class Block(nn.Module):
    def __init__(self, features, heads):
        super().__init__()
        self.norm1 = nn.LayerNorm(features)
        self.attention = nn.MultiheadAttention(features, heads, batch_first=True)
        self.norm2 = nn.LayerNorm(features)
        self.mlp = nn.Sequential(nn.Linear(features, 4 * features), nn.GELU(), nn.Linear(4 * features, features))

    def forward(self, x):
        y = self.norm1(x)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device, dtype=x.dtype)
        x = x + self.attention(y, y, y, attn_mask=mask, is_causal=True, need_weights=False)[0]
        return x + self.mlp(self.norm2(x))


class Network(nn.Module):
    def __init__(self, tokens=TOKENS, features=64, heads=4, layers=2):
        super().__init__()
        self.table = nn.Parameter(torch.empty(SYMBOLS, features))
        self.places = nn.Parameter(torch.empty(tokens, features))
        self.blocks = nn.Sequential(*[Block(features, heads) for _ in range(layers)])
        self.norm = nn.LayerNorm(features)
        for p in self.parameters():
            if p.dim() > 1:
                nn.init.normal_(p, std=0.05)

    def forward(self, ids):
        x = self.blocks(F.embedding(ids, self.table) + self.places)
        return F.linear(self.norm(x), self.table)  # (images, tokens, symbols)


def windows(text):
    symbols = torch.from_numpy(np.frombuffer(text, np.uint8) & 127).long()
    rows = symbols.unfold(0, TOKENS + 1, STEP)
    return TensorDataset(rows[:, :-1], rows[:, 1:])


def loss(net, x, y):
    return F.cross_entropy(net(x).transpose(1, 2), y)


@torch.no_grad()
def write_on(net, text, length, device):
    ids = list(text[-TOKENS:])
    for _ in range(length):
        logits = net(torch.tensor([ids[-TOKENS:]], device=device))[0, -1]
        ids.append(torch.multinomial(logits.softmax(0), 1).item())
    return bytes(ids[TOKENS:]).decode("ascii")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("epochs", type=int, nargs="?", default=6)
    parser.add_argument("length", type=int, nargs="?", default=300)
    parser.add_argument("text", nargs="?", default="/usr/share/common-licenses/GPL-3")
    parser.add_argument("file", nargs="?", default="transformer.safetensors")
    a = parser.parse_args()
    device = "cuda" if torch.cuda.is_available() else "cpu"
    with open(a.text, "rb") as f:
        text = f.read()
    border = len(text) * 9 // 10
    train = DataLoader(windows(text[:border]), batch_size=32, shuffle=True)
    test = DataLoader(windows(text[border:]), batch_size=32)
    net = Network().to(device)
    vectors = [p for p in net.parameters() if p.dim() == 1]
    others = [p for p in net.parameters() if p.dim() > 1]
    optimizer = torch.optim.AdamW([{"params": others}, {"params": vectors, "weight_decay": 0}], lr=0.003, weight_decay=0.1)
    for epoch in range(a.epochs):
        for x, y in train:
            optimizer.zero_grad()
            loss(net, x.to(device), y.to(device)).backward()
            nn.utils.clip_grad_norm_(net.parameters(), 1)
            optimizer.step()
        with torch.no_grad():
            losses = [loss(net, x.to(device), y.to(device)).item() for x, y in test]
        print(f"epoch {epoch + 1}: test loss {np.mean(losses):.3f} a character")
    print(write_on(net, text, a.length, device))
    save_file(net.state_dict(), a.file)


if __name__ == "__main__":
    main()
