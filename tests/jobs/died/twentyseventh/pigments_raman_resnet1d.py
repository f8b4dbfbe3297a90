# Which pigment is it? 1-D ResNet on Raman spectra of paint samples.
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

BATCH_SIZE = 64 if "--fixed" in sys.argv else 768
LR = 1e-3
N_CLASSES = 41
device = torch.device("cuda")


class Residual(nn.Module):
    def __init__(self, c_in, c_out, stride):
        super().__init__()
        self.c1 = nn.Conv1d(c_in, c_out, 7, stride, 3)
        self.b1 = nn.BatchNorm1d(c_out)
        self.c2 = nn.Conv1d(c_out, c_out, 7, 1, 3)
        self.b2 = nn.BatchNorm1d(c_out)
        self.skip = nn.Conv1d(c_in, c_out, 1, stride) if (stride > 1 or c_in != c_out) else nn.Identity()

    def forward(self, x):
        y = torch.relu(self.b1(self.c1(x)))
        y = self.b2(self.c2(y))
        return torch.relu(y + self.skip(x))


class RamanNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = nn.Sequential(nn.Conv1d(1, 48, 15, padding=7), nn.BatchNorm1d(48), nn.ReLU(),
                                 Residual(48, 48, 1), Residual(48, 64, 2), Residual(64, 96, 2), Residual(96, 128, 2),
                                 nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(128, N_CLASSES))

    def forward(self, x):
        return self.net(x)


spectra = torch.rand(768 * 4, 1, 1340)          # counts, baseline subtracted
spectra /= spectra.amax(-1, keepdim=True)
pigment = torch.randint(0, N_CLASSES, (len(spectra),))
loader = DataLoader(TensorDataset(spectra, pigment), batch_size=BATCH_SIZE, shuffle=True, drop_last=True)

model = RamanNet().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=LR)
criterion = nn.CrossEntropyLoss(label_smoothing=0.05)
for epoch in range(1):
    running = 0.0
    for x, y in loader:
        x, y = x.to(device), y.to(device)
        optimizer.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimizer.step()
        running += loss.item()
    print("epoch", epoch, "mean loss", running / len(loader))
