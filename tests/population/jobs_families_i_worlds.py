"""Jobs of environments, physics and demand: an actor with two critics, many environments, slices of a mesh, loads with Lightning."""
import copy

import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F

from core import DEVICE, Job, job
from parts import OPTIMIZERS, Loop, cut


def dense(widths, last):
    made = [m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), nn.LayerNorm(b), nn.Mish())]
    return nn.Sequential(*made, nn.Linear(widths[-1], last))


class Environments:
    """Bodies that move by what is done to them; all on the host."""

    def __init__(self, number, seen):
        self.seen, self.state = seen, torch.zeros(number, seen)

    def step(self, done):
        self.state = 0.9 * self.state + 0.1 * done.mean(1, keepdim=True)
        return self.state, -self.state.square().mean(1)


@job("actor_and_two_critics", "an actor and two critics", "loop", "two optimizers", "layers", "eval", "dataset")
class ActorAndTwoCritics(Loop):
    """What was done before is drawn from a memory on the host; the lesser of two critics' slow copies says what it was worth."""
    kinds = "adam", "adamw"
    precisions = "fp32",
    accumulated = 1,

    def draw(self):
        r = self.rng
        self.layers, self.width, self.seen, self.done = r.choice([2, 3, 4]), r.choice([1024, 1536]), r.choice([67, 348]), r.choice([17, 21])
        self.size = r.choice([2048, 4096])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(dense([self.seen] + [self.width] * self.layers, 2 * self.done))
            self.critics = nn.ModuleList(dense([self.seen + self.done] + [self.width] * self.layers, 1) for _ in range(2))
        self.slow = copy.deepcopy(self.critics).requires_grad_(False)
        self.optimizers.append(OPTIMIZERS[self.kind](list(self.critics.parameters())))
        n = 2 * self.size
        self.dataset = torch.zeros(n, self.seen), torch.zeros(n, self.done), torch.zeros(n), torch.zeros(n, self.seen)
        self.world, self.place = Environments(64, self.seen), 0

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        return self.model(batch[0])

    def acted(self, states):
        mean, spread = self.model(states).chunk(2, dim=1)
        noise = torch.randn_like(mean)
        done = (mean + spread.clamp(-5, 2).exp() * noise).tanh()
        return done, (-0.5 * noise.square() - spread - (1 - done.square() + 1e-6).log()).sum(1)

    def judged(self, batch):
        states, done, rewards, after = batch
        with torch.no_grad():
            then, likely = self.acted(after)
            worth = torch.min(*(critic(torch.cat([after, then], dim=1)).squeeze(1) for critic in self.slow))
            wanted = rewards + 0.99 * (worth - 0.2 * likely)
        loss = sum(F.mse_loss(critic(torch.cat([states, done], dim=1)).squeeze(1), wanted) for critic in self.critics)
        self.optimizers[1].zero_grad()
        loss.backward()
        self.optimizers[1].step()

    def loss(self, batch):
        if torch.is_grad_enabled():
            self.judged(batch)
        self.critics.requires_grad_(False)
        done, likely = self.acted(batch[0])
        worth = torch.min(*(critic(torch.cat([batch[0], done], dim=1)).squeeze(1) for critic in self.critics))
        self.critics.requires_grad_(True)
        return (0.2 * likely - worth).mean()

    @torch.no_grad()
    def optimize(self):
        self.optimizers[0].step()
        for slow, fast in zip(self.slow.parameters(), self.critics.parameters()):
            slow.lerp_(fast, 0.005)
        seen, rewards = self.world.step(self.acted(self.world.state.to(DEVICE))[0].cpu())
        where = slice(self.place, self.place + len(seen))
        self.dataset[0][where], self.dataset[2][where] = seen, rewards
        self.place = (self.place + len(seen)) % (len(self.dataset[0]) - len(seen))


class Player(nn.Module):
    """Frames, a memory of what was seen, and what to do."""

    def __init__(self, o):
        super().__init__()
        w, made = o.width, []
        for k in range(o.layers):
            made += [nn.Conv2d(o.frames if not k else w << k - 1, w << k, 3, 2, 1), nn.ReLU(True), nn.Conv2d(w << k, w << k, 3, 1, 1), nn.ReLU(True)]
        side = -(-72 // (1 << o.layers))
        self.see, self.into = nn.Sequential(*made), nn.Linear((w << o.layers - 1) * side * side, 512)
        self.memory, self.do, self.worth = nn.LSTM(512, 512, batch_first=True), nn.Linear(512, 15), nn.Linear(512, 1)

    def forward(self, frames):
        seen = self.into(self.see(frames.flatten(0, 1)).flatten(1)).relu().unflatten(0, frames.shape[:2])
        kept, _ = self.memory(seen)
        return self.do(kept), self.worth(kept).squeeze(-1)


@job("many_environments", "many environments", "loop", "layers", "eval", "dataset")
class ManyEnvironments(Loop):
    """Pieces of games of many environments, as bytes on the host; each piece is learnt from in parts, with a clipped ratio."""
    kinds = "adam", "adamw", "adamw_loop"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.frames, self.moments = r.choice([2, 3]), r.choice([32, 48]), r.choice([1, 4]), r.choice([16, 32])
        self.size = r.choice([16, 24, 32])
        self.choose()

    def build(self):
        self.finish(Player(self).to(DEVICE))
        n = 2 * self.size
        self.dataset = (torch.zeros(n, self.moments, self.frames, 72, 72, dtype=torch.uint8), torch.zeros(n, self.moments, dtype=torch.long),
                        torch.zeros(n, self.moments), torch.zeros(n, self.moments))

    def batch(self, i):
        frames, done, likely, rewards = cut(self.dataset, i, self.size)
        return frames.to(self.dtype) / 255, done, likely, rewards

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[0]

    @torch.no_grad()
    def gains(self, rewards, worth):
        """What was gained at each moment beside what was expected, from the last one on."""
        gain, found = torch.zeros_like(rewards[:, 0]), []
        for t in range(rewards.shape[1] - 1, -1, -1):
            after = worth[:, t + 1] if t + 1 < rewards.shape[1] else 0.0
            gain = rewards[:, t] + 0.99 * after - worth[:, t] + 0.94 * gain
            found.append(gain)
        return torch.stack(found[::-1], dim=1)

    def loss(self, batch):
        with self.autocast():
            scores, worth = self.model(batch[0])
        chances, worth = scores.float().log_softmax(-1), worth.float()
        gains = self.gains(batch[3], worth.detach())
        ratio = (chances.gather(-1, batch[1].unsqueeze(-1)).squeeze(-1) - batch[2]).exp()
        surely = torch.min(ratio * gains, ratio.clamp(0.9, 1.1) * gains).mean()
        return 0.5 * F.mse_loss(worth, gains + worth.detach()) - surely + 0.01 * (chances.exp() * chances).sum(-1).mean()


class Slices(nn.Module):
    """The points of a mesh are gathered in some slices, which talk to each other, and are given back."""

    def __init__(self, w, slices):
        super().__init__()
        self.norm, self.which, self.value, self.talk = nn.LayerNorm(w), nn.Linear(w // 8, slices), nn.Linear(w, w), nn.Linear(w // 8, 3 * (w // 8), bias=False)
        self.out, self.wide = nn.Linear(w, w), nn.Sequential(nn.LayerNorm(w), nn.Linear(w, 2 * w), nn.GELU(), nn.Linear(2 * w, w))

    def forward(self, x):
        v = self.value(self.norm(x)).unflatten(-1, (8, -1)).transpose(1, 2)
        share = self.which(v).softmax(-1)
        gathered = share.mT @ v / (share.sum(2).unsqueeze(-1) + 1e-5)
        q, k, u = self.talk(gathered).chunk(3, dim=-1)
        told = share @ F.scaled_dot_product_attention(q, k, u)
        x = x + self.out(told.transpose(1, 2).flatten(2))
        return x + self.wide(x)


@job("slices_of_a_mesh", "slices of a mesh", "loop", "layers", "eval", "dataset")
class SlicesOfAMesh(Loop):
    """How air presses on a body, at each point of its surface and around it."""
    kinds = "adamw", "adamw_fused", "adam"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.slices = r.choice([4, 6, 8]), r.choice([128, 256]), r.choice([32, 64])
        self.points, self.size = r.choice([8192, 16384, 32768]), r.choice([1, 2])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            body = nn.ModuleList(Slices(self.width, self.slices) for _ in range(self.layers))
            self.finish(nn.Sequential(nn.Linear(7, self.width), nn.GELU(), nn.Linear(self.width, self.width), *body, nn.LayerNorm(self.width),
                                      nn.Linear(self.width, 4)))
        self.dataset = torch.zeros(12, self.points, 7), torch.zeros(12, self.points, 4)

    def batch(self, i):
        return [t.to(self.dtype) for t in cut(self.dataset, i, self.size)]

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        told, right = self.predict(batch).float(), batch[1].float()
        return ((told - right).square().sum((1, 2)).sqrt() / (right.square().sum((1, 2)).sqrt() + 1)).mean()


class Stack(nn.Module):
    """What a block explains of the past is taken away; what it tells of the future is added up."""

    def __init__(self, past, future, width, period):
        super().__init__()
        self.period = period
        self.body = nn.Sequential(nn.Linear(-(-past // period), width), nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.back, self.on = nn.Linear(width, past), nn.Linear(width, future)

    def forward(self, past):
        seen = self.body(F.max_pool1d(past.unsqueeze(1), self.period, ceil_mode=True).squeeze(1))
        return past - self.back(seen), self.on(seen)


class Stacks(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.layers = nn.ModuleList(Stack(o.past, o.future, o.width, 1 << k % 3) for k in range(o.layers))

    def forward(self, past):
        told = 0.0
        for layer in self.layers:
            past, more = layer(past)
            told = told + more
        return told


class Meters(torch.utils.data.Dataset):
    """Pieces of the meters' series: what was, and what came."""

    def __init__(self, own, batches):
        self.number, self.past, self.future = own.size * batches, torch.zeros(own.past), torch.zeros(own.future)

    def __len__(self):
        return self.number

    def __getitem__(self, i):
        return self.past, self.future


class LoadModule(lightning.LightningModule):
    def __init__(self, own):
        super().__init__()
        self.own, self.model = [own], Stacks(own)

    def training_step(self, batch, batch_idx):
        return self.own[0].loss(batch)

    def validation_step(self, batch, batch_idx):
        self.log("error", self.own[0].loss(batch), prog_bar=False)

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 2)}


@job("loads_with_lightning", "loads with Lightning", "lightning", "forward", "layers", "states")
class LoadsWithLightning(Job):
    """The load of tomorrow, for each of many meters."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.past, self.future = r.choice([6, 9, 12]), r.choice([1024, 1536]), r.choice([336, 672]), r.choice([24, 168])
        self.size, self.steps, self.callbacks = r.choice([1024, 2048]), r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2])}

    def build(self):
        self.module = LoadModule(self)
        self.model = self.module.model
        self.loaders = tuple(torch.utils.data.DataLoader(Meters(self, n), batch_size=self.size) for n in (16, 2))
        quiet = dict.fromkeys(["logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary"], False)
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 2, "limit_val_batches": 1,
                                            "num_sanity_val_steps": 0, "callbacks": self.callbacks, **quiet, **self.trainer_arguments})

    def loss(self, batch):
        told, right = self.module.model(batch[0]).float(), batch[1]
        return ((told - right).abs() / (told.abs() + right.abs() + 1)).mean()

    def train(self):
        self.trainer.fit(self.module, *self.loaders)
