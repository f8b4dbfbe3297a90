import sys
import torch
from torch import nn
from torch.utils.data import Dataset, DataLoader

device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
store = torch.device("cpu") if "--fixed" in sys.argv else device


class SwingDataset(Dataset):
    """17 joints in 3D at 240 Hz for 2.5 seconds, and the club head's speed at impact."""

    def __init__(self, num_swings, frames=600):
        g = torch.Generator().manual_seed(18)
        self.poses = torch.empty(num_swings, 51, frames).uniform_(-1, 1, generator=g).to(store)
        self.speed = (30 + 20 * torch.rand(num_swings, generator=g)).to(store)

    def __len__(self):
        return len(self.speed)

    def __getitem__(self, idx):
        return self.poses[idx], self.speed[idx]


class TemporalBlock(nn.Module):
    def __init__(self, n_in, n_out, dilation):
        super().__init__()
        self.pad = nn.ConstantPad1d((2 * dilation, 0), 0)
        self.conv = nn.utils.parametrizations.weight_norm(nn.Conv1d(n_in, n_out, 3, dilation=dilation))
        self.down = nn.Conv1d(n_in, n_out, 1) if n_in != n_out else nn.Identity()

    def forward(self, x):
        return torch.relu(self.conv(self.pad(x)) + self.down(x))


class SwingTCN(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.blocks = nn.Sequential(TemporalBlock(51, width, 1), TemporalBlock(width, width, 2), TemporalBlock(width, width, 4),
                                    TemporalBlock(width, width, 8))
        self.fc = nn.Linear(width, 1)

    def forward(self, x):
        return self.fc(self.blocks(x)[:, :, -1]).squeeze(-1)


train_set = SwingDataset(9000)
loader = DataLoader(train_set, batch_size=32, shuffle=True, num_workers=0)
model = SwingTCN().to(device)
optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
loss_fn = nn.HuberLoss()

for i, (pose, speed) in enumerate(loader):
    pose, speed = pose.to(device), speed.to(device)
    optimizer.zero_grad()
    loss = loss_fn(model(pose), speed)
    loss.backward()
    optimizer.step()
    if i % 5 == 0:
        print(f"[{i}] loss: {loss.item():.4f}")
    if i == 15:
        break
