"""Predicts the glucose of the next half hour from a day of an insulin pump's readings, for 240 patients."""
import sys

import torch
import torch.nn as nn

WINDOW, HORIZON, STRIDE, CHANNELS = 288, 6, 4, 6
where = "cpu" if "--fixed" in sys.argv else "cuda"


def load_patients(patients=240, readings=3000):
    g = torch.Generator().manual_seed(77)
    noise = torch.randn(patients, CHANNELS, readings, generator=g)
    return noise.cumsum(-1) / readings ** 0.5


def windows_of(series):
    """All windows of all patients as one table: (windows, channels, WINDOW + HORIZON)."""
    cut = series.unfold(-1, WINDOW + HORIZON, STRIDE)
    return cut.permute(0, 2, 1, 3).reshape(-1, CHANNELS, WINDOW + HORIZON)


class Causal(nn.Module):
    def __init__(self, cin, cout, dilation):
        super().__init__()
        self.pad = 2 * dilation
        self.conv = nn.Conv1d(cin, cout, 3, dilation=dilation)
        self.norm = nn.BatchNorm1d(cout)
        self.same = nn.Conv1d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x):
        return torch.relu(self.norm(self.conv(nn.functional.pad(x, (self.pad, 0))))) + self.same(x)


class TCN(nn.Module):
    def __init__(self, width=48):
        super().__init__()
        self.layers = nn.Sequential(*[Causal(CHANNELS if i == 0 else width, width, 2 ** i) for i in range(6)])
        self.out = nn.Linear(width, HORIZON)

    def forward(self, x):
        return self.out(self.layers(x)[..., -1])


series = load_patients()
mean, std = series.mean((0, 2), keepdim=True), series.std((0, 2), keepdim=True)
table = windows_of(((series - mean) / std).to(where))
print("windows:", len(table))

model = TCN().cuda()
optimizer = torch.optim.RMSprop(model.parameters(), lr=1e-3)
order = torch.randperm(len(table), generator=torch.Generator().manual_seed(1))
for step in range(12):
    rows = table[order[step * 128:(step + 1) * 128].to(where)].cuda()
    past, future = rows[..., :WINDOW], rows[:, 0, WINDOW:]
    loss = nn.functional.huber_loss(model(past), future)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if step % 4 == 3:
        print("step", step, "loss", loss.item())
