"""Sorts news headlines with a bidirectional LSTM; prints training and validation loss after each epoch, as the text classification tutorial does."""
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader

FIXED = "--fixed" in sys.argv
VOCAB, EMBED, HIDDEN, CLASSES, PAD = 12000, 200, 384, 4, 0
device = torch.device("cuda")


class TextModel(nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = nn.Embedding(VOCAB, EMBED, padding_idx=PAD)
        self.lstm = nn.LSTM(EMBED, HIDDEN, num_layers=2, batch_first=True, bidirectional=True, dropout=0.3)
        self.attention = nn.Linear(2 * HIDDEN, 1)
        self.classifier = nn.Sequential(nn.Dropout(0.3), nn.Linear(2 * HIDDEN, 128), nn.ReLU(), nn.Linear(128, CLASSES))

    def forward(self, tokens):
        states, _ = self.lstm(self.embedding(tokens))
        weights = self.attention(states).squeeze(-1).masked_fill(tokens == PAD, -1e4).softmax(-1)
        return self.classifier(torch.einsum("bt,btd->bd", weights, states))


def articles(n, seed):
    generator = torch.Generator().manual_seed(seed)
    return [(torch.randint(1, VOCAB, (90,), generator=generator), k % CLASSES) for k in range(n)]


def collate(rows):
    tokens, labels = zip(*rows)
    return pad_sequence(tokens, batch_first=True, padding_value=PAD), torch.tensor(labels)


train_loader = DataLoader(articles(640, 1), batch_size=64, shuffle=True, collate_fn=collate)
valid_loader = DataLoader(articles(768, 2), batch_size=64, collate_fn=collate)
model = TextModel().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)


def train():
    model.train()
    epoch_loss = 0
    for tokens, labels in train_loader:
        tokens, labels = tokens.to(device), labels.to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(model(tokens), labels)
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        epoch_loss += loss.item()
    return epoch_loss / len(train_loader)


def evaluate(loader):
    epoch_loss = 0
    for tokens, labels in loader:
        tokens, labels = tokens.to(device), labels.to(device)
        loss = F.cross_entropy(model(tokens), labels)
        if FIXED:
            epoch_loss += loss.item()
        else:
            epoch_loss += loss
    return float(epoch_loss) / len(loader)


for epoch in range(2):
    started = time.time()
    train_loss = train()
    valid_loss = evaluate(valid_loader)
    print("| epoch %d | %.1f s | train %.3f | valid %.3f" % (epoch, time.time() - started, train_loss, valid_loss))
