import sys, torch
from torch import nn
# Next-note model for organ music. A piece is 64 bars of 96 ticks, the state of the GRU goes on through the piece.

KEYS, HID, BARS, TICKS = 61, 512, 64, 96
truncated = '--fixed' in sys.argv

class Organist(nn.Module):
    def __init__(self):
        super().__init__()
        self.inp = nn.Linear(KEYS, HID)
        self.cell = nn.GRU(HID, HID, num_layers=2, batch_first=True)
        self.out = nn.Linear(HID, KEYS)
    def forward(self, notes, state=None):
        y, state = self.cell(torch.relu(self.inp(notes)), state)
        return self.out(torch.relu(y)), state

def piece(seed, players=16):
    g = torch.Generator().manual_seed(seed)
    return (torch.rand(players, BARS * TICKS // 16, KEYS, generator=g) < 0.05).float().repeat(1, 16, 1)

net = Organist().cuda()
adam = torch.optim.Adam(net.parameters(), lr=1e-3)
criterion = nn.BCEWithLogitsLoss()

for number in range(3):
    music = piece(number)
    state = None
    adam.zero_grad()
    loss, heard = 0., 0
    for bar in range(BARS - 1):
        a = bar * TICKS
        x, y = music[:, a:a + TICKS].cuda(), music[:, a + 1:a + TICKS + 1].cuda()
        logits, state = net(x, state)
        if truncated:
            part = criterion(logits, y) / BARS
            part.backward()
            state = state.detach()
            loss += part.item()
        else:
            loss = loss + criterion(logits, y) / BARS
        heard += 1
    if not truncated:
        loss.backward()
        loss = loss.item()
    nn.utils.clip_grad_norm_(net.parameters(), 1.)
    adam.step()
    print('piece', number, 'bars', heard, 'loss', loss)
