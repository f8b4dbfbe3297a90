"""High-speed films of milk drops on a plate: predicts the height of the crown from 24 frames (fluid dynamics lab)."""
import sys
import torch
import torch.nn as nn

device = torch.device('cuda' if torch.cuda.is_available() else 'cpu')


class DropDataset(torch.utils.data.Dataset):
    def __init__(self, drops, frames=24, side=112, seed=0):
        rng = torch.Generator().manual_seed(seed)
        self.clips, self.heights = [], []
        for i in range(drops):
            clip = torch.randint(0, 256, (1, frames, side, side), dtype=torch.uint8, generator=rng)
            height = torch.rand(1, generator=rng)
            clip = (clip.float() - 128) / 64
            if '--fixed' not in sys.argv:
                clip, height = clip.to(device), height.to(device)
            self.clips.append(clip)
            self.heights.append(height)

    def __len__(self):
        return len(self.clips)

    def __getitem__(self, index):
        return self.clips[index], self.heights[index]


class X3DBlock(nn.Module):
    def __init__(self, cin, cout, stride):
        super().__init__()
        mid = int(2.25 * cin)
        self.conv = nn.Sequential(
            nn.Conv3d(cin, mid, 1, bias=False), nn.BatchNorm3d(mid), nn.ReLU(True),
            nn.Conv3d(mid, mid, 3, (1, stride, stride), 1, groups=mid, bias=False), nn.BatchNorm3d(mid), nn.SiLU(True),
            nn.Conv3d(mid, cout, 1, bias=False), nn.BatchNorm3d(cout))
        self.skip = nn.Conv3d(cin, cout, 1, (1, stride, stride))

    def forward(self, x):
        return torch.relu(self.conv(x) + self.skip(x))


class CrownNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.stem = nn.Conv3d(1, 16, (3, 5, 5), (1, 4, 4), (1, 2, 2))
        self.stages = nn.Sequential(X3DBlock(16, 32, 1), X3DBlock(32, 48, 2), X3DBlock(48, 96, 2), X3DBlock(96, 96, 1))
        self.out = nn.Linear(96, 1)

    def forward(self, x):
        return self.out(self.stages(self.stem(x)).mean((2, 3, 4)))


def train():
    dataset = DropDataset(1000)
    loader = torch.utils.data.DataLoader(dataset, batch_size=8, shuffle=True)
    model = CrownNet().to(device)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    for i, (clips, heights) in enumerate(loader):
        clips, heights = clips.to(device), heights.to(device)
        loss = nn.functional.l1_loss(model(clips), heights)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 5 == 0:
            print('iter %d  mae %.4f' % (i, loss.item()))
        if i == 15:
            break


train()
