"""Image captioning with a recurrent decoder: the scores of all time steps are collected in one tensor.

https://github.com/NVIDIA/Megatron-LM/issues/92
"""
import argparse

import torch
import torch.nn as nn
import torch.nn.functional as F


class Decoder(nn.Module):
    def __init__(self, vocab, width=512, encoded=1024):
        super().__init__()
        self.vocab = vocab
        self.embedding = nn.Embedding(vocab, width)
        self.init_h, self.init_c = nn.Linear(encoded, width), nn.Linear(encoded, width)
        self.cell = nn.LSTMCell(width + encoded, width)
        self.fc = nn.Linear(width, vocab)

    def forward(self, features, captions):
        h, c = self.init_h(features), self.init_c(features)
        predictions = torch.zeros(len(features), captions.shape[1] - 1, self.vocab, device=features.device)
        for t in range(captions.shape[1] - 1):
            h, c = self.cell(torch.cat([self.embedding(captions[:, t]), features], 1), (h, c))
            predictions[:, t] = self.fc(F.dropout(h, 0.5, self.training))
        return predictions

    def loss(self, features, captions):
        h, c = self.init_h(features), self.init_c(features)
        states = []
        for t in range(captions.shape[1] - 1):
            h, c = self.cell(torch.cat([self.embedding(captions[:, t]), features], 1), (h, c))
            states.append(h)
        states, targets, total = torch.stack(states, 1).flatten(0, 1), captions[:, 1:].flatten(), 0.0
        for s, t in zip(states.split(512), targets.split(512)):
            total = total + torch.utils.checkpoint.checkpoint(self.piece, s, t, use_reentrant=False)
        return total / len(targets)

    def piece(self, s, t):
        return F.cross_entropy(self.fc(s), t, reduction="sum")


parser = argparse.ArgumentParser()
parser.add_argument("--vocab", type=int, default=60000)
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
decoder = Decoder(args.vocab).cuda()
optimizer = torch.optim.Adam(decoder.parameters(), lr=4e-4)
for i in range(5):
    features, captions = torch.randn(128, 1024, device="cuda"), torch.randint(0, args.vocab, (128, 21), device="cuda")
    if args.fixed:
        loss = decoder.loss(features, captions)
    else:
        loss = F.cross_entropy(decoder(features, captions).flatten(0, 1), captions[:, 1:].flatten())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(i, loss.item())
