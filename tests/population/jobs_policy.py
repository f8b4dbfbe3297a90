"""Reinforcement learning: a policy, a value function and a reference model."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F

from core import DEVICE, job
from jobs_hand import Decoder
from parts import Loop


class ActorCritic(nn.Module):
    """Logits over the tokens and a value for each, of one trunk."""

    def __init__(self, o):
        super().__init__()
        self.actor, self.value = Decoder(o.layers, o.width, 8, o.vocabulary), nn.Linear(o.width, 1)

    def forward(self, tokens):
        x = self.actor.embedding(tokens)
        for layer in self.actor.layers:
            x = layer(x)
        x = self.actor.norm(x)
        return self.actor.head(x), self.value(x).squeeze(-1)


def logprobs_of(logits, tokens):
    """The log-probability of each next token, without a table of all of them in fp32."""
    logits, targets = logits[:, :-1], tokens[:, 1:]
    return torch.gather(logits, 2, targets.unsqueeze(-1)).squeeze(-1).float() - torch.logsumexp(logits, dim=-1).float()


class Policy(Loop):
    traits = {"decoder", "tokens", "layers", "reference"}

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([2, 3, 4, 6]), r.choice([512, 768, 1024])
        self.vocabulary, self.length, self.size = r.choice([8000, 16000, 32000]), r.choice([256, 512]), r.choice([4, 8, 16])
        self.choose()

    def make(self):
        return Decoder(self.layers, self.width, 8, self.vocabulary)

    def build(self):
        with torch.device(DEVICE):
            policy = self.make()
        self.finish(policy)
        self.reference = copy.deepcopy(policy).eval().requires_grad_(False)

    def tokens(self, i):
        return torch.zeros(self.size, self.length, dtype=torch.long, device=DEVICE)

    def reference_outputs(self, tokens):
        with self.no_grad(), self.autocast():
            return self.reference(tokens)


@job("ppo", "reinforcement learning", "loop")
class PPO(Policy):
    """A rollout under no_grad() makes the batch; the loss has a clipped ratio, the values and the distance to the reference."""

    def make(self):
        return ActorCritic(self)

    def batch(self, i):
        tokens = self.tokens(i)
        with torch.no_grad(), self.autocast():
            logits, values = self.model(tokens)
            old = logprobs_of(logits, tokens)
        rewards = torch.zeros_like(old)
        advantages = rewards - values[:, :-1].float()
        return tokens, old, advantages, rewards

    def loss(self, batch):
        tokens, old, advantages, returns = batch
        ref = logprobs_of(self.reference_outputs(tokens)[0], tokens)
        with self.autocast():
            logits, values = self.model(tokens)
        new = logprobs_of(logits, tokens)
        ratio = (new - old).exp()
        surrogate = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        return -surrogate.mean() + 0.5 * F.mse_loss(values[:, :-1].float(), returns) + 0.05 * (new - ref).mean()


@job("dpo", "reinforcement learning", "loop")
class DPO(Policy):
    """Pairs of a chosen and a rejected answer, as one batch."""

    def batch(self, i):
        return torch.cat([self.tokens(i), self.tokens(i)])

    def loss(self, batch):
        with self.autocast():
            policy = logprobs_of(self.model(batch), batch).sum(-1)
        ref = logprobs_of(self.reference_outputs(batch), batch).sum(-1)
        chosen, rejected = (policy - ref).chunk(2)
        return -F.logsigmoid(0.1 * (chosen - rejected)).mean()


@job("distillation", "reinforcement learning", "loop", "eval")
class Distillation(Policy):
    """A larger teacher's distribution, for a smaller student."""

    def build(self):
        self.finish(self.make())
        with torch.device(DEVICE):
            self.reference = Decoder(2 * self.layers, self.width, 8, self.vocabulary).to(self.dtype).eval().requires_grad_(False)

    def batch(self, i):
        return self.tokens(i)

    def loss(self, batch):
        teacher = self.reference_outputs(batch)
        with self.autocast():
            student = self.model(batch)
        return F.kl_div(F.log_softmax(student / 2, dim=-1), F.log_softmax(teacher / 2, dim=-1), log_target=True, reduction="batchmean") * 4


class Actor(nn.Module):
    def __init__(self, channels, hidden, actions):
        super().__init__()
        self.conv = nn.Sequential(nn.Conv2d(4, channels, 8, 4), nn.ReLU(), nn.Conv2d(channels, 2 * channels, 4, 2), nn.ReLU(),
                                  nn.Conv2d(2 * channels, 2 * channels, 3), nn.ReLU(), nn.Flatten(), nn.LazyLinear(hidden), nn.ReLU())
        self.pi, self.v = nn.Linear(hidden, actions), nn.Linear(hidden, 1)

    def forward(self, frames):
        h = self.conv(frames)
        return self.pi(h), self.v(h).squeeze(-1)


@job("dqn", "reinforcement learning", "loop", "images", "reference", "dataset")
class DQN(Loop):
    """Q-learning from a replay buffer on the host, with a target network."""
    precisions = "fp32",
    rows = 16384

    def draw(self):
        r = self.rng
        self.channels, self.hidden, self.size = r.choice([32, 64]), r.choice([512, 1024]), r.choice([1024, 2048, 4096])
        self.choose()

    def build(self):
        net = Actor(self.channels, self.hidden, 18).to(DEVICE)
        net(torch.zeros(1, 4, 84, 84, device=DEVICE))
        self.finish(net)
        self.reference = copy.deepcopy(net).requires_grad_(False)
        self.dataset = torch.zeros(self.rows, 4, 84, 84, dtype=torch.uint8), torch.zeros(self.rows, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % (self.rows - self.size)
        frames, actions = (t[start:start + self.size].to(DEVICE) for t in self.dataset)
        return frames.float() / 255, actions

    def reference_outputs(self, frames):
        with self.no_grad():
            return self.reference(frames)

    def loss(self, batch):
        frames, actions = batch
        q = self.model(frames)[0].gather(1, actions[:, None]).squeeze(1)
        target = 0.99 * self.reference_outputs(frames)[0].max(1).values
        return F.smooth_l1_loss(q, target)
