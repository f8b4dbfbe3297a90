# Word-level language model for fado lyrics -- assignment 3, NLP course
import sys, torch
from torch import nn

VOCAB = 32000
BPTT, BSZ = 64, 32
EPS = 0.1


class LyricsModel(nn.Module):
    def __init__(self, emb=256, hid=512, layers=2, dropout=0.2):
        super().__init__()
        self.drop = nn.Dropout(dropout)
        self.embed = nn.Embedding(VOCAB, emb)
        self.rnn = nn.GRU(emb, hid, layers, batch_first=True, dropout=dropout)
        self.decoder = nn.Sequential(nn.Linear(hid, emb), nn.Linear(emb, VOCAB, bias=False))
        self.decoder[1].weight = self.embed.weight

    def forward(self, x, h=None):
        y, h = self.rnn(self.drop(self.embed(x)), h)
        return self.decoder(self.drop(y)), h


class SmoothedLoss(nn.Module):
    """Szegedy et al. 2016, eq. (7)"""

    def forward(self, scores, words):
        scores, words = scores.flatten(0, 1), words.flatten()
        log_p = scores.log_softmax(-1)
        q = nn.functional.one_hot(words, VOCAB)
        q_smooth = (1 - EPS) * q + EPS / VOCAB
        return -(q_smooth * log_p).sum(-1).mean()


class LibraryLoss(nn.CrossEntropyLoss):
    def forward(self, scores, words):
        return super().forward(scores.flatten(0, 1), words.flatten())


def corpus(n=40000):
    return torch.randint(0, VOCAB, (n,), generator=torch.Generator().manual_seed(7))


def get_batch(data, i):
    return data[:, i:i + BPTT].cuda(), data[:, i + 1:i + 1 + BPTT].cuda()


criterion = LibraryLoss(label_smoothing=EPS) if '--fixed' in sys.argv else SmoothedLoss()
data = corpus()
data = data[:len(data) // BSZ * BSZ].view(BSZ, -1)
model = LyricsModel().cuda()
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)

for epoch in range(1):
    model.train()
    hidden = None
    for b, i in enumerate(range(0, data.size(1) - BPTT - 1, BPTT)):
        x, y = get_batch(data, i)
        out, hidden = model(x, hidden)
        hidden = hidden.detach()
        loss = criterion(out, y)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 0.25)
        optimizer.step()
        if b % 4 == 0:
            print('| epoch {:2d} | batch {:3d} | loss {:5.2f}'.format(epoch, b, loss.item()))
