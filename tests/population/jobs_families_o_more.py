"""Jobs of pictures: words and pictures in one flow, pictures changed by words, windows that shift, boxes in two stages, several
resolutions at once, clouds with Lightning."""
import diffusers
import lightning
import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from core import DEVICE, Job, job
from jobs_families_n import in_heads, looked
from jobs_images import EncoderBlock, ImageLoop
from parts import cut, strided_convolutions


class Side(nn.Module):
    """What one of both rows has in a block: its projections, and six numbers for each channel, which the time gives."""

    def __init__(self, w):
        super().__init__()
        self.numbers, self.norm = nn.Linear(w, 6 * w), nn.LayerNorm(w, elementwise_affine=False)
        self.qkv, self.back = nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.wide = nn.Sequential(nn.Linear(w, 4 * w), nn.GELU(approximate="tanh"), nn.Linear(4 * w, w))

    def moved(self, x, shift, scale):
        return self.norm(x) * (1 + scale) + shift

    def start(self, x, time):
        numbers = self.numbers(F.silu(time)).unsqueeze(1).chunk(6, dim=-1)
        return [in_heads(t, 8) for t in self.qkv(self.moved(x, *numbers[:2])).chunk(3, dim=-1)], numbers[2:]

    def end(self, x, seen, rest):
        gate, shift, scale, last = rest
        x = x + gate * self.back(seen.transpose(1, 2).flatten(2))
        return x + last * self.wide(self.moved(x, shift, scale))


class Joint(nn.Module):
    """Words and places of a picture, which have weights of their own, and look at each other as one row."""

    def __init__(self, w, mode):
        super().__init__()
        self.mode, self.place, self.word = mode, Side(w), Side(w)

    def forward(self, x, words, time):
        (one, rest), (two, others) = self.place.start(x, time), self.word.start(words, time)
        q, k, v = (torch.cat(pair, dim=2) for pair in zip(one, two))
        seen, told = looked(q, k, v, self.mode, causal=False).split([x.shape[1], words.shape[1]], dim=2)
        return self.place.end(x, seen, rest), self.word.end(words, told, others)


class Flow(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.again = o.width, o.checkpointing
        self.into, self.out = nn.Conv2d(o.channels, w, 2, 2), nn.ConvTranspose2d(w, o.channels, 2, 2)
        self.words, self.places = nn.Linear(768, w), nn.Parameter(torch.zeros((o.pixels // 2) ** 2, w))
        self.time, self.whole = nn.Sequential(nn.Linear(128, w), nn.SiLU(), nn.Linear(w, w)), nn.Linear(768, w)
        self.blocks, self.norm = nn.ModuleList(Joint(w, o.attention) for _ in range(o.layers)), nn.LayerNorm(w)

    def forward(self, noisy, t, words):
        waves = t[:, None] * torch.arange(1, 65, device=t.device)
        time = self.time(torch.cat([waves.sin(), waves.cos()], dim=1).to(noisy.dtype)) + self.whole(words.mean(1))
        x, y, side = self.into(noisy), self.words(words), noisy.shape[-1] // 2
        x = x.flatten(2).transpose(1, 2) + self.places
        for block in self.blocks:
            x, y = checkpoint(block, x, y, time, use_reentrant=False) if self.again and self.training else block(x, y, time)
        return self.out(self.norm(x).transpose(1, 2).unflatten(2, (side, side)))


@job("words_and_pictures_in_one_flow", "words and pictures in one flow", "loop", "layers", "attention", "checkpointing", "eval")
class WordsAndPicturesInOneFlow(ImageLoop):
    """From noise to the latents of a picture on a straight line; the words' states have been made before."""
    kinds, channels, accumulated = ("adamw", "adamw_fused", "adamw_loop"), 16, (1, 1, 2)
    precisions = "fp32", "autocast", "autocast", "bf16"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.said = r.choice([4, 6, 8]), r.choice([384, 512]), r.choice([77, 128])
        self.draw_images([32, 48], [8, 12, 16])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Flow(self))
        self.dataset = self.dataset[0], torch.zeros(self.rows, self.said, 768, dtype=torch.float16)

    def batch(self, i):
        latents, words = cut(self.dataset, i, self.size)
        return latents.to(self.dtype).div_(64) - 2, words.to(self.dtype)

    def told(self, latents, words):
        t, noise = torch.randn(len(latents), device=DEVICE).sigmoid(), torch.randn_like(latents)
        share = t[:, None, None, None].to(latents.dtype)
        with self.autocast():
            return self.model((1 - share) * latents + share * noise, t, words), noise - latents

    def predict(self, batch):
        return self.told(*batch)[0]

    def loss(self, batch):
        told, wanted = self.told(*batch)
        return (told.float() - wanted.float()).square().flatten(1).mean(1).mean()


class Frozen(nn.Module):
    """What was trained by others: words to states, and pictures to latents."""

    def __init__(self, o):
        super().__init__()
        self.words, self.eye = nn.Embedding(49408, o.wide), nn.Sequential(*[EncoderBlock(o.wide, 8, "sdpa") for _ in range(4)])
        steps, cin = [], 3
        for cout in 64, 128, 128:
            steps += [nn.Conv2d(cin, cout, 3, 2, 1), nn.GroupNorm(16, cout), nn.SiLU()]
            cin = cout
        self.pictures = nn.Sequential(*steps, nn.Conv2d(cin, 4, 3, padding=1))

    def forward(self, before, after, said):
        return self.pictures(before), self.pictures(after), self.eye(self.words(said))


@job("pictures_changed_by_words", "pictures changed by words", "loop", "layers", "checkpointing", "eval", "reference")
class PicturesChangedByWords(ImageLoop):
    """A picture, what should be changed, and how it looks then: diffusers' network with twice the channels, and some words left out at random."""
    kinds, precisions, accumulated = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.wide = r.choice([1, 2]), r.choice([64, 96, 128]), r.choice([256, 512])
        self.draw_images([192, 256], [4, 6, 8])
        self.checkpointing = r.random() < 0.2
        self.choose()

    def build(self):
        base = self.base
        with torch.device(DEVICE):
            unet = diffusers.UNet2DConditionModel(
                sample_size=self.pixels // 8, in_channels=8, out_channels=4, layers_per_block=self.layers, block_out_channels=(base, 2 * base, 4 * base),
                down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"), cross_attention_dim=self.wide, attention_head_dim=8,
                up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"))
            self.reference = Frozen(self).to(self.dtype).requires_grad_(False)
        if self.checkpointing:
            unet.enable_gradient_checkpointing()
        self.finish(unet)
        self.noises, self.said = diffusers.DDPMScheduler(num_train_timesteps=1000), torch.zeros(1, 77, dtype=torch.long, device=DEVICE)

    def reference_outputs(self, batch):
        with self.no_grad(), self.autocast():
            return self.reference(batch[0], batch[0].flip(-1), self.said.expand(len(batch[0]), -1))

    def told(self, batch):
        before, after, states = (t.to(self.dtype) for t in self.reference_outputs(batch))
        noise, times = torch.randn_like(after), torch.randint(1000, (len(after),), device=DEVICE).zero_()
        noisy = self.noises.add_noise(after, noise, times)
        states = states * (torch.rand(len(states), 1, 1, device=DEVICE) > 0.05).to(states.dtype)
        with self.autocast():
            return self.model(torch.cat([noisy, before], dim=1), times, encoder_hidden_states=states).sample, noise

    def predict(self, batch):
        return self.told(batch)[0]

    def loss(self, batch):
        told, noise = self.told(batch)
        return F.mse_loss(told.float(), noise.float())


class Windowed(nn.Module):
    """Attention within windows, which every other layer moves by half of one; a bias for each way from place to place."""
    side = 7

    def __init__(self, w, heads, moved):
        super().__init__()
        self.heads, self.shift = heads, self.side // 2 if moved else 0
        self.norm, self.qkv, self.back = nn.LayerNorm(w), nn.Linear(w, 3 * w), nn.Linear(w, w)
        self.wide = nn.Sequential(nn.LayerNorm(w), nn.Linear(w, 4 * w), nn.GELU(), nn.Linear(4 * w, w))
        self.bias = nn.Parameter(torch.zeros((2 * self.side - 1) ** 2, heads))
        at = torch.cartesian_prod(torch.arange(self.side), torch.arange(self.side))
        ways = at[:, None] - at + self.side - 1
        self.register_buffer("ways", ways[..., 0] * (2 * self.side - 1) + ways[..., 1])

    def look(self, x):
        b, high, broad, w = x.shape
        n, rows, columns = self.side, -(-high // self.side), -(-broad // self.side)
        x = F.pad(x, (0, 0, 0, columns * n - broad, 0, rows * n - high)).roll((-self.shift, -self.shift), (1, 2))
        flat = x.view(b, rows, n, columns, n, w).transpose(2, 3).reshape(-1, n * n, w)
        q, k, v = (in_heads(t, self.heads) for t in self.qkv(flat).chunk(3, dim=-1))
        bias = F.embedding(self.ways, self.bias).permute(2, 0, 1).to(q.dtype)
        seen = (q @ k.mT * q.shape[-1] ** -0.5 + bias).softmax(-1) @ v
        seen = self.back(seen.transpose(1, 2).flatten(2)).view(b, rows, columns, n, n, w).transpose(2, 3).reshape(b, rows * n, columns * n, w)
        return seen.roll((self.shift, self.shift), (1, 2))[:, :high, :broad]

    def forward(self, x):
        x = x + self.look(self.norm(x))
        return x + self.wide(x)


class Shifting(nn.Module):
    def __init__(self, o):
        super().__init__()
        w, self.again = o.base, o.checkpointing
        self.into, self.stages, self.merge = nn.Conv2d(3, w, 4, 4), nn.ModuleList(), nn.ModuleList()
        for k in range(3):
            self.merge.append(nn.Sequential(nn.LayerNorm(2 * w), nn.Linear(2 * w, w, bias=False)) if k else nn.Identity())
            self.stages.append(nn.ModuleList(Windowed(w, 4 << k, n % 2) for n in range(o.layers)))
            w *= 2
        self.end = nn.Sequential(nn.LayerNorm(w // 2), nn.Linear(w // 2, o.classes))

    def forward(self, pictures):
        x = self.into(pictures).permute(0, 2, 3, 1)
        for k, (merge, stage) in enumerate(zip(self.merge, self.stages)):
            x = merge(F.pixel_unshuffle(x.permute(0, 3, 1, 2), 2).permute(0, 2, 3, 1)) if k else x
            for block in stage:
                x = checkpoint(block, x, use_reentrant=False) if self.again and self.training else block(x)
        return self.end(x.mean((1, 2)))


@job("windows_that_shift", "windows that shift", "loop", "layers", "checkpointing", "eval")
class WindowsThatShift(ImageLoop):
    """Kinds of things on photographs; each is laid over its neighbour of the batch, and so is what it shows."""
    kinds, precisions, classes = ("adamw", "adamw_fused", "adamw_loop"), ("fp32", "autocast", "autocast"), 1000

    def draw(self):
        r = self.rng
        self.layers, self.base = r.choice([2, 3, 4]), r.choice([64, 96])
        self.draw_images([192, 224, 256], [12, 16, 24])
        self.checkpointing = r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Shifting(self))

    def loss(self, batch):
        pictures, names = batch
        share = self.rng.betavariate(0.8, 0.8)
        told = self.predict((share * pictures + (1 - share) * pictures.flip(0), names)).float()
        return share * F.cross_entropy(told, names) + (1 - share) * F.cross_entropy(told, names.flip(0))


class TwoStages(nn.Module):
    """First, where something might be; then the pieces of the maps there are cut out, and told apart."""

    def __init__(self, o):
        super().__init__()
        w, self.number = o.width, o.number
        self.eye, wide = strided_convolutions(o.base)
        self.deeper = nn.Sequential(*[m for _ in range(o.layers) for m in (nn.Conv2d(wide, wide, 3, padding=1), nn.BatchNorm2d(wide), nn.ReLU())])
        self.flat, self.near = nn.Conv2d(wide, w, 1), nn.Conv2d(w, w, 3, padding=1)
        self.might, self.offsets = nn.Conv2d(w, 3, 1), nn.Conv2d(w, 12, 1)
        self.head = nn.Sequential(nn.Linear(49 * w, 1024), nn.ReLU(), nn.Linear(1024, 1024), nn.ReLU())
        self.kind, self.box = nn.Linear(1024, o.classes + 1), nn.Linear(1024, 4)

    def pieces(self, maps, boxes):
        """Seven by seven places of each box."""
        at = torch.linspace(-1, 1, 7, device=maps.device)
        grid = torch.stack(torch.meshgrid(at, at, indexing="xy"), dim=-1).view(1, 1, 49, 2)
        centre, size = boxes.float().sigmoid().unsqueeze(2).chunk(2, dim=-1)
        where = (2 * centre - 1 + grid * size).to(maps.dtype)
        return F.grid_sample(maps, where, align_corners=False).permute(0, 2, 1, 3).flatten(2)

    def forward(self, pictures):
        maps = self.flat(self.deeper(self.eye(pictures)))
        near = F.relu(self.near(maps))
        might, offsets = self.might(near).flatten(1), self.offsets(near).unflatten(1, (3, 4)).permute(0, 1, 3, 4, 2).flatten(1, 3)
        best = might.detach().topk(min(self.number, might.shape[1]), dim=1).indices
        boxes = offsets.gather(1, best.unsqueeze(-1).expand(-1, -1, 4))
        x = self.head(self.pieces(maps, boxes.detach()))
        return self.kind(x), self.box(x), might, boxes


@job("boxes_in_two_stages", "boxes in two stages", "loop", "layers", "eval")
class BoxesInTwoStages(ImageLoop):
    """What is where on photographs of streets; of all places of the maps some hundred are looked at twice."""
    kinds, precisions, accumulated, classes = ("sgd_momentum", "adamw", "adamw_fused"), ("fp32", "autocast"), (1, 1, 2), 80

    def draw(self):
        r = self.rng
        self.layers, self.base, self.width, self.number = r.choice([2, 3, 4]), r.choice([48, 64]), r.choice([128, 192]), r.choice([128, 256])
        self.draw_images([320, 384, 448], [6, 8, 12])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(TwoStages(self))

    def predict(self, batch):
        return self.all_told(batch)[0]

    def all_told(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        kinds, boxes, might, first = (t.float() for t in self.all_told(batch))
        wanted = batch[1].unsqueeze(1).expand(-1, kinds.shape[1])
        lost = F.cross_entropy(kinds.flatten(0, 1), wanted.flatten())
        lost = lost + F.smooth_l1_loss(boxes, torch.zeros_like(boxes)) + F.smooth_l1_loss(first, torch.zeros_like(first))
        return lost + F.binary_cross_entropy_with_logits(might, torch.zeros_like(might))


def plain(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU())


class Exchange(nn.Module):
    """Each resolution goes on by itself, and then gets what the others have seen."""

    def __init__(self, widths):
        super().__init__()
        self.own = nn.ModuleList(nn.Sequential(plain(w, w), nn.Conv2d(w, w, 3, padding=1, bias=False), nn.BatchNorm2d(w)) for w in widths)
        self.give = nn.ModuleList(nn.ModuleList(nn.Conv2d(a, b, 1) for a in widths) for b in widths)

    def forward(self, *maps):
        maps = [F.relu(m + own(m)) for m, own in zip(maps, self.own)]
        return tuple(F.relu(m + sum(self.moved(give(other), m) for give, other in zip(row, maps) if other is not m)) for m, row in zip(maps, self.give))

    @staticmethod
    def moved(other, like):
        if other.shape[-1] > like.shape[-1]:
            return F.adaptive_avg_pool2d(other, like.shape[-2:])
        return F.interpolate(other, like.shape[-2:], mode="bilinear")


class Resolutions(nn.Module):
    def __init__(self, o):
        super().__init__()
        widths, self.again = [o.base << k for k in range(3)], o.checkpointing
        self.start = nn.ModuleList([nn.Sequential(plain(3, 32, 2), plain(32, widths[0]))] + [plain(a, b, 2) for a, b in zip(widths, widths[1:])])
        self.layers, self.out = nn.ModuleList(Exchange(widths) for _ in range(o.layers)), nn.Conv2d(sum(widths), o.kinds_of_ground, 1)

    def forward(self, pictures):
        maps, x = [], pictures
        for start in self.start:
            x = start(x)
            maps.append(x)
        for layer in self.layers:
            maps = checkpoint(layer, *maps, use_reentrant=False) if self.again and self.training else layer(*maps)
        return self.out(torch.cat([Exchange.moved(m, maps[0]) for m in maps], dim=1))


@job("several_resolutions", "several resolutions at once", "loop", "layers", "checkpointing", "eval")
class SeveralResolutions(ImageLoop):
    """Ground, water and ways on photographs of a drone: coarse and fine maps beside each other, all the way; only places that are hard count."""
    kinds, precisions, accumulated = ("sgd_momentum", "adamw", "adam"), ("fp32", "autocast", "autocast"), (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.kinds_of_ground = r.choice([3, 4, 6]), r.choice([32, 48]), r.choice([8, 12, 19])
        self.draw_images([256, 320], [6, 8, 12])
        self.checkpointing = r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Resolutions(self))

    def loss(self, batch):
        told = self.predict(batch).float()
        wanted = F.interpolate(batch[0][:, :1].float(), told.shape[-2:]).squeeze(1).long().clamp(0, self.kinds_of_ground - 1)
        lost = F.cross_entropy(told, wanted, reduction="none").flatten()
        return lost.topk(len(lost) // 4).values.mean()


class Nested(nn.Module):
    """A net of maps, in which each map gets all that is as fine as itself, and the next coarser one; each of the finest ones tells."""

    def __init__(self, o):
        super().__init__()
        widths, self.depth = [o.base << k for k in range(o.layers)], o.layers
        self.nodes = nn.ModuleDict()
        for k, w in enumerate(widths):
            for n in range(self.depth - k):
                cin = (widths[k - 1] if k else 4) if not n else n * w + widths[k + 1]
                self.nodes["%d_%d" % (k, n)] = nn.Sequential(plain(cin, w), plain(w, w))
        self.out = nn.ModuleList(nn.Conv2d(o.base, 2, 1) for _ in range(self.depth - 1))

    def forward(self, views):
        found = {}
        for total in range(self.depth):
            for n in range(total + 1):
                k = total - n
                if n:
                    coarse = F.interpolate(found[k + 1, n - 1], scale_factor=2, mode="bilinear")
                    given = torch.cat([found[k, m] for m in range(n)] + [coarse], dim=1)
                else:
                    given = F.max_pool2d(found[k - 1, 0], 2) if k else views
                found[k, n] = self.nodes["%d_%d" % (k, n)](given)
        return [out(found[0, n + 1]) for n, out in enumerate(self.out)]


class Views(torch.utils.data.Dataset):
    """Four bands from above, and where clouds are."""

    def __init__(self, rows, side):
        self.rows, self.row = rows, (torch.zeros(4, side, side), torch.zeros(side, side, dtype=torch.long))

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return self.row


class Clouds(lightning.LightningModule):
    def __init__(self, own):
        super().__init__()
        self.own, self.model = [own], Nested(own)

    def training_step(self, batch, batch_idx):
        lost = self.own[0].loss(batch)
        self.log("lost", lost, prog_bar=False)
        return lost

    def validation_step(self, batch, batch_idx):
        self.log("right", (self.model(batch[0])[-1].argmax(1) == batch[1]).float().mean())

    def configure_optimizers(self):
        optimizer = torch.optim.AdamW(self.parameters(), lr=1e-3)
        return {"optimizer": optimizer, "lr_scheduler": torch.optim.lr_scheduler.StepLR(optimizer, 10)}


@job("clouds_with_lightning", "clouds with Lightning", "lightning", "forward", "layers", "states")
class CloudsWithLightning(Job):
    """Where clouds are, on pictures of a satellite; each depth of the net has a say, and how much both overlap counts, too."""

    def draw(self):
        r = self.rng
        self.layers, self.base, self.side, self.size = r.choice([3, 4]), r.choice([24, 32]), r.choice([160, 192, 224]), r.choice([6, 8, 12])
        self.steps, self.callbacks = r.choice([4, 5, 6]), []
        self.trainer_arguments = {"precision": r.choice(["32-true", "bf16-mixed"]), "accumulate_grad_batches": r.choice([1, 1, 2]),
                                  "gradient_clip_val": r.choice([None, 1.0])}

    def build(self):
        self.module = Clouds(self)
        self.model = self.module.model
        self.loaders = [torch.utils.data.DataLoader(Views(n * self.size, self.side), batch_size=self.size) for n in (40, 2)]
        off = {name: False for name in ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")}
        self.trainer = lightning.Trainer(**{"max_steps": self.steps, "accelerator": "gpu", "devices": 1, "val_check_interval": 2, "num_sanity_val_steps": 0,
                                            "callbacks": self.callbacks, **off, **self.trainer_arguments})

    def loss(self, batch):
        views, where = batch
        lost = 0
        for told in self.module.model(views):
            told = told.float()
            share = told.softmax(1)[:, 1]
            lost = lost + F.cross_entropy(told, where) + 1 - (2 * (share * where).sum() + 1) / (share.sum() + where.sum() + 1)
        return lost

    def train(self):
        self.trainer.fit(self.module, *self.loaders)
