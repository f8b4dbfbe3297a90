"""Detects calls of fin whales and ships on a hydrophone array."""
import sys
import torch
import torch.nn as nn
from torch.utils.data import DataLoader, Dataset

device = torch.device("cuda")


class HydrophoneDataset(Dataset):
    """Log spectrograms are computed once in the beginning because doing it in __getitem__ was slow"""

    def __init__(self, n_clips, where):
        g = torch.Generator().manual_seed(20)
        window = torch.hann_window(510)
        self.specs, self.labels = [], []
        for i in range(n_clips):
            wave = torch.randn(510 * 100, generator=g)
            spec = torch.stft(wave, 510, hop_length=128, window=window, return_complex=True).abs().log1p()
            self.specs.append(spec.unsqueeze(0).to(where))
            self.labels.append(torch.tensor(i % 4).to(where))

    def __len__(self):
        return len(self.specs)

    def __getitem__(self, i):
        return self.specs[i], self.labels[i]


class CallNet(nn.Sequential):
    def __init__(self):
        super().__init__(nn.Conv2d(1, 16, 5, 4, 2), nn.BatchNorm2d(16), nn.ReLU(), nn.Conv2d(16, 32, 3, 2, 1), nn.BatchNorm2d(32), nn.ReLU(),
                         nn.Conv2d(32, 64, 3, 2, 1), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(64, 4))


dataset = HydrophoneDataset(2400, "cpu" if "--fixed" in sys.argv else device)
loader = DataLoader(dataset, batch_size=32, shuffle=True)
net = CallNet().to(device)
opt = torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9, nesterov=True)
loss_fn = nn.CrossEntropyLoss(label_smoothing=0.1)
for epoch in range(1):
    for i, (x, y) in enumerate(loader):
        x, y = x.to(device), y.to(device)
        opt.zero_grad()
        loss = loss_fn(net(x), y)
        loss.backward()
        opt.step()
        if i % 25 == 0:
            print(epoch, i, loss.item())
