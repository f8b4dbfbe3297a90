# %% [markdown]
# # Gestures before a 60 GHz radar
# 9 gestures, 40 frames each, a range-Doppler map of 3 antennas per frame. CNN per frame, LSTM over the frames.

# %%
import sys
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

device = "cuda"
FIXED = "--fixed" in sys.argv
torch.manual_seed(60)

# %% recordings of 26 people, 32 x 32 maps
gen = torch.Generator().manual_seed(26)
one_person = torch.randn(80, 40, 3, 32, 32, generator=gen)
X = torch.cat([one_person.roll(p, 1) for p in range(26)])
y = torch.arange(len(X)) % 9
print(X.shape, f"{X.nelement() * 4 / 2 ** 30:.2f} GiB")

# %% the loader was slow at first, so the tensors went to the device before
if not FIXED:
    X, y = X.to(device), y.to(device)
people = torch.arange(len(X)) // 80
train, test = people < 22, people >= 22
if not FIXED:
    train, test = train.to(device), test.to(device)
train_loader = DataLoader(TensorDataset(X[train], y[train]), batch_size=32, shuffle=True)
test_loader = DataLoader(TensorDataset(X[test], y[test]), batch_size=32)


# %%
class GestureNet(nn.Module):
    """Frames one by one, then the order of them."""

    def __init__(self, hidden=128):
        super().__init__()
        block = lambda i, o: nn.Sequential(nn.Conv2d(i, o, 3, padding=1), nn.BatchNorm2d(o), nn.ReLU(), nn.MaxPool2d(2))
        self.frames = nn.Sequential(block(3, 16), block(16, 32), block(32, 64), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.order = nn.LSTM(64, hidden, num_layers=2, batch_first=True)
        self.name = nn.Linear(hidden, 9)

    def forward(self, x):
        b, t = x.shape[:2]
        states, _ = self.order(self.frames(x.flatten(0, 1)).view(b, t, -1))
        return self.name(states[:, -1])


net = GestureNet().to(device)
opt = torch.optim.Adam(net.parameters(), 1e-3)
criterion = nn.CrossEntropyLoss()

# %%
for epoch in range(1):
    net.train()
    for i, (maps, names) in enumerate(train_loader):
        maps, names = maps.to(device), names.to(device)
        opt.zero_grad()
        loss = criterion(net(maps), names)
        loss.backward()
        opt.step()
        if i % 10 == 0:
            print(epoch, i, loss.item())
    net.eval()
    right = 0
    with torch.no_grad():
        for maps, names in test_loader:
            right += (net(maps.to(device)).argmax(1) == names.to(device)).sum().item()
    print("test", right / int(test.sum()))
