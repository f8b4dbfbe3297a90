"""A language model of two LSTM layers, which cuDNN computes as one node: 20 steps of SGD."""
import torch
import torch.nn as nn
import torch.nn.functional as F

VOCABULARY, WIDTH, BATCH, LENGTH = 2048, 256, 16, 64


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.embed, self.rnn = nn.Embedding(VOCABULARY, WIDTH), nn.LSTM(WIDTH, WIDTH, 2, batch_first=True)
        self.head = nn.Linear(WIDTH, VOCABULARY)

    def forward(self, tokens):
        hidden, _ = self.rnn(self.embed(tokens))
        return self.head(hidden)


model = Model().cuda()
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
for _ in range(20):
    tokens = torch.zeros(BATCH, LENGTH, dtype=torch.long, device="cuda")
    loss = F.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
