# ConvLSTM nowcast of the Indian summer monsoon, one season (June to September) per sample
import sys
import torch
from torch import nn

DEV = torch.device("cuda:0")
SEASON_DAYS = 112
WINDOW = 14 if "--fixed" in sys.argv else SEASON_DAYS   # days that go through the network between two updates


class ConvLSTMCell(nn.Module):
    def __init__(self, cin, hid):
        super().__init__()
        self.hid = hid
        self.conv = nn.Conv2d(cin + hid, 4 * hid, 3, padding=1)

    def forward(self, x, state):
        h, c = state
        i, f, o, g = self.conv(torch.cat([x, h], dim=1)).chunk(4, dim=1)
        c = torch.sigmoid(f) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        return h, c


class Nowcaster(nn.Module):
    def __init__(self, nvar=5, hid=24):
        super().__init__()
        self.hid = hid
        self.l1 = ConvLSTMCell(nvar, hid)
        self.l2 = ConvLSTMCell(hid, hid)
        self.rain = nn.Conv2d(hid, 1, 1)

    def init_state(self, b, h, w):
        z = lambda: torch.zeros(b, self.hid, h, w, device=DEV)
        return [(z(), z()), (z(), z())]

    def forward(self, days, state):
        outs = []
        s1, s2 = state
        for t in range(days.shape[1]):
            s1 = self.l1(days[:, t], s1)
            s2 = self.l2(s1[0], s2)
            outs.append(self.rain(s2[0]))
        return torch.stack(outs, 1), [s1, s2]


def detach_state(state):
    return [tuple(s.detach() for s in layer) for layer in state]


torch.manual_seed(1871)
model = Nowcaster().to(DEV)
optim = torch.optim.Adam(model.parameters(), lr=2e-4)
crit = nn.MSELoss()

for year in range(3):
    era5 = torch.randn(4, SEASON_DAYS, 5, 64, 64)
    imd_rain = torch.rand(4, SEASON_DAYS, 1, 64, 64)
    state = model.init_state(4, 64, 64)
    for start in range(0, SEASON_DAYS, WINDOW):
        x = era5[:, start:start + WINDOW].to(DEV)
        y = imd_rain[:, start:start + WINDOW].to(DEV)
        pred, state = model(x, state)
        loss = crit(pred, y)
        optim.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optim.step()
        state = detach_state(state)
    print("year", 1990 + year, "mse", float(loss))
