"""Offline RL: a decision transformer that works a container crane, from camera frames, actions and returns-to-go."""
import sys

import torch
import torch.nn as nn

FIXED = "--fixed" in sys.argv
device = "cuda"
STEPS, SIDE, ACTIONS = 20, 56, 4


class CraneEpisodes(torch.utils.data.Dataset):
    def __init__(self, episodes=900):
        g = torch.Generator().manual_seed(77)
        self.frames = torch.randint(0, 256, (episodes, STEPS, 3, SIDE, SIDE), generator=g, dtype=torch.uint8)
        self.actions = torch.randn(episodes, STEPS, ACTIONS, generator=g)
        self.returns = torch.rand(episodes, STEPS, 1, generator=g).flip(1).cumsum(1).flip(1)
        if not FIXED:
            self.frames = self.frames.to(device).float().div_(255)
            self.actions, self.returns = self.actions.to(device), self.returns.to(device)

    def __len__(self):
        return len(self.frames)

    def __getitem__(self, i):
        frames = self.frames[i]
        if frames.dtype == torch.uint8:
            frames = frames.float() / 255
        return frames, self.actions[i], self.returns[i]


class DecisionTransformer(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.eye = nn.Sequential(
            nn.Conv2d(3, 16, 8, stride=4), nn.ReLU(), nn.Conv2d(16, 32, 4, stride=2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(dim))
        self.act, self.rtg = nn.Linear(ACTIONS, dim), nn.Linear(1, dim)
        self.time = nn.Parameter(torch.zeros(1, STEPS, 1, dim))
        layer = nn.TransformerEncoderLayer(dim, 4, 4 * dim, dropout=0.1, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 3, enable_nested_tensor=False)
        self.out = nn.Linear(dim, ACTIONS)
        self.register_buffer("mask", torch.full((3 * STEPS, 3 * STEPS), float("-inf")).triu(1))

    def forward(self, frames, actions, returns):
        seen = self.eye(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        tokens = torch.stack([self.rtg(returns), seen, self.act(actions)], 2) + self.time
        h = self.body(tokens.flatten(1, 2), mask=self.mask)
        return torch.tanh(self.out(h[:, 1::3]))


data = CraneEpisodes()
loader = torch.utils.data.DataLoader(data, batch_size=24, shuffle=True, generator=torch.Generator().manual_seed(1))
model = DecisionTransformer().to(device)
model.eye(torch.zeros(1, 3, SIDE, SIDE, device=device))
optimizer = torch.optim.AdamW(model.parameters(), lr=6e-4, weight_decay=1e-4)
for n, (frames, actions, returns) in enumerate(loader):
    frames, actions, returns = frames.to(device), actions.to(device), returns.to(device)
    loss = nn.functional.mse_loss(model(frames, actions, returns), actions)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    if n % 5 == 0:
        print("batch", n, "loss", loss.item())
    if n == 20:
        break
