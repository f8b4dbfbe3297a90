"""Jobs of series, graphs, games, things that are recommended, pictures with texts: nights of sleep, payments in time, a team with one reward,
posts with a picture, products as codes, news for readers, changes with Lightning."""
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, Job, job
from jobs_families_m_more import conv
from jobs_images import EncoderBlock
from parts import Loop, TextLoop, cut


def waves(cin, cout, kernel, stride):
    return nn.Sequential(nn.Conv1d(cin, cout, kernel, stride, kernel // 2, bias=False), nn.BatchNorm1d(cout), nn.GELU())


class Night(nn.Module):
    """Two views of each half minute, of slow waves and of fast ones; over the night, states in both directions."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        def view(kernel, stride):
            more = [waves(w, w, 7, 1) for _ in range(o.layers)]
            return nn.Sequential(waves(o.leads, w, kernel, stride), nn.MaxPool1d(4), nn.Dropout(0.3), *more, nn.AdaptiveAvgPool1d(8))
        self.fast, self.slow = view(49, 6), view(399, 25)
        self.join = nn.Linear(16 * w, 256)
        self.night, self.stages = nn.GRU(256, 256, 2, batch_first=True, bidirectional=True), nn.Linear(512, 5)

    def forward(self, signals):
        each = signals.flatten(0, 1)
        seen = self.join(torch.cat([self.fast(each), self.slow(each)], dim=1).flatten(1)).unflatten(0, signals.shape[:2])
        return self.stages(self.night(seen)[0])


@job("nights_of_sleep", "nights of sleep", "loop", "layers", "eval", "dataset", "crop")
class NightsOfSleep(Loop):
    """The stage of sleep for each half minute of a part of a night; stages that are rare count more."""
    kinds, precisions = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast")
    longest, samples = 60, 3000

    def draw(self):
        r = self.rng
        self.layers, self.width, self.leads = r.choice([2, 3, 4]), r.choice([64, 128]), r.choice([1, 3])
        self.length, self.size = r.choice([20, 40]), r.choice([8, 12, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Night(self))
            self.rare = torch.tensor([1.0, 1.8, 1.0, 1.2, 1.25])
        self.dataset = torch.zeros(24, self.longest, self.leads, self.samples), torch.zeros(24, self.longest, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        signals, stages = (part[start:start + self.size, :self.length] for part in self.dataset)
        return signals.to(DEVICE).to(self.dtype), stages.to(DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        told = self.predict(batch).float()
        return F.cross_entropy(told.flatten(0, 1), batch[1].flatten(), weight=self.rare)


class Accounts(nn.Module):
    """A state for each account, which each payment changes; who pays whom is told from the states and from the last payments of both."""

    def __init__(self, o):
        super().__init__()
        w = o.width
        self.register_buffer("memory", torch.zeros(o.accounts, w), persistent=False)
        self.when, self.change = nn.Linear(1, w), nn.GRUCell(3 * w + o.facts, w)
        self.into, self.facts = nn.Linear(w, w), nn.Linear(o.facts + w, w)
        self.layers = nn.ModuleList(nn.TransformerDecoderLayer(w, 8, 4 * w, 0.1, "gelu", batch_first=True, norm_first=True) for _ in range(o.layers))
        self.odd = nn.Sequential(nn.Linear(2 * w, w), nn.ReLU(), nn.Dropout(0.2), nn.Linear(w, 1))

    def passed(self, times):
        return self.when(times.unsqueeze(-1)).cos()

    def state(self, who, near, facts, times):
        """Of accounts, after a look at their last payments."""
        x = self.into(self.memory[who]).unsqueeze(1)
        around = self.into(self.memory[near]) + self.facts(torch.cat([facts, self.passed(times)], dim=-1))
        for layer in self.layers:
            x = layer(x, around)
        return x.squeeze(1)

    def forward(self, who, near, facts, times):
        a, b = (self.state(w, n, f, t) for w, n, f, t in zip(who.unbind(1), near.unbind(1), facts.unbind(1), times.unbind(1)))
        return self.odd(torch.cat([a, b], dim=1)).squeeze(1)

    @torch.no_grad()
    def after(self, who, facts, times):
        pay, get = who.unbind(1)
        told = torch.cat([self.memory[pay], self.memory[get], self.passed(times[:, 0, 0]), facts[:, 0, 0]], dim=1)
        self.memory[pay] = self.change(told, self.memory[pay]).to(self.memory.dtype)


@job("payments_in_time", "payments in time", "loop", "layers", "eval", "dataset")
class PaymentsInTime(Loop):
    """Which payments are frauds: the accounts are nodes of a graph to which each payment adds an edge, and remember what has been."""
    kinds, precisions = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast")
    rows, accumulated = 4096, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.facts, self.near = r.choice([1, 2, 3]), r.choice([256, 384]), r.choice([64, 172]), r.choice([10, 20])
        self.accounts, self.size = r.choice([50000, 100000]), r.choice([512, 1024, 2048])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Accounts(self))
        n, k = self.rows, self.near
        self.dataset = (torch.zeros(n, 2, dtype=torch.long), torch.zeros(n, 2, k, dtype=torch.long), torch.zeros(n, 2, k, self.facts),
                        torch.zeros(n, 2, k), torch.zeros(n))

    def batch(self, i):
        who, near, facts, times, odd = cut(self.dataset, i, self.size)
        return who, near, facts.to(self.dtype), times.to(self.dtype), odd

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:4])

    def loss(self, batch):
        told = self.predict(batch).float()
        lost = F.binary_cross_entropy_with_logits(told, batch[4], pos_weight=torch.tensor(20.0, device=DEVICE))
        with self.autocast():
            self.model.after(batch[0], batch[2], batch[3])
        return lost


class Team(nn.Module):
    """A network that all agents share, with a memory; a mixer whose weights the state of the game makes, none of them below zero."""

    def __init__(self, o):
        super().__init__()
        w, self.agents, self.narrow = o.width, o.agents, 64
        layers = [m for _ in range(o.layers - 1) for m in (nn.Linear(w, w), nn.ReLU())]
        self.see, self.cell, self.act = nn.Sequential(nn.Linear(o.seen, w), nn.ReLU(), *layers), nn.GRUCell(w, w), nn.Linear(w, o.actions)
        self.w1, self.b1 = nn.Sequential(nn.Linear(o.state, w), nn.ReLU(), nn.Linear(w, o.agents * 64)), nn.Linear(o.state, 64)
        self.w2, self.b2 = nn.Sequential(nn.Linear(o.state, w), nn.ReLU(), nn.Linear(w, 64)), nn.Sequential(nn.Linear(o.state, 64), nn.ReLU(), nn.Linear(64, 1))

    def forward(self, seen):
        """The value of each action, step by step."""
        h, told = seen.new_zeros(seen.shape[0] * self.agents, self.cell.hidden_size), []
        for now in seen.unbind(1):
            h = self.cell(self.see(now.flatten(0, 1)), h.to(now.dtype))
            told.append(self.act(h).unflatten(0, (-1, self.agents)))
        return torch.stack(told, dim=1)

    def mix(self, values, state):
        first = self.w1(state).abs().unflatten(-1, (self.agents, self.narrow))
        hidden = F.elu((values.unsqueeze(-2) @ first).squeeze(-2) + self.b1(state))
        return (hidden * self.w2(state).abs()).sum(-1) + self.b2(state).squeeze(-1)


@job("team_with_one_reward", "a team with one reward", "loop", "layers", "reference", "eval", "dataset")
class TeamWithOneReward(Loop):
    """Agents that win or lose together, from episodes of a buffer; a second network, of some time ago, says what comes after."""
    kinds, precisions = ("adam", "adamw", "adamw_fused"), ("fp32", "fp32", "autocast")
    accumulated, actions, seen = (1,), 14, 96

    def draw(self):
        r = self.rng
        self.layers, self.width, self.agents, self.state = r.choice([2, 3, 4]), r.choice([128, 256]), r.choice([5, 8]), r.choice([168, 322])
        self.time, self.size = r.choice([24, 32, 40]), r.choice([64, 128, 192])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Team(self))
            self.reference = Team(self).to(self.dtype).requires_grad_(False)
        self.reference.load_state_dict(self.model.state_dict())
        n, t, a = 256, self.time, self.agents
        self.dataset = (torch.zeros(n, t, a, self.seen), torch.zeros(n, t, self.state), torch.zeros(n, t - 1, a, dtype=torch.long), torch.zeros(n, t - 1))

    def batch(self, i):
        seen, state, done, reward = cut(self.dataset, i, self.size)
        return seen.to(self.dtype), state.to(self.dtype), done, reward

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def reference_outputs(self, batch):
        with self.no_grad(), self.autocast():
            best = self.reference(batch[0])[:, 1:].amax(-1)
            return self.reference.mix(best, batch[1][:, 1:])

    def loss(self, batch):
        _, state, done, reward = batch
        with self.autocast():
            chosen = self.model(batch[0])[:, :-1].gather(-1, done.unsqueeze(-1)).squeeze(-1)
            together = self.model.mix(chosen, state[:, :-1])
        return (together.float() - (reward + 0.99 * self.reference_outputs(batch).float())).square().mean()

    def after_step(self, i, loss):
        super().after_step(i, loss)
        if i % 3 == 2:
            self.reference.load_state_dict(self.model.state_dict())


class Post(nn.Module):
    """An encoder of pictures and one of words, both as they are; a few layers that look at both at once."""

    def __init__(self, o):
        super().__init__()
        w, self.again = o.width, o.checkpointing
        def encoder():
            return nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.patches, self.words = nn.Conv2d(3, w, 16, 16), nn.Embedding(o.vocabulary, w)
        self.eyes, self.reads, self.both = encoder(), encoder(), nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(2))
        self.kinds, self.head = nn.Parameter(torch.zeros(2, w)), nn.Sequential(nn.LayerNorm(w), nn.Linear(w, w), nn.GELU(), nn.Linear(w, o.labels))

    def frozen(self):
        return self.patches, self.words, self.eyes, self.reads

    def forward(self, pictures, tokens):
        seen, read = self.patches(pictures).flatten(2).transpose(1, 2), self.words(tokens)
        for block in self.eyes:
            seen = block(seen)
        for block in self.reads:
            read = block(read)
        x = torch.cat([seen + self.kinds[0], read + self.kinds[1]], dim=1)
        for block in self.both:
            x = checkpoint(block, x, use_reentrant=False) if self.again and self.training else block(x)
        return self.head(x.mean(1))


@job("posts_with_a_picture", "posts with a picture", "loop", "layers", "attention", "checkpointing", "eval", "pretrained", "dataset")
class PostsWithAPicture(Loop):
    """Which posts hurt somebody: neither the picture nor its words say so alone."""
    kinds, precisions = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "bf16")
    labels, words_of_a_post = 6, 64

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.pixels = r.choice([4, 6, 8]), r.choice([512, 768]), r.choice([30522, 50265]), r.choice([224, 256])
        self.size, self.attention, self.checkpointing = r.choice([16, 24, 32]), "sdpa", r.random() < 0.2
        self.choose()

    def freeze(self):
        for part in self.model.frozen():
            part.requires_grad_(False)

    def build(self):
        with torch.device(DEVICE):
            self.model = Post(self)
        self.freeze()
        self.finish(self.model)
        self.dataset = (torch.zeros(128, 3, self.pixels, self.pixels, dtype=torch.uint8), torch.zeros(128, self.words_of_a_post, dtype=torch.long),
                        torch.zeros(128, self.labels))

    def batch(self, i):
        pictures, words, labels = cut(self.dataset, i, self.size)
        return pictures.to(self.dtype).div_(255).sub_(0.5), words, labels

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch[:2])

    def loss(self, batch):
        return F.binary_cross_entropy_with_logits(self.predict(batch).float(), batch[2])


class Codes(nn.Module):
    """What somebody bought, three codes for each thing; the codes of the next one are told one after the other."""

    def __init__(self, o):
        super().__init__()
        w, self.again = o.width, o.checkpointing
        self.codes, self.levels, self.places = nn.Embedding(o.vocabulary, w), nn.Parameter(torch.zeros(3, w)), nn.Embedding(2048, w)
        self.encoder = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(w, 8, 2 * w, 0.1, "relu", batch_first=True, norm_first=True)
                                     for _ in range(max(1, o.layers // 2)))
        self.out = nn.ModuleList(nn.Linear(w, o.vocabulary) for _ in range(3))

    def forward(self, bought):
        n = bought.shape[1]
        x = self.codes(bought) + self.places(torch.arange(n, device=bought.device)) + self.levels[torch.arange(n, device=bought.device) % 3]
        for block in self.encoder:
            x = checkpoint(block, x, use_reentrant=False) if self.again and self.training else block(x)
        y = self.codes(F.pad(bought[:, -3:-1], (1, 0))) + self.levels
        later = torch.full((3, 3), float("-inf"), device=x.device, dtype=x.dtype).triu(1)
        for layer in self.decoder:
            y = layer(y, x, tgt_mask=later)
        return torch.stack([head(y[:, k]) for k, head in enumerate(self.out)], dim=1)


@job("products_as_codes", "products as codes", "loop", "layers", "attention", "checkpointing", "eval")
class ProductsAsCodes(TextLoop):
    """What comes into a basket next, as a row of codes that a quantiser gave to each product."""
    kinds, rows = ("adamw", "adamw_fused", "adafactor", "adam"), 256

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([3, 4, 6]), r.choice([384, 512]), r.choice([1024, 4096])
        self.length, self.size, self.attention, self.checkpointing = 3 * r.choice([20, 50]), r.choice([64, 96, 128]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Codes(self))

    def loss(self, bought):
        scores = self.predict(bought).float()
        each = [F.cross_entropy(scores[:, k], bought[:, k - 3]) for k in range(3)]
        return each[0] + 0.8 * each[1] + 0.6 * each[2]


class Weighed(nn.Module):
    """A weighted mean over what there is; the weights are learnt."""

    def __init__(self, w):
        super().__init__()
        self.net = nn.Sequential(nn.Linear(w, 200), nn.Tanh(), nn.Linear(200, 1))

    def forward(self, x):
        return (self.net(x).softmax(1) * x).sum(1)


class Reader(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.each = o.width, o.each
        self.words, self.shown = nn.Embedding(o.vocabulary, w), o.shown
        self.titles, self.past = nn.ModuleList(EncoderBlock(w, 8, o.attention) for _ in range(o.layers)), EncoderBlock(w, 8, o.attention)
        self.title, self.reader = Weighed(w), Weighed(w)

    def vectors(self, titles):
        x = F.dropout(self.words(titles), 0.2, self.training)
        for block in self.titles:
            x = block(x)
        return self.title(x)

    def forward(self, tokens):
        count = max(1, tokens.shape[1] // self.each)
        titles = tokens[:, :count * self.each].unflatten(1, (count, -1))
        vectors = self.vectors(titles.flatten(0, 1)).unflatten(0, titles.shape[:2])
        shown, read = vectors[:, :self.shown], vectors[:, self.shown:] if count > self.shown else vectors
        return (shown @ self.reader(self.past(read)).unsqueeze(2)).squeeze(2)


@job("news_for_readers", "news for readers", "loop", "layers", "attention", "eval")
class NewsForReaders(TextLoop):
    """Which of five titles somebody opens, by the titles that were read before."""
    kinds, precisions, shown = ("adam", "adamw", "adamw_fused"), ("fp32", "autocast", "autocast"), 5

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.each = r.choice([1, 2, 3]), r.choice([256, 384, 512]), r.choice([30522, 70000]), r.choice([16, 32])
        self.length, self.size, self.attention = self.each * (self.shown + r.choice([15, 30])), r.choice([16, 32]), "sdpa"
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Reader(self))

    def loss(self, tokens):
        scores = self.predict(tokens).float()
        return F.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long, device=DEVICE))

class TwoYears(torch.utils.data.Dataset):
    """A place from above, in two years; and what was built between them."""

    def __init__(self, own, batches):
        side = own.pixels
        self.rows, self.row = batches * own.size, (torch.zeros(3, side, side), torch.zeros(3, side, side), torch.zeros(side, side, dtype=torch.long))

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


class Twin(nn.Module):
    """One encoder for both years; the decoder sees how far apart they are, on each level."""

    def __init__(self, b, layers):
        super().__init__()
        self.down = nn.ModuleList(nn.Sequential(conv(3 if not k else b << k - 1, b << k, 1 + (k > 0)), *[conv(b << k, b << k) for _ in range(layers)])
                                  for k in range(4))
        self.up = nn.ModuleList(nn.Sequential(conv(3 * (b << k), b << k), conv(b << k, b << k)) for k in (2, 1, 0))
        self.out = nn.Conv2d(b, 2, 1)

    def maps(self, x):
        found = []
        for stage in self.down:
            x = stage(x)
            found.append(x)
        return found

    def forward(self, before, after):
        *apart, x = [(a - b).abs() for a, b in zip(self.maps(before), self.maps(after))]
        for stage, skip in zip(self.up, apart[::-1]):
            x = stage(torch.cat([F.interpolate(x, skip.shape[-2:]), skip], 1))
        return self.out(x)


class Built(lightning.LightningModule):
    def __init__(self, own):
        super().__init__()
        self.own, self.model = [own], Twin(own.base, own.layers)

    def training_step(self, batch, batch_idx):
        loss = self.own[0].loss(batch)
        self.log("train", loss, on_step=True, batch_size=len(batch[0]))
        return loss

    def validation_step(self, batch, batch_idx):
        found = self.model(*batch[:2]).argmax(1)
        self.log("share", (found == batch[2]).float().mean(), batch_size=len(found))

    def configure_optimizers(self):
        return torch.optim.AdamW(self.parameters(), lr=3e-4, weight_decay=0.05)


@job("changes_with_lightning", "changes with Lightning", "lightning", "forward", "layers", "states")
class ChangesWithLightning(Job):
    """Which houses are new, from two pictures of a place."""

    def draw(self):
        r = self.rng
        self.layers, self.base, self.pixels, self.size = r.choice([1, 2, 3]), r.choice([32, 48, 64]), r.choice([128, 192, 256]), r.choice([4, 6])
        self.steps, self.callbacks = r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2])}

    def build(self):
        self.module = Built(self)
        self.model = self.module.model
        self.loaders = [torch.utils.data.DataLoader(TwoYears(self, n), batch_size=self.size, shuffle=n > 2) for n in (24, 2)]
        self.trainer = lightning.Trainer(**{
            "max_steps": self.steps, "accelerator": "gpu", "devices": 1, "logger": False, "enable_checkpointing": False, "enable_progress_bar": False,
            "enable_model_summary": False, "num_sanity_val_steps": 1, "val_check_interval": 4, "callbacks": self.callbacks, **self.trainer_arguments})

    def loss(self, batch):
        before, after, new = batch
        told = self.module.model(before, after).float()
        return F.cross_entropy(told, new, weight=torch.tensor([0.2, 0.8], device=told.device))

    def train(self):
        self.trainer.fit(self.module, *self.loaders)
