"""Sorts petitions by ministry with a network over characters. Texts in a batch are filled up to the longest one of the batch."""
import sys

import torch
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

LONGEST = 1500 if "--fixed" in sys.argv else 10 ** 9
CHARACTERS, MINISTRIES, BATCH = 200, 14, 16


def petitions():
    """Numbers of characters; most petitions are short, and a few quote whole statutes."""
    generator = torch.Generator().manual_seed(21)
    for n in range(BATCH * 14):
        length = int(torch.randint(400, 1500, (1,), generator=generator))
        if n == BATCH * 8 + 5:
            length = 9800
        yield torch.randint(1, CHARACTERS, (length,), generator=generator), n % MINISTRIES


def collate(rows):
    texts = [text[:LONGEST] for text, _ in rows]
    return pad_sequence(texts, batch_first=True), torch.tensor([label for _, label in rows])


class Highway(nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = nn.Conv1d(width, 2 * width, 5, padding=2)
        self.norm = nn.GroupNorm(8, width)

    def forward(self, x):
        value, gate = self.conv(self.norm(x)).chunk(2, 1)
        gate = torch.sigmoid(gate)
        return gate * torch.relu(value) + (1 - gate) * x


class CharacterNet(nn.Module):
    def __init__(self, width=192, depth=5):
        super().__init__()
        self.table = nn.Embedding(CHARACTERS, width, padding_idx=0)
        self.layers = nn.Sequential(*(Highway(width) for _ in range(depth)))
        self.dropout = nn.Dropout(0.2)
        self.head = nn.Linear(width, MINISTRIES)

    def forward(self, text):
        x = self.layers(self.table(text).transpose(1, 2))
        return self.head(self.dropout(x.amax(2)))


loader = DataLoader(list(petitions()), batch_size=BATCH, collate_fn=collate)
net = CharacterNet().to("cuda")
optimizer = torch.optim.RMSprop(net.parameters(), lr=5e-4)
for step, (text, ministry) in enumerate(loader):
    logits = net(text.to("cuda"))
    loss = nn.functional.cross_entropy(logits, ministry.to("cuda"), label_smoothing=0.05)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print("step", step, "loss", round(loss.item(), 4))
