"""Soil moisture at stations from daily weather; the year is fed month by month and the state goes on from month to month."""
import sys
import torch
from torch import nn

FIXED = "--fixed" in sys.argv
STATIONS, DAYS, FORCINGS = 192, 30, 9


class SoilLSTM(nn.Module):
    def __init__(self, hidden=384):
        super().__init__()
        self.embed = nn.Linear(FORCINGS, hidden)
        self.lstm = nn.LSTM(hidden, hidden, num_layers=2)
        self.depths = nn.Linear(hidden, 4)

    def forward(self, weather, state=None):
        out, state = self.lstm(torch.relu(self.embed(weather)), state)
        return self.depths(out), state


def month(gen):
    return torch.randn(DAYS, STATIONS, FORCINGS, generator=gen), torch.rand(DAYS, STATIONS, 4, generator=gen)


def train_year(net, opt, gen):
    state, losses = None, []
    opt.zero_grad()
    for m in range(12):
        weather, truth = month(gen)
        pred, state = net(weather.cuda(), state)
        loss = ((pred - truth.cuda()) ** 2).mean() / 12
        if FIXED:
            loss.backward()
            state = tuple(s.detach() for s in state)
        else:
            # RuntimeError: Trying to backward through the graph a second time
            loss.backward(retain_graph=True)
        losses.append(loss.item())
    opt.step()
    return sum(losses)


gen = torch.Generator().manual_seed(5)
net = SoilLSTM().cuda()
opt = torch.optim.RMSprop(net.parameters(), lr=5e-4)
for year in range(2005, 2008):
    print(year, train_year(net, opt, gen))
