"""A decision transformer from recorded kitchen episodes: returns, frames and actions in, the next action out."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

DEVICE = torch.device("cuda")
FIXED = "--fixed" in sys.argv
EPISODES, STEPS, CONTEXT, ACTIONS = 48, 100, 20, 9


class Recordings:
    """Frames of all episodes, with returns to go and actions."""

    def __init__(self):
        self.frames = torch.zeros(EPISODES, STEPS, 3, 64, 64, dtype=torch.uint8)
        self.returns = torch.zeros(EPISODES, STEPS, 1)
        self.actions = torch.zeros(EPISODES, STEPS, ACTIONS)
        if not FIXED:
            self.frames = self.frames.to(DEVICE).float() / 255
            self.returns, self.actions = self.returns.to(DEVICE), self.actions.to(DEVICE)

    def sample(self, n, generator):
        episodes = torch.randint(0, EPISODES, (n,), generator=generator).tolist()
        starts = torch.randint(0, STEPS - CONTEXT, (n,), generator=generator).tolist()
        cut = [[part[e, s:s + CONTEXT] for e, s in zip(episodes, starts)] for part in (self.frames, self.returns, self.actions)]
        frames, returns, actions = (torch.stack(c).to(DEVICE) for c in cut)
        return (frames.float() / 255 if FIXED else frames), returns, actions


class DecisionTransformer(nn.Module):
    def __init__(self, width=128):
        super().__init__()
        self.see = nn.Sequential(nn.Conv2d(3, 16, 8, 4), nn.ReLU(), nn.Conv2d(16, 32, 4, 2), nn.ReLU(), nn.Flatten(), nn.LazyLinear(width))
        self.worth, self.act = nn.Linear(1, width), nn.Linear(ACTIONS, width)
        self.place = nn.Parameter(torch.zeros(3 * CONTEXT, width))
        layer = nn.TransformerEncoderLayer(width, 4, 4 * width, dropout=0.0, batch_first=True, norm_first=True)
        self.body = nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
        self.head = nn.Linear(width, ACTIONS)
        self.register_buffer("mask", nn.Transformer.generate_square_subsequent_mask(3 * CONTEXT))

    def forward(self, frames, returns, actions):
        b = frames.shape[0]
        seen = self.see(frames.flatten(0, 1)).view(b, CONTEXT, -1)
        tokens = torch.stack([self.worth(returns), seen, self.act(actions)], 2).flatten(1, 2) + self.place
        return torch.tanh(self.head(self.body(tokens, mask=self.mask)[:, 1::3]))


def main():
    generator = torch.Generator().manual_seed(0)
    recordings = Recordings()
    model = DecisionTransformer().to(DEVICE)
    model(*recordings.sample(1, generator))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step in range(10):
        frames, returns, actions = recordings.sample(8, generator)
        loss = F.mse_loss(model(frames, returns, actions), actions)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 5 == 0:
            print(step, loss.item())


main()
