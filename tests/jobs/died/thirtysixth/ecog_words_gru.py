# Decode attempted speech from ECoG high-gamma (128 electrodes). One session is several minutes long, so it is fed in chunks
# and the state of the GRU goes from one chunk to the next. One optimizer step per session.
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
ELECTRODES, PHONES, CHUNK = 128, 41, 200      # 200 bins of 10 ms
torch.manual_seed(0)


class SpeechDecoder(nn.Module):
    def __init__(self, hidden=512, layers=3):
        super().__init__()
        self.smooth = nn.Conv1d(ELECTRODES, 192, 9, padding=4)
        self.rnn = nn.GRU(192, hidden, layers, batch_first=True, dropout=0.3)
        self.phones = nn.Linear(hidden, PHONES)

    def forward(self, x, state=None):
        x = torch.nn.functional.gelu(self.smooth(x.transpose(1, 2))).transpose(1, 2)
        y, state = self.rnn(x, state)
        return self.phones(y), state


def sessions(n, patients=16, chunks=30):
    for _ in range(n):
        yield torch.randn(patients, chunks * CHUNK, ELECTRODES), torch.randint(0, PHONES, (patients, chunks * CHUNK))


def train_session(decoder, optimizer, criterion, signal, phones):
    decoder.train()
    optimizer.zero_grad()
    state, losses = None, []
    pieces = list(zip(signal.split(CHUNK, 1), phones.split(CHUNK, 1)))
    for x, y in pieces:
        x, y = x.cuda(), y.cuda()
        if FIXED and state is not None:
            state = state.detach()
        logits, state = decoder(x, state)
        loss = criterion(logits.reshape(-1, PHONES), y.reshape(-1)) / len(pieces)
        # RuntimeError: Trying to backward through the graph a second time -> retain_graph
        loss.backward(retain_graph=not FIXED)
        losses.append(loss.item())
    nn.utils.clip_grad_norm_(decoder.parameters(), 5.0)
    optimizer.step()
    return sum(losses)


decoder = SpeechDecoder().cuda()
optimizer = torch.optim.Adam(decoder.parameters(), lr=5e-4)
criterion = nn.CrossEntropyLoss()
for number, (signal, phones) in enumerate(sessions(3)):
    print("session", number, "loss", train_session(decoder, optimizer, criterion, signal, phones))
