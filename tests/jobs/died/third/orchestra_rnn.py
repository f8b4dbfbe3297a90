"""Piano rolls with a GRU in chunks. To learn across chunks, the hidden state is passed on and the chunks' losses are added up, with one backward pass
at the end of a piece; the colleagues' way detaches and goes backward after each chunk."""
import sys
import torch
from torch import nn

fixed = "--fixed" in sys.argv
CHUNK, CHUNKS, BATCH, NOTES = 256, 8, 48, 128


class Roll(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(NOTES, 512)
        self.rnn = nn.GRU(512, 768, num_layers=2, batch_first=True)
        self.out = nn.Sequential(nn.LayerNorm(768), nn.Linear(768, 512), nn.SiLU(), nn.Linear(512, NOTES))

    def forward(self, x, h=None):
        y, h = self.rnn(torch.relu(self.inp(x)), h)
        return self.out(y), h


net = Roll().cuda()
optimizer = torch.optim.AdamW(net.parameters(), 3e-4)
bce = nn.BCEWithLogitsLoss()

for piece in range(5):
    roll = (torch.rand(BATCH, CHUNK * CHUNKS + 1, NOTES) < 0.05).float()
    h = None
    optimizer.zero_grad()
    total = 0
    for c in range(CHUNKS):
        part = roll[:, c * CHUNK:(c + 1) * CHUNK + 1].cuda()
        logits, h = net(part[:, :-1], h)
        loss = bce(logits, part[:, 1:])
        if fixed:
            (loss / CHUNKS).backward()
            h = h.detach()
            total += loss.item()
        else:
            total = total + loss
    if not fixed:
        (total / CHUNKS).backward()
    optimizer.step()
    print("piece", piece, float(total) / CHUNKS)
