"""A drone learns to land from camera images: policy gradient with a value network, and a slow average of the values for a chart of the progress."""
import sys

import torch
import torch.nn.functional as F
from torch import nn

FIXED = "--fixed" in sys.argv
ACTIONS = 6


def body(width):
    return nn.Sequential(
        nn.Conv2d(4, width, 8, 4), nn.ELU(), nn.Conv2d(width, 2 * width, 4, 2), nn.ELU(), nn.Conv2d(2 * width, 2 * width, 3), nn.ELU(),
        nn.Flatten(), nn.Linear(2 * width * 9 * 9, 256), nn.ELU())


class Agent(nn.Module):
    def __init__(self):
        super().__init__()
        self.actor, self.critic = nn.Sequential(body(24), nn.Linear(256, ACTIONS)), nn.Sequential(body(24), nn.Linear(256, 1))


class Landing:
    """A simulator of which only the shapes matter here."""

    def __init__(self, drones):
        self.drones = drones

    def observe(self):
        return torch.zeros(self.drones, 4, 100, 100)

    def step(self, actions):
        return self.observe(), torch.rand(self.drones), torch.zeros(self.drones)


class Progress:
    def __init__(self, decay=0.95):
        self.decay, self.value = decay, None

    def update(self, value):
        self.value = value if self.value is None else self.decay * self.value + (1 - self.decay) * value

    def __str__(self):
        return "%.3f" % float(self.value)


def train(updates, drones):
    agent, world = Agent().to("cuda"), Landing(drones)
    optimizer = torch.optim.Adam(agent.parameters(), lr=3e-4)
    progress = Progress()
    seen = world.observe().to("cuda")
    for update in range(updates):
        logits = agent.actor(seen)
        actions = torch.distributions.Categorical(logits=torch.zeros(drones, ACTIONS)).sample()
        following, reward, done = world.step(actions)
        following, reward, done = following.to("cuda"), reward.to("cuda"), done.to("cuda")
        with torch.no_grad():
            target = reward + 0.99 * (1 - done) * agent.critic(following).squeeze(1)
        value = agent.critic(seen).squeeze(1)
        log_p = -F.cross_entropy(logits, actions.to("cuda"), reduction="none")
        loss = F.smooth_l1_loss(value, target) - (log_p * (target - value.detach())).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        later = agent.critic(following).mean()
        progress.update(later.item() if FIXED else later)
        if update % 4 == 0:
            print("update", update, "loss", loss.item(), "value", progress)
        seen = following


train(updates=12, drones=96)
