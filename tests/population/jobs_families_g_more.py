"""Jobs of trainers, pictures, sound and numbers: land with Lightning, voices with Accelerate, chests, signs, graphs with attention,
actors and a learner, operators by points, people and things as a graph."""
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from accelerate import Accelerator
from transformers import HubertForSequenceClassification

from core import DEVICE, Job, job
from jobs_images import ImageLoop
from parts import Loop, cut


def twice(a, b):
    return nn.Sequential(nn.Conv2d(a, b, 3, padding=1), nn.GroupNorm(8, b), nn.ReLU(True), nn.Conv2d(b, b, 3, padding=1), nn.GroupNorm(8, b), nn.ReLU(True))


class Descent(nn.Module):
    """Down to small maps and up again, with what was there on the way down."""

    def __init__(self, o):
        super().__init__()
        widths = [o.width << k for k in range(o.layers)]
        self.down = nn.ModuleList(twice(a, b) for a, b in zip([o.bands, *widths], widths))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 2, 2) for a, b in zip(widths, widths[1:]))
        self.join = nn.ModuleList(twice(2 * a, a) for a in widths[:-1])
        self.told = nn.Conv2d(o.width, o.kinds_of_land, 1)

    def forward(self, scene):
        seen = []
        for k, part in enumerate(self.down):
            scene = part(F.max_pool2d(scene, 2) if k else scene)
            seen.append(scene)
        for k in range(len(self.up) - 1, -1, -1):
            scene = self.join[k](torch.cat([seen[k], self.up[k](scene)], dim=1))
        return self.told(scene)


class Scenes(torch.utils.data.Dataset):
    """A scene and its land, again and again."""

    def __init__(self, own, batches):
        self.rows, self.scene = own.size * batches, torch.zeros(own.bands, own.side, own.side)
        self.land = torch.zeros(own.side, own.side, dtype=torch.long)

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.scene, self.land


class Land(lightning.LightningModule):
    """The network under Lightning, with a schedule."""

    def __init__(self, own):
        super().__init__()
        self.own, self.model = [own], Descent(own)

    def training_step(self, batch, batch_idx):
        loss = self.own[0].loss(batch)
        self.log("loss", loss, prog_bar=True)
        return loss

    def validation_step(self, batch, batch_idx):
        self.log("val_loss", self.own[0].loss(batch))

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=3e-4)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)}


@job("land_with_lightning", "land with Lightning", "lightning", "forward", "layers", "states")
class LandWithLightning(Job):
    """What covers the land, from a dozen bands of a satellite; rare kinds weigh more."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.bands, self.kinds_of_land = r.choice([3, 4]), r.choice([32, 48, 64]), r.choice([10, 12]), r.choice([9, 15])
        self.side, self.size, self.steps, self.callbacks = r.choice([96, 128]), r.choice([8, 16]), r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": r.choice([None, 1.0])}

    def build(self):
        self.module = Land(self)
        self.model = self.module.model
        self.loaders = tuple(torch.utils.data.DataLoader(Scenes(self, n), batch_size=self.size) for n in (32, 4))
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "logger": False, "enable_checkpointing": False,
                                            "enable_progress_bar": False, "enable_model_summary": False, "val_check_interval": 2, "limit_val_batches": 2,
                                            "num_sanity_val_steps": 0, "callbacks": self.callbacks, **self.trainer_arguments})

    def loss(self, batch):
        scenes, land = batch
        scores = self.module.model(scenes).float()
        return F.cross_entropy(scores, land, weight=torch.linspace(0.5, 2.0, self.kinds_of_land, device=scores.device))

    def train(self):
        self.trainer.fit(self.module, *self.loaders)


@job("voices_with_accelerate", "voices with Accelerate", "loop", "layers", "attention", "eval", "dataset")
class VoicesWithAccelerate(Loop):
    """How somebody feels, from some seconds of speech: HuBERT of transformers in Accelerate's loop, in which the model alone is prepared."""
    kinds = "adamw", "adamw_fused", "adamw_loop"
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention = r.choice([3, 4, 6]), r.choice([384, 512, 768]), "sdpa"
        self.seconds, self.size = r.choice([2, 3, 4]), r.choice([4, 8, 12])
        self.choose()

    def build(self):
        config = transformers.HubertConfig(hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
                                           num_labels=7, apply_spec_augment=False, layerdrop=0.0, attn_implementation=self.attention)
        with torch.device(DEVICE):
            self.finish(HubertForSequenceClassification(config))
        self.accelerator = Accelerator(mixed_precision="bf16" if self.precision == "autocast" else "no")
        self.model = self.accelerator.prepare(self.model)
        self.dataset = torch.zeros(32, 16000 * self.seconds), torch.zeros(32, dtype=torch.long)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        return self.model(input_values=batch[0]).logits

    def loss(self, batch):
        return self.model(input_values=batch[0], labels=batch[1]).loss

    def backward(self, loss):
        self.accelerator.backward(loss)


class Growth(nn.Module):
    """A layer of a dense block: some maps more, of all that are there."""

    def __init__(self, a, more):
        super().__init__()
        self.body = nn.Sequential(nn.BatchNorm2d(a), nn.ReLU(), nn.Conv2d(a, 4 * more, 1, bias=False), nn.BatchNorm2d(4 * more), nn.ReLU(True),
                                  nn.Conv2d(4 * more, more, 3, padding=1, bias=False))

    def forward(self, x):
        return torch.cat([x, self.body(x)], dim=1)


def dense(o):
    a = o.width
    layers = [nn.Conv2d(1, a, 7, 2, 3, bias=False), nn.BatchNorm2d(a), nn.ReLU(True), nn.MaxPool2d(2)]
    for k in range(3):
        for _ in range(o.layers):
            layers.append(Growth(a, o.more))
            a += o.more
        if k < 2:
            layers += [nn.BatchNorm2d(a), nn.ReLU(True), nn.Conv2d(a, a // 2, 1, bias=False), nn.AvgPool2d(2)]
            a //= 2
    return nn.Sequential(*layers, nn.BatchNorm2d(a), nn.ReLU(True), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(a, o.findings))


@job("chests", "pictures of chests", "loop", "images", "layers", "eval")
class Chests(ImageLoop):
    """Fourteen findings in one grey picture; what a report leaves open counts half."""
    channels, findings = 1, 14
    kinds = "adam", "adamw", "sgd_momentum"

    def draw(self):
        self.layers, self.width, self.more = self.rng.choice([3, 4, 6]), self.rng.choice([48, 64]), self.rng.choice([24, 32])
        self.draw_images([224, 256], [16, 24, 32])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(dense(self))

    def loss(self, batch):
        scores = self.predict(batch).float()
        known = torch.full_like(scores, 0.5)
        return (F.binary_cross_entropy_with_logits(scores, known, reduction="none") * known).sum(1).mean()


class Signing(nn.Module):
    """Hands and faces frame by frame, then over time."""

    def __init__(self, o):
        super().__init__()
        stages, a = [], 3
        for k in range(o.layers):
            b = o.width << min(k, 3)
            stages.append(nn.Sequential(nn.Conv2d(a, b, 3, 2, 1, bias=False), nn.GroupNorm(8, b), nn.SiLU(), nn.Conv2d(b, b, 3, 1, 1, bias=False),
                                        nn.GroupNorm(8, b), nn.SiLU()))
            a = b
        self.see, self.over = nn.ModuleList(stages), nn.LSTM(a, 256, 2, batch_first=True, bidirectional=True)
        self.nearby, self.told = nn.Conv1d(a, a, 5, padding=2), nn.Linear(512, o.signs)

    def forward(self, clips):
        x = clips.flatten(0, 1)
        for stage in self.see:
            x = stage(x)
        x = x.mean((2, 3)).unflatten(0, clips.shape[:2])
        x = x + self.nearby(x.transpose(1, 2)).transpose(1, 2)
        return self.told(self.over(x)[0])


@job("signs", "signs in a video", "loop", "layers", "eval", "dataset", "crop")
class Signs(Loop):
    """Which sign each frame of a clip belongs to."""
    kinds = "adam", "adamw", "adamw_fused"
    precisions = "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.side, self.signs = r.choice([3, 4]), r.choice([32, 48]), r.choice([96, 112]), r.choice([400, 1200])
        self.length, self.size = r.choice([16, 24, 32]), r.choice([4, 6, 8])
        self.longest = 3 * self.length
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Signing(self))
        self.dataset = torch.zeros(16, self.longest, 3, self.side, self.side, dtype=torch.uint8), torch.zeros(16, self.longest, dtype=torch.int32)

    def batch(self, i):
        clips, signs = cut(tuple(t[:, :self.length] for t in self.dataset), i, self.size)
        return clips.to(self.dtype).sub_(127).div_(64), signs.long()

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        told = self.predict(batch).float()
        smooth = (told[:, 1:].log_softmax(-1) - told[:, :-1].detach().log_softmax(-1)).square().clamp(max=16).mean()
        return F.cross_entropy(told.flatten(0, 1), batch[1].flatten()) + 0.15 * smooth


class Bonded(nn.Module):
    """Attention between the nodes of a graph, with a number for each distance and head."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.o, self.near = o, nn.Embedding(16, o.heads)
        self.mix, self.out, self.one, self.two = nn.Linear(w, 3 * w), nn.Linear(w, w), nn.LayerNorm(w), nn.LayerNorm(w)
        self.wide = nn.Sequential(nn.Linear(w, 2 * w), nn.GELU(), nn.Linear(2 * w, w))

    def forward(self, x, steps):
        bias = self.near(steps).permute(0, 3, 1, 2)
        q, k, v = (t.unflatten(2, (self.o.heads, -1)).transpose(1, 2) for t in self.mix(self.one(x)).chunk(3, dim=-1))
        if self.o.attention == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.to(q.dtype))
        else:
            y = (q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-1).to(v.dtype) @ v
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return x + self.wide(self.two(x))


class Molecule(nn.Module):
    """Layers of attention over the nodes, and one number for all of them."""

    def __init__(self, o):
        super().__init__()
        self.kind, self.layers = nn.Embedding(120, o.width), nn.ModuleList(Bonded(o) for _ in range(o.layers))
        self.told = nn.Sequential(nn.LayerNorm(o.width), nn.Linear(o.width, o.width), nn.GELU(), nn.Linear(o.width, 1))

    def forward(self, nodes, steps):
        x = self.kind(nodes)
        for layer in self.layers:
            x = layer(x, steps)
        return self.told(x.mean(1)).squeeze(-1)


@job("graphs_with_attention", "graphs with attention", "loop", "layers", "attention", "eval", "dataset")
class GraphsWithAttention(Loop):
    """A property of each of many small graphs, whose nodes are padded to one number; distances are whole steps."""
    kinds = "adamw", "adamw_fused", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.heads, self.attention = r.choice([4, 6]), r.choice([256, 384, 512]), r.choice([4, 8]), "sdpa"
        self.nodes, self.size = r.choice([48, 64, 96]), r.choice([48, 64, 96])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Molecule(self))
        n = self.nodes
        self.dataset = torch.zeros(256, n, dtype=torch.uint8), torch.zeros(256, n, n, dtype=torch.uint8), torch.zeros(256)

    def batch(self, i):
        nodes, steps, wanted = cut(self.dataset, i, self.size)
        return nodes.int(), steps.int(), wanted

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0], batch[1])

    def loss(self, batch):
        return F.l1_loss(self.predict(batch).float(), batch[2])


class Playing(nn.Module):
    """Frames, what was done before, and a memory; what to do and how good it is."""

    def __init__(self, o):
        super().__init__()
        parts, a = [], 4
        for b in (o.width, 2 * o.width, 2 * o.width):
            parts += [nn.Conv2d(a, b, 4, 2, 1)]
            parts += [Residual(b) for _ in range(o.layers)]
            a = b
        self.see = nn.Sequential(*parts, nn.ReLU(), nn.Flatten(), nn.Linear(a * (o.side // 8) ** 2, 256), nn.ReLU())
        self.memory, self.act, self.worth = nn.LSTM(256 + o.actions, 256), nn.Linear(256, o.actions), nn.Linear(256, 1)

    def forward(self, frames, before):
        seen = self.see(frames.flatten(0, 1)).unflatten(0, frames.shape[:2])
        told, _ = self.memory(torch.cat([seen, before.to(seen.dtype)], dim=-1))
        return self.act(told), self.worth(told).squeeze(-1)


class Residual(nn.Module):
    """Two convolutions beside a way around them."""

    def __init__(self, width):
        super().__init__()
        self.first, self.second = nn.Conv2d(width, width, 3, padding=1), nn.Conv2d(width, width, 3, padding=1)

    def forward(self, x):
        return x + self.second(F.relu(self.first(F.relu(x))))


@torch.no_grad()
def corrected(worth, rewards, ratio, discount=0.99):
    """What each moment was worth, by what came after, as if the policy of now had played."""
    clipped, last, out = ratio.clamp(max=1.0), torch.zeros_like(worth[0]), []
    for t in range(len(rewards) - 1, -1, -1):
        off = clipped[t] * (rewards[t] + discount * worth[t + 1] - worth[t])
        last = off + discount * clipped[t] * last
        out.append(worth[t] + last)
    return torch.stack(out[::-1])


@job("actors_and_learner", "actors and a learner", "loop", "layers", "eval", "dataset")
class ActorsAndLearner(Loop):
    """What actors have played arrives as pieces of some moments, by older policies; one learner."""
    kinds = "adam", "adamw"
    precisions = "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.side, self.actions = r.choice([2, 3]), r.choice([16, 32, 48]), r.choice([64, 80]), r.choice([9, 18])
        self.moments, self.size = r.choice([16, 20, 32]), r.choice([8, 16, 24])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Playing(self))
        self.dataset = (torch.zeros(48, self.moments + 1, 4, self.side, self.side, dtype=torch.uint8), torch.zeros(48, self.moments + 1, dtype=torch.long),
                        torch.zeros(48, self.moments), torch.zeros(48, self.moments))

    def batch(self, i):
        frames, done, rewards, likely = cut(self.dataset, i, self.size)
        return frames.to(self.dtype).div_(255), done, rewards, likely

    def predict(self, batch):
        before = F.one_hot(batch[1].transpose(0, 1), self.actions)
        with self.autocast():
            return self.model(batch[0].transpose(0, 1), before)[0]

    def loss(self, batch):
        frames, done, rewards, likely = batch
        with self.autocast():
            scores, worth = self.model(frames.transpose(0, 1), F.one_hot(done.transpose(0, 1), self.actions))
        told, worth = scores[:-1].float().log_softmax(-1), worth.float()
        mine = told.gather(-1, done.transpose(0, 1)[1:, :, None]).squeeze(-1)
        ratio = (mine.detach() - likely.T).exp()
        wanted = corrected(worth.detach(), rewards.T, ratio)
        better = (wanted - worth[:-1].detach()) * ratio.clamp(max=1.0)
        return -(mine * better).mean() + 0.5 * F.mse_loss(worth[:-1], wanted) + 0.01 * (told.exp() * told).sum(-1).mean()


def tower(start, width, layers, end):
    sizes = [start] + [width] * layers
    return nn.Sequential(*[m for a, b in zip(sizes, sizes[1:]) for m in (nn.Linear(a, b), nn.GELU())], nn.Linear(width, end))


@job("operator_by_points", "operators by points", "loop", "layers", "eval", "dataset")
class OperatorByPoints(Loop):
    """A field at any points, from what sensors say of its cause: one network for the sensors, one for the points, and their product."""
    kinds = "adam", "adamw", "adamw_loop"
    precisions = "fp32",

    def draw(self):
        r = self.rng
        self.layers, self.width, self.sensors, self.middle = r.choice([3, 4, 5]), r.choice([256, 512]), r.choice([100, 256]), r.choice([128, 256])
        self.points, self.size = r.choice([1024, 2048]), r.choice([32, 48, 64])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(nn.ModuleDict({"cause": tower(self.sensors, self.width, self.layers, self.middle),
                                       "place": tower(3, self.width, self.layers, self.middle)}))
        self.dataset = torch.zeros(128, self.sensors), torch.zeros(128, self.points, 3), torch.zeros(128, self.points)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        return torch.einsum("bm,bpm->bp", self.model["cause"](batch[0]), self.model["place"](batch[1]))

    def loss(self, batch):
        told, wanted = self.predict(batch), batch[2]
        return ((told - wanted).norm(dim=1) / (wanted.norm(dim=1) + 1.0)).mean()


class Spread(nn.Module):
    """What people and things are spreads along what was bought, some times."""

    def __init__(self, o):
        super().__init__()
        self.people, self.things = nn.Embedding(o.people, o.each), nn.Embedding(o.things, o.each)
        self.steps = nn.ModuleList(nn.Linear(o.each, o.each, bias=False) for _ in range(o.layers))

    def forward(self, bought):
        who, what = bought
        x, y = self.people.weight, self.things.weight
        told = [(x, y)]
        for step in self.steps:
            x, y = (F.leaky_relu(step(torch.zeros_like(here).index_add(0, at, there.index_select(0, other)))) for here, there, at, other in
                    ((x, y, who, what), (y, x, what, who)))
            told.append((x, y))
        return torch.cat([torch.stack(side).mean(0) for side in zip(*told)])


@job("things_as_a_graph", "people and things as a graph", "loop", "layers", "eval")
class ThingsAsAGraph(Loop):
    """Whoever bought a thing should be nearer to it than to another; the whole graph of purchases is in each step."""
    kinds = "adam", "adamw"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.each, self.people, self.things = r.choice([2, 3]), r.choice([64, 128]), r.choice([40000, 80000]), r.choice([20000, 40000])
        self.edges = r.choice([400_000, 800_000])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Spread(self))

    def batch(self, i):
        n = torch.arange(self.edges, device=DEVICE)
        return n % self.people, n * 7 % self.things

    def predict(self, bought):
        with self.autocast():
            return self.model(bought)

    def loss(self, bought):
        who, what = (t[:8192] for t in bought)
        vectors = self.predict(bought).float()
        mine, good, other = (vectors.index_select(0, at) for at in (who, self.people + what, self.people + what.flip(0)))
        return F.softplus((mine * other).sum(1) - (mine * good).sum(1)).mean() + 1e-5 * (mine.square() + good.square()).sum()
