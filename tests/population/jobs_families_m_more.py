"""Jobs of sounds, pictures and videos: notes of doctors, polyps, ships from above, the look of a picture, frames between frames."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_images import ImageLoop
from parts import Loop


class Half(nn.Module):
    """A feed-forward layer of which half is added."""

    def __init__(self, w):
        super().__init__()
        self.net = nn.Sequential(nn.LayerNorm(w), nn.Linear(w, 4 * w), nn.SiLU(), nn.Dropout(0.1), nn.Linear(4 * w, w), nn.Dropout(0.1))

    def forward(self, x):
        return x + 0.5 * self.net(x)


class Near(nn.Module):
    """What is near in time: a gate, a convolution for each channel."""

    def __init__(self, w, kernel=15):
        super().__init__()
        self.norm, self.into, self.out = nn.LayerNorm(w), nn.Conv1d(w, 2 * w, 1), nn.Conv1d(w, w, 1)
        self.depth, self.batch = nn.Conv1d(w, w, kernel, padding=kernel // 2, groups=w), nn.BatchNorm1d(w)

    def forward(self, x):
        y = F.glu(self.into(self.norm(x).transpose(1, 2)), dim=1)
        return x + self.out(F.silu(self.batch(self.depth(y)))).transpose(1, 2)


class Far(nn.Module):
    def __init__(self, w, heads, mode, reach=64):
        super().__init__()
        self.heads, self.mode, self.reach = heads, mode, reach
        self.norm, self.qkv, self.o = nn.LayerNorm(w), nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.places = nn.Embedding(2 * reach + 1, heads)

    def forward(self, x):
        n = x.shape[1]
        q, k, v = self.qkv(self.norm(x)).unflatten(-1, (3, self.heads, -1)).permute(2, 0, 3, 1, 4)
        at = torch.arange(n, device=x.device)
        bias = self.places((at[None] - at[:, None]).clamp(-self.reach, self.reach) + self.reach).permute(2, 0, 1).contiguous().to(q.dtype)
        if self.mode == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, attn_mask=bias.unsqueeze(0))
        else:
            y = torch.softmax(q @ k.transpose(-1, -2) / q.shape[-1] ** 0.5 + bias, dim=-1) @ v
        return x + self.o(y.transpose(1, 2).reshape(x.shape))


class Dictation(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.again, self.halfway = o.width, o.checkpointing, o.layers // 2
        self.less = nn.Sequential(nn.Conv2d(1, 64, 3, 2, 1), nn.ReLU(), nn.Conv2d(64, 64, 3, 2, 1), nn.ReLU())
        self.into = nn.Linear(64 * 20, w)
        self.blocks = nn.ModuleList(nn.Sequential(Half(w), Far(w, 8, o.attention), Near(w), Half(w), nn.LayerNorm(w)) for _ in range(o.layers))
        self.pieces, self.back = nn.Linear(w, o.pieces), nn.Linear(o.pieces, w)

    def forward(self, bands):
        x = self.into(self.less(bands.unsqueeze(1)).transpose(1, 2).flatten(2))
        early = None
        for k, block in enumerate(self.blocks):
            x = checkpoint(block, x, use_reentrant=False) if self.again and self.training else block(x)
            if k == self.halfway and self.training:
                early = self.pieces(x)
                x = x + self.back(early.softmax(-1))
        return self.pieces(x) if early is None else torch.stack([self.pieces(x), early])


@job("notes_of_doctors", "notes of doctors", "loop", "layers", "attention", "checkpointing", "eval", "dataset", "crop")
class NotesOfDoctors(Loop):
    """What doctors dictate, by pieces of words; the layers halfway have to know them, too, and bands and times are blotted out."""
    kinds, precisions = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "autocast")
    longest = 2000

    def draw(self):
        r = self.rng
        self.layers, self.width, self.pieces = r.choice([3, 4, 6]), r.choice([256, 384, 512]), r.choice([512, 1024, 2048])
        self.length, self.size, self.attention, self.checkpointing = r.choice([800, 1200, 1600]), r.choice([8, 12, 16]), "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Dictation(self))
        self.dataset = torch.zeros(48, self.longest, 80), torch.ones(48, 20, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        bands, words = (part[start:start + self.size] for part in self.dataset)
        return bands[:, :self.length].to(DEVICE).to(self.dtype), words.to(DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        bands, words = batch
        bands = bands.clone()
        bands[:, :, 10:24], bands[:, 40:90] = 0, 0
        with self.autocast():
            told = self.model(bands)
        logs = told.float().log_softmax(-1)
        logs = logs if logs.dim() == 4 else logs.unsqueeze(0)
        frames, letters = torch.full((len(bands),), logs.shape[2]), torch.full((len(bands),), min(words.shape[1], logs.shape[2] // 3))
        each = [F.ctc_loss(one.transpose(0, 1), words, frames, letters, zero_infinity=True) for one in logs]
        return each[0] if len(each) == 1 else 0.7 * each[0] + 0.3 * each[1]


class Reverse(nn.Module):
    """What the rougher map left out is looked at again."""

    def __init__(self, cin, w):
        super().__init__()
        self.less = nn.Conv2d(cin, w, 1)
        self.look = nn.Sequential(nn.Conv2d(w, w, 3, padding=1), nn.BatchNorm2d(w), nn.ReLU(True),
                                  nn.Conv2d(w, w, 3, padding=1), nn.ReLU(True), nn.Conv2d(w, 1, 1))

    def forward(self, maps, rough):
        rough = F.interpolate(rough, maps.shape[-2:], mode="bilinear", align_corners=False)
        return rough + self.look(self.less(maps) * (1 - rough.sigmoid()))


class Polyp(nn.Module):
    def __init__(self, encoder, widths, w):
        super().__init__()
        self.encoder, self.first = encoder, nn.Conv2d(widths[-1], 1, 1)
        self.steps = nn.ModuleList(Reverse(cin, w) for cin in widths[::-1])

    def forward(self, pictures):
        maps = self.encoder(pixel_values=pictures, output_hidden_states=True).hidden_states[1:]
        told = [self.first(maps[-1])]
        for step, m in zip(self.steps, maps[::-1]):
            told.append(step(m, told[-1]))
        return [F.interpolate(t, pictures.shape[-2:], mode="bilinear", align_corners=False) for t in told]


def overlap(told, masks):
    """Cross entropy, weighted near the edges, and one minus the weighted overlap."""
    near = 1 + 5 * (F.avg_pool2d(masks, 31, 1, 15) - masks).abs()
    lost = (near * F.binary_cross_entropy_with_logits(told, masks, reduction="none")).sum((2, 3)) / near.sum((2, 3))
    p = told.sigmoid()
    both, either = (near * p * masks).sum((2, 3)), (near * (p + masks)).sum((2, 3))
    return (lost + 1 - (both + 1) / (either - both + 1)).mean()


@job("polyps", "polyps", "loop", "images", "layers", "eval", "pretrained")
class Polyps(ImageLoop):
    """What an endoscope shows: masks from rough to fine, each of them with a loss; the first stages of the encoder stay as they are."""
    kinds, precisions = ("adamw", "adam", "adamw_fused"), ("fp32", "autocast")

    def draw(self):
        r = self.rng
        self.layers, self.base, self.narrow = r.choice([2, 3, 4]), r.choice([48, 64]), r.choice([32, 64])
        self.draw_images([256, 352], [4, 8, 12])
        self.choose()

    def freeze(self):
        self.model.encoder.embedder.requires_grad_(False)
        for stage in self.model.encoder.encoder.stages[:2]:
            stage.requires_grad_(False)

    def build(self):
        widths = [self.base << k for k in range(1, 5)]
        config = transformers.ResNetConfig(embedding_size=self.base, hidden_sizes=widths, depths=[2, 2, self.layers, 2], layer_type="basic")
        with torch.device(DEVICE):
            self.model = Polyp(transformers.ResNetModel(config), widths, self.narrow)
        self.freeze()
        self.finish(self.model)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[-1].sigmoid()

    def loss(self, batch):
        with self.autocast():
            told = self.model(batch[0])
        masks = (batch[0][:, :1] > 0.5).float()
        return sum(overlap(t.float(), masks) for t in told) / len(told)


def conv(cin, cout, stride=1, kernel=3):
    return nn.Sequential(nn.Conv2d(cin, cout, kernel, stride, kernel // 2, bias=False), nn.BatchNorm2d(cout), nn.SiLU(True))


class Ships(nn.Module):
    """A pyramid of four levels; at each place, a score, four sides and an angle."""

    def __init__(self, o):
        super().__init__()
        stages, cin, b = [], o.base, o.base
        self.stem = conv(3, b, 2)
        for k in range(4):
            stages.append(nn.Sequential(conv(cin, b << k, 2), *[conv(b << k, b << k) for _ in range(o.layers)]))
            cin = b << k
        self.stages, w = nn.ModuleList(stages), 2 * b
        self.side, self.smooth = nn.ModuleList(nn.Conv2d(b << k, w, 1) for k in range(4)), nn.ModuleList(nn.Conv2d(w, w, 3, padding=1) for _ in range(4))
        def tower(cout):
            layers = [m for _ in range(3) for m in (nn.Conv2d(w, w, 3, padding=1), nn.GroupNorm(8, w), nn.ReLU(True))]
            return nn.Sequential(*layers, nn.Conv2d(w, cout, 3, padding=1))
        self.what, self.where = tower(o.kinds_of_ships), tower(5)

    def forward(self, pictures):
        x, maps, told = self.stem(pictures), [], []
        for stage in self.stages:
            x = stage(x)
            maps.append(x)
        above = None
        for side, smooth, m in list(zip(self.side, self.smooth, maps))[::-1]:
            above = side(m) if above is None else side(m) + F.interpolate(above, m.shape[-2:])
            y = smooth(above)
            told.append(torch.cat([self.what(y), self.where(y)], dim=1).flatten(2))
        return torch.cat(told, dim=2).transpose(1, 2)


@job("ships_from_above", "ships from above", "loop", "images", "layers", "eval")
class ShipsFromAbove(ImageLoop):
    """Boxes at any angle: each is a normal distribution, and how far two of those are apart is the loss; scores are focal."""
    kinds, precisions = ("adamw", "sgd_momentum", "adam"), ("fp32", "autocast", "autocast")
    kinds_of_ships = 15

    def draw(self):
        r = self.rng
        self.layers, self.base = r.choice([1, 2, 3]), r.choice([32, 48, 64])
        self.draw_images([384, 512, 640], [2, 4, 6])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Ships(self))

    @staticmethod
    def spread(box):
        """The square root of a covariance, from the sides and the angle."""
        sides, angle = F.softplus(box[..., 2:4]) / 2, box[..., 4]
        c, s = angle.cos(), angle.sin()
        turn = torch.stack([torch.stack([c, -s], -1), torch.stack([s, c], -1)], -2)
        return turn @ torch.diag_embed(sides) @ turn.mT

    def loss(self, batch):
        told = self.predict(batch).float()
        scores, boxes = told[..., :self.kinds_of_ships], told[..., self.kinds_of_ships:]
        wanted = torch.zeros_like(scores)
        p = scores.sigmoid()
        focal = 0.75 * p ** 2 * F.binary_cross_entropy_with_logits(scores, wanted, reduction="none")
        near = boxes[:, :64]
        truth = torch.ones_like(near)
        apart = (near[..., :2] - truth[..., :2]).square().sum(-1) + (self.spread(near) - self.spread(truth)).square().sum((-1, -2))
        return focal.sum() / 64 + (1 - 1 / (2 + torch.log1p(apart))).mean()


class Styled(nn.Module):
    """A layer of a diffusion transformer, with a way for words and, beside it, one for a picture."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode = mode
        self.n1, self.n2, self.n3 = (nn.LayerNorm(w, elementwise_affine=False) for _ in range(3))
        self.qkv, self.o, self.q, self.kv = nn.Linear(w, 3 * w), nn.Linear(w, w), nn.Linear(w, w), nn.Linear(w, 2 * w)
        self.time, self.wide = nn.Linear(w, 4 * w), nn.Sequential(nn.Linear(w, 4 * w), nn.GELU("tanh"), nn.Linear(4 * w, w))
        self.kv_picture = nn.Linear(w, 2 * w, bias=False)

    def look(self, q, k, v):
        q, k, v = (t.unflatten(-1, (8, -1)).transpose(1, 2) for t in (q, k, v))
        if self.mode == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = (q @ k.mT * q.shape[-1] ** -0.5).softmax(-1) @ v
        return y.transpose(1, 2).flatten(2)

    def forward(self, x, t, words, picture):
        a, b, c, d = self.time(t).unsqueeze(1).chunk(4, dim=-1)
        x = x + a * self.o(self.look(*self.qkv(self.n1(x) * (1 + b)).chunk(3, dim=-1)))
        q = self.q(self.n2(x))
        x = x + self.look(q, *self.kv(words).chunk(2, dim=-1)) + self.look(q, *self.kv_picture(picture).chunk(2, dim=-1))
        return x + c * self.wide(self.n3(x) * (1 + d))


class LookOf(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.again = o.width, o.checkpointing
        self.latents, self.into, self.out = nn.Conv2d(3, 4, 8, 8), nn.Conv2d(4, w, 1), nn.Linear(w, 4)
        self.time, self.places = nn.Sequential(nn.Linear(1, w), nn.SiLU()), nn.Parameter(torch.zeros((o.pixels // 8) ** 2, w))
        self.words, self.seen = nn.Parameter(torch.zeros(1, 77, w)), nn.Conv2d(3, w, 32, 32)
        self.tokens = nn.Sequential(nn.LayerNorm(w), nn.Linear(w, w), nn.GELU(), nn.Linear(w, w), nn.LayerNorm(w))
        self.layers = nn.ModuleList(Styled(w, o.attention) for _ in range(o.layers))

    def forward(self, noisy, t, pictures):
        with torch.no_grad():
            seen = self.seen(pictures).flatten(2).transpose(1, 2)
        picture, words = self.tokens(seen), self.words.expand(len(noisy), -1, -1)
        x, t = self.into(noisy).flatten(2).transpose(1, 2) + self.places, self.time(t[:, None])
        for layer in self.layers:
            x = checkpoint(layer, x, t, words, picture, use_reentrant=False) if self.again else layer(x, t, words, picture)
        return self.out(x).transpose(1, 2).unflatten(2, noisy.shape[-2:])


@job("look_of_a_picture", "the look of a picture", "loop", "images", "layers", "attention", "checkpointing", "eval", "pretrained")
class LookOfAPicture(ImageLoop):
    """A model that paints from words learns to take a picture's look as well: keys and values for it are new, all else is as it was."""
    kinds, precisions = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast", "bf16")

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention, self.checkpointing = r.choice([4, 6, 8]), r.choice([384, 512, 768]), "sdpa", r.random() < 0.2
        self.draw_images([256, 384], [4, 8])
        self.choose()

    def freeze(self):
        self.model.requires_grad_(False)
        self.model.tokens.requires_grad_(True)
        for layer in self.model.layers:
            layer.kv_picture.requires_grad_(True)

    def build(self):
        with torch.device(DEVICE):
            self.model = LookOf(self)
        self.freeze()
        self.finish(self.model)

    def mixed(self, pictures):
        with torch.no_grad(), self.autocast():
            clean = self.model.latents(pictures)
        noise, t = torch.randn_like(clean), torch.rand(len(clean), device=DEVICE).to(clean.dtype)
        share = t.view(-1, 1, 1, 1)
        return (1 - share) * clean + share * noise, t, noise - clean

    def predict(self, batch):
        noisy, t, _ = self.mixed(batch[0])
        with self.autocast():
            return self.model(noisy, t, batch[0])

    def loss(self, batch):
        noisy, t, way = self.mixed(batch[0])
        with self.autocast():
            told = self.model(noisy, t, batch[0])
        return (told.float() - way.float()).square().mean()


class Flow(nn.Module):
    """From coarse to fine: how both frames move towards the middle, and how much each of them counts."""

    def __init__(self, w, layers, less):
        super().__init__()
        self.less, wide = less, 2 * w
        self.body = nn.Sequential(nn.Conv2d(9 + 5, w, 3, 2, 1), nn.PReLU(w), nn.Conv2d(w, wide, 3, 2, 1), nn.PReLU(wide),
                                  *[m for _ in range(2 * layers) for m in (nn.Conv2d(wide, wide, 3, padding=1), nn.PReLU(wide))])
        self.out = nn.ConvTranspose2d(wide, 5, 8, 4, 2)

    def forward(self, seen, flow):
        size, x = seen.shape[-2:], torch.cat([seen, flow], 1)
        if self.less > 1:
            x = F.interpolate(x, scale_factor=1 / self.less, mode="bilinear", align_corners=False)
        return flow + F.interpolate(self.out(self.body(x)), size, mode="bilinear", align_corners=False)


def moved(frame, flow):
    h, w = frame.shape[-2:]
    y, x = torch.meshgrid(torch.linspace(-1, 1, h, device=frame.device), torch.linspace(-1, 1, w, device=frame.device), indexing="ij")
    at = torch.stack([x, y], -1).to(flow.dtype) + flow.permute(0, 2, 3, 1) / torch.tensor([w / 2, h / 2], device=frame.device, dtype=flow.dtype)
    return F.grid_sample(frame.to(at.dtype), at, padding_mode="border", align_corners=True)


class Middle(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.levels = nn.ModuleList(Flow(o.base, o.layers, less) for less in (4, 2, 1))

    def forward(self, frames):
        first, last = frames[:, :3], frames[:, -3:]
        flow, told = frames.new_zeros(len(frames), 5, *frames.shape[-2:]), []
        for level in self.levels:
            seen = torch.cat([first, last, first - last], 1)
            flow = level(seen, flow)
            a, b, share = moved(first, flow[:, :2]), moved(last, flow[:, 2:4]), flow[:, 4:].sigmoid()
            told.append(share * a + (1 - share) * b)
        return torch.stack(told)


@job("frames_between", "frames between frames", "loop", "images", "layers", "eval")
class FramesBetween(ImageLoop):
    """The frame in the middle of two others, for slow motion; each level from coarse to fine has its loss."""
    kinds, precisions, channels = ("adamw", "adamw_fused", "adam"), ("fp32", "autocast"), 9

    def draw(self):
        r = self.rng
        self.layers, self.base = r.choice([2, 3, 4]), r.choice([48, 64, 96])
        self.draw_images([192, 256], [4, 8, 12])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Middle(self))

    def loss(self, batch):
        told, wanted = self.predict(batch).float(), batch[0][:, 3:6].float()
        off = (F.avg_pool2d(told.flatten(0, 1), 2) - F.avg_pool2d(wanted, 2).repeat(len(told), 1, 1, 1)).abs().mean()
        return off + 0.5 * (told - wanted).abs().mean((1, 2, 3, 4)) @ torch.tensor([0.64, 0.8, 1.0], device=DEVICE)
