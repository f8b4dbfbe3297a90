"""Jobs of graphs, decisions, physics and shops: links, decisions in a row, a world that is dreamt, a solver in the loop, baskets, candidates, heartbeats."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from transformers import GPT2Model

from core import DEVICE, job
from parts import Loop, cut


class EdgeAttention(nn.Module):
    """Each node weighs its neighbours, edge by edge."""

    def __init__(self, width, heads=4):
        super().__init__()
        self.heads, self.value, self.weigh = heads, nn.Linear(width, width), nn.Linear(2 * width, heads)
        self.norm = nn.LayerNorm(width)

    def forward(self, x, start, end):
        scores = F.leaky_relu(self.weigh(torch.cat([x.index_select(0, start), x.index_select(0, end)], dim=1)), 0.2).float().exp()
        total = torch.zeros(len(x), self.heads, device=x.device).index_add(0, end, scores)
        weights = (scores / total.index_select(0, end).clamp(min=1e-6)).to(x.dtype)
        sent = (self.value(x).index_select(0, start).unflatten(1, (self.heads, -1)) * weights[..., None]).flatten(1)
        return self.norm(x + torch.zeros_like(x).index_add(0, end, sent.to(x.dtype)))


class LinkNet(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.into, self.layers = nn.Linear(o.features, o.width), nn.ModuleList(EdgeAttention(o.width) for _ in range(o.layers))

    def forward(self, graph):
        features, start, end = graph
        x = self.into(features)
        for layer in self.layers:
            x = layer(x, start, end)
        return x


@job("links", "links of a graph", "loop", "layers", "eval")
class Links(Loop):
    """Which nodes know each other: edges of a part of a graph against others that are made up."""
    kinds = "adam", "adamw"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.features, self.degree = r.choice([2, 3]), r.choice([128, 256]), r.choice([64, 128]), r.choice([8, 12])
        self.nodes = r.choice([8192, 16384, 24576])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(LinkNet(self))

    def batch(self, i):
        end = torch.arange(self.nodes, device=DEVICE).repeat_interleave(self.degree)
        start = (end * 31 + torch.arange(len(end), device=DEVICE)) % self.nodes
        return torch.zeros(self.nodes, self.features).to(DEVICE, self.dtype), start, end

    def predict(self, graph):
        with self.autocast():
            return self.model(graph)

    def loss(self, graph):
        x, (_, start, end) = self.predict(graph).float(), graph
        known, made_up = ((x.index_select(0, a) * x.index_select(0, b)).sum(1) for a, b in ((start[::4], end[::4]), (start[::4], end[::4].flip(0))))
        return F.softplus(-known).mean() + F.softplus(made_up).mean()


class Deciding(nn.Module):
    def __init__(self, o):
        super().__init__()
        config = transformers.GPT2Config(n_layer=o.layers, n_embd=o.width, n_head=8, vocab_size=1, n_positions=3 * o.moments, use_cache=False,
                                         attn_implementation=o.attention)
        self.reward, self.state, self.action = nn.Linear(1, o.width), nn.Linear(o.seen, o.width), nn.Linear(o.done, o.width)
        self.time, self.body, self.told = nn.Embedding(2048, o.width), GPT2Model(config), nn.Linear(o.width, o.done)

    def forward(self, path):
        rewards, states, actions = path
        when = self.time(torch.arange(states.shape[1], device=states.device))
        x = torch.stack([self.reward(rewards) + when, self.state(states) + when, self.action(actions) + when], dim=2).flatten(1, 2)
        return self.told(self.body(inputs_embeds=x).last_hidden_state[:, 1::3])


@job("decisions", "decisions in a row", "loop", "layers", "attention", "eval", "dataset")
class Decisions(Loop):
    """Rewards to come, states and actions as one text; the next action is told."""
    kinds = "adamw", "adamw_fused", "adamw_loop"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention, self.seen, self.done = r.choice([3, 4, 6]), r.choice([256, 512]), "sdpa", r.choice([17, 111]), r.choice([6, 8])
        self.moments, self.size = r.choice([60, 120, 200]), r.choice([16, 32, 64])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Deciding(self))
        self.dataset = tuple(torch.zeros(256, self.moments, n) for n in (1, self.seen, self.done))

    def batch(self, i):
        return [t.to(self.dtype) for t in cut(self.dataset, i, self.size)]

    def predict(self, batch):
        with self.autocast():
            return self.model(batch)

    def loss(self, batch):
        return F.mse_loss(self.predict(batch).float().tanh(), batch[2].float())


class World(nn.Module):
    """Frames to codes, a recurrent state that foretells the next code, and frames from the state."""

    def __init__(self, o):
        super().__init__()
        w = o.base
        self.see = nn.Sequential(nn.Conv2d(3, w, 4, 2, 1), nn.SiLU(), nn.Conv2d(w, 2 * w, 4, 2, 1), nn.SiLU(), nn.Conv2d(2 * w, 4 * w, 4, 2, 1), nn.SiLU(),
                                 nn.Flatten())
        self.code, self.cell = nn.Linear(4 * w * 64 + o.width, o.codes), nn.GRUCell(o.codes + 6, o.width)
        self.foretell, self.reward = nn.Linear(o.width, o.codes), nn.Linear(o.width + o.codes, 1)
        self.wide = nn.Linear(o.width + o.codes, 4 * w * 64)
        self.show = nn.Sequential(nn.ConvTranspose2d(4 * w, 2 * w, 4, 2, 1), nn.SiLU(), nn.ConvTranspose2d(2 * w, w, 4, 2, 1), nn.SiLU(),
                                  nn.ConvTranspose2d(w, 3, 4, 2, 1))

    def forward(self, frames, actions):
        seen, state, told = self.see(frames.flatten(0, 1)).unflatten(0, frames.shape[:2]), frames.new_zeros(len(frames), self.cell.hidden_size), []
        for t in range(frames.shape[1]):
            code = self.code(torch.cat([seen[:, t], state], dim=1))
            soft = code.unflatten(1, (-1, 32)).softmax(-1).flatten(1)
            told.append((torch.cat([state, soft], dim=1), self.foretell(state), code))
            state = self.cell(torch.cat([soft, actions[:, t]], dim=1).to(state.dtype), state)
        both, prior, after = (torch.stack(parts, dim=1) for parts in zip(*told))
        shown = self.show(self.wide(both).flatten(0, 1).unflatten(1, (-1, 8, 8)))
        return shown, self.reward(both), prior, after


@job("world_model", "world model", "loop", "eval", "dataset")
class WorldModel(Loop):
    """What an agent will see: pieces of its past, restored frame by frame."""
    kinds = "adam", "adamw"
    precisions = "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.base, self.width, self.codes = r.choice([48, 64]), r.choice([512, 1024]), r.choice([512, 1024])
        self.moments, self.size = r.choice([8, 12, 16]), r.choice([12, 16, 24])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(World(self))
        self.dataset = torch.zeros(64, self.moments, 3, 64, 64, dtype=torch.uint8), torch.zeros(64, self.moments, 6)

    def batch(self, i):
        frames, actions = cut(self.dataset, i, self.size)
        return frames.to(self.dtype) / 255 - 0.5, actions.to(self.dtype)

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)[0]

    def loss(self, batch):
        with self.autocast():
            shown, reward, prior, after = self.model(*batch)
        prior, after = (t.float().unflatten(-1, (-1, 32)).log_softmax(-1) for t in (prior, after))
        apart = F.kl_div(prior, after.detach(), reduction="mean", log_target=True) + 0.1 * F.kl_div(prior.detach(), after, reduction="mean", log_target=True)
        return F.mse_loss(shown.float(), batch[0].flatten(0, 1).float()) + reward.float().square().mean() + apart


class Corrector(nn.Module):
    def __init__(self, o):
        super().__init__()
        widths = [2] + [o.width] * o.layers
        self.body = nn.Sequential(*[m for a, b in zip(widths, widths[1:]) for m in (nn.Conv2d(a, b, 5, padding=2, padding_mode="circular"), nn.ReLU())])
        self.out = nn.Conv2d(o.width, 2, 3, padding=1, padding_mode="circular")

    def forward(self, field):
        return self.out(self.body(field))


def moved(field, dt=0.01):
    """A coarse step of a fluid: differences for what is carried along, and for friction."""
    along = [(field.roll(-1, dim) - field.roll(1, dim)) / 2 for dim in (2, 3)]
    carried = field[:, :1] * along[1] + field[:, 1:] * along[0]
    smooth = sum(field.roll(n, dim) for dim in (2, 3) for n in (-1, 1)) - 4 * field
    return field - dt * carried + 0.1 * dt * smooth


@job("solver_in_the_loop", "solver in the loop", "loop", "layers", "eval", "dataset")
class SolverInTheLoop(Loop):
    """A coarse solver and a network that corrects it, over some moments that are derived through."""
    kinds = "adam", "adamw"
    precisions = "fp32",

    def draw(self):
        r = self.rng
        self.layers, self.width, self.side = r.choice([3, 4]), r.choice([48, 64]), r.choice([96, 128])
        self.moments, self.size = r.choice([4, 6]), r.choice([8, 12])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Corrector(self))
        self.dataset = torch.zeros(32, 2, self.side, self.side), torch.zeros(32, self.moments, 2, self.side, self.side)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def path(self, field):
        for _ in range(self.moments):
            field = moved(field)
            field = field + 0.1 * self.model(field)
            yield field

    def predict(self, batch):
        return list(self.path(batch[0]))[-1]

    def loss(self, batch):
        return sum(F.mse_loss(field, batch[1][:, t]) for t, field in enumerate(self.path(batch[0]))) / self.moments


@job("baskets", "baskets", "loop", "eval")
class Baskets(Loop):
    """What else would be in a basket: an autoencoder over all things of a shop, with noise in the middle."""
    kinds = "adam", "adamw", "adamw_fused"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.things, self.width, self.middle, self.size = r.choice([20000, 40000]), r.choice([400, 600]), r.choice([128, 200]), r.choice([256, 512, 1024])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            down = nn.Sequential(nn.Dropout(0.5), nn.Linear(self.things, self.width), nn.Tanh(), nn.Linear(self.width, 2 * self.middle))
            self.finish(nn.ModuleDict({"down": down, "up": nn.Sequential(nn.Linear(self.middle, self.width), nn.Tanh(), nn.Linear(self.width, self.things))}))

    def batch(self, i):
        bought = torch.arange(40 * self.size, device=DEVICE).view(self.size, 40) % self.things
        return torch.zeros(self.size, self.things, device=DEVICE, dtype=self.dtype).scatter_(1, bought, 1.0)

    def parts(self, bought):
        with self.autocast():
            mean, spread = self.model["down"](bought).chunk(2, dim=1)
            return self.model["up"](mean + torch.randn_like(mean) * (spread / 2).exp()), mean, spread

    def predict(self, bought):
        return self.parts(bought)[0]

    def loss(self, bought):
        told, mean, spread = self.parts(bought)
        return -(told.float().log_softmax(1) * bought).sum(1).mean() + 0.1 * (mean.float().square() + spread.float().exp() - spread.float() - 1).sum(1).mean()


class Candidates(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.things = nn.Embedding(o.things, o.each)
        def tower(start):
            widths = [start] + [o.width] * o.layers
            return nn.Sequential(*[m for a, b in zip(widths, widths[1:]) for m in (nn.Linear(a, b), nn.BatchNorm1d(b), nn.ReLU())], nn.Linear(o.width, 64))
        self.who, self.what = tower(o.each + 32), tower(o.each + 16)

    def forward(self, seen, known):
        return F.normalize(self.who(torch.cat([self.things(seen).mean(1), known], dim=1)), dim=1)

    def offered(self, thing, known):
        return F.normalize(self.what(torch.cat([self.things(thing), known], dim=1)), dim=1)


@job("candidates", "candidates of a shop", "loop", "layers", "eval", "dataset")
class CandidatesOfAShop(Loop):
    """People and things in a common space; each person's thing against those of the others in the batch."""
    kinds = "adam", "adamw", "sgd_momentum"
    precisions = "fp32", "fp32", "autocast"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.each, self.things = r.choice([2, 3, 4]), r.choice([512, 1024]), r.choice([96, 128]), r.choice([200_000, 400_000])
        self.history, self.size = r.choice([50, 100]), r.choice([2048, 4096])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Candidates(self))
        n = 2 * self.size
        self.dataset = torch.zeros(n, self.history, dtype=torch.int32), torch.zeros(n, 32), torch.zeros(n, dtype=torch.int32), torch.zeros(n, 16)

    def batch(self, i):
        seen, known, thing, about = cut(self.dataset, i, self.size)
        return seen.long(), known.to(self.dtype), thing.long(), about.to(self.dtype)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0], batch[1])

    def loss(self, batch):
        who = self.predict(batch)
        with self.autocast():
            what = self.model.offered(batch[2], batch[3])
        return F.cross_entropy((who @ what.T).float() / 0.05, torch.arange(len(who), device=DEVICE))


class Beat(nn.Module):
    def __init__(self, a, b):
        super().__init__()
        self.body = nn.Sequential(nn.Conv1d(a, b, 17, 4, 8, bias=False), nn.BatchNorm1d(b), nn.ReLU(), nn.Dropout(0.2), nn.Conv1d(b, b, 17, 1, 8, bias=False),
                                  nn.BatchNorm1d(b))
        self.short = nn.Sequential(nn.MaxPool1d(4), nn.Conv1d(a, b, 1, bias=False))

    def forward(self, x):
        return F.relu(self.body(x) + self.short(x))


@job("heartbeats", "heartbeats", "loop", "eval", "dataset")
class Heartbeats(Loop):
    """Twelve leads of a heart, and what may be wrong with it."""
    kinds = "adam", "adamw", "sgd_momentum"

    def draw(self):
        self.base, self.samples, self.size = self.rng.choice([64, 96]), self.rng.choice([4096, 8192]), self.rng.choice([96, 128, 192])
        self.choose()

    def build(self):
        b = self.base
        stem = nn.Sequential(nn.Conv1d(12, b, 17, padding=8, bias=False), nn.BatchNorm1d(b), nn.ReLU())
        self.finish(nn.Sequential(stem, Beat(b, 2 * b), Beat(2 * b, 3 * b), Beat(3 * b, 4 * b), nn.AdaptiveAvgPool1d(1), nn.Flatten(), nn.Linear(4 * b, 26)))
        self.dataset = torch.zeros(256, 12, self.samples), torch.zeros(256, 26)

    def batch(self, i):
        leads, wrong = cut(self.dataset, i, self.size)
        return leads.to(self.dtype), wrong

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        scores = self.predict(batch).float()
        return F.binary_cross_entropy_with_logits(scores, batch[1], pos_weight=torch.full((26,), 3.0, device=DEVICE))
