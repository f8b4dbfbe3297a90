"""The tutorial's language model with nn.TransformerEncoder, grown: transcripts of radio plays, bptt of 64, evaluation after each epoch."""
import math
import sys

import torch
from torch import nn

BPTT, BATCH = 64, 16
EVAL_BATCH = 16 if "--fixed" in sys.argv else 256
VOCABULARY = 9000


class Model(nn.Module):
    def __init__(self, width=256, heads=4, hidden=512, layers=4):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, width)
        layer = nn.TransformerEncoderLayer(width, heads, hidden, dropout=0.1)
        self.encoder = nn.TransformerEncoder(layer, layers, enable_nested_tensor=False)
        self.decoder = nn.Linear(width, VOCABULARY)
        position = torch.arange(512).unsqueeze(1)
        rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
        table = torch.zeros(512, 1, width)
        table[:, 0, 0::2], table[:, 0, 1::2] = torch.sin(position * rate), torch.cos(position * rate)
        self.register_buffer("table", table)
        self.width = width

    def forward(self, src):
        mask = nn.Transformer.generate_square_subsequent_mask(len(src), device=src.device)
        x = self.embedding(src) * math.sqrt(self.width) + self.table[: len(src)]
        return self.decoder(self.encoder(x, mask))


def batchify(stream, columns):
    rows = len(stream) // columns
    return stream[: rows * columns].view(columns, rows).t().contiguous()


def get_batch(source, k):
    n = min(BPTT, len(source) - 1 - k)
    return source[k:k + n].cuda(), source[k + 1:k + 1 + n].reshape(-1).cuda()


train_data = batchify(torch.randint(0, VOCABULARY, (BATCH * 520,)), BATCH)
val_data = batchify(torch.randint(0, VOCABULARY, (256 * 130,)), EVAL_BATCH)
model = Model().cuda()
criterion = nn.CrossEntropyLoss()
optimizer = torch.optim.SGD(model.parameters(), lr=5.0)


def train():
    model.train()
    for k in range(0, len(train_data) - 1, BPTT):
        data, targets = get_batch(train_data, k)
        loss = criterion(model(data).view(-1, VOCABULARY), targets)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        optimizer.step()
    return loss.item()


def evaluate(source):
    model.eval()
    total = 0.0
    with torch.no_grad():
        for k in range(0, min(len(source) - 1, BPTT * 6), BPTT):
            data, targets = get_batch(source, k)
            total += len(data) * criterion(model(data).view(-1, VOCABULARY), targets).item()
    return total / (len(source) - 1)


for epoch in range(2):
    print("epoch", epoch, "train", train(), "val", evaluate(val_data))
