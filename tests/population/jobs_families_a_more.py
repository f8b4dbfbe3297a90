"""Fields with code of their own, as jobs_families_a.py has others: detection, normalizing flows, state spaces, video."""
import torch
import torch.nn as nn
import torch.nn.functional as F

from core import DEVICE, job
from jobs_families_a import attend, remat
from jobs_images import ImageLoop
from parts import Loop, TextLoop, cut


def conv(cin, cout, stride=1):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.BatchNorm2d(cout), nn.ReLU(inplace=True))


class Pyramid(nn.Module):
    """A backbone, whose last three levels are added from the coarsest to the finest."""

    def __init__(self, width):
        super().__init__()
        self.stem = nn.Sequential(conv(3, width // 2, 2), conv(width // 2, width, 2))
        self.stages = nn.ModuleList(nn.Sequential(conv(width * 2 ** k, width * 2 ** (k + 1), 2), conv(width * 2 ** (k + 1), width * 2 ** (k + 1))) for k in range(3))
        self.lateral = nn.ModuleList(nn.Conv2d(width * 2 ** (k + 1), 2 * width, 1) for k in range(3))
        self.smooth = nn.ModuleList(nn.Conv2d(2 * width, 2 * width, 3, 1, 1) for _ in range(3))

    def forward(self, x):
        x, levels = self.stem(x), []
        for stage, lateral in zip(self.stages, self.lateral):
            x = stage(x)
            levels.append(lateral(x))
        for k in 1, 0:
            levels[k] = levels[k] + F.interpolate(levels[k + 1], size=levels[k].shape[-2:], mode="nearest")
        return [smooth(level) for smooth, level in zip(self.smooth, levels)]


class RetinaNet(nn.Module):
    def __init__(self, o):
        super().__init__()
        c = 2 * o.width
        self.fpn, self.classes = Pyramid(o.width), o.labels
        self.cls_head = nn.Sequential(*[m for _ in range(o.convs) for m in (nn.Conv2d(c, c, 3, 1, 1), nn.ReLU())], nn.Conv2d(c, 9 * o.labels, 3, 1, 1))
        self.box_head = nn.Sequential(*[m for _ in range(o.convs) for m in (nn.Conv2d(c, c, 3, 1, 1), nn.ReLU())], nn.Conv2d(c, 9 * 4, 3, 1, 1))

    def forward(self, images):
        features = self.fpn(images)

        def head(net, n):
            return torch.cat([net(f).permute(0, 2, 3, 1).reshape(len(f), -1, n) for f in features], 1)
        return head(self.cls_head, self.classes), head(self.box_head, 4)


def anchors_of(pixels):
    """Nine boxes at each place of each level."""
    boxes = []
    for stride in 8, 16, 32:
        n = pixels // stride
        centre = (torch.arange(n) + 0.5) * stride
        y, x = torch.meshgrid(centre, centre, indexing="ij")
        for scale in 4.0, 5.0, 6.3:
            for ratio in 0.5, 1.0, 2.0:
                w, h = stride * scale * ratio ** 0.5, stride * scale / ratio ** 0.5
                boxes.append(torch.stack([x - w / 2, y - h / 2, x + w / 2, y + h / 2], -1).view(-1, 4))
    return torch.cat(boxes)


def iou(a, b):
    inter = (torch.min(a[:, None, 2:], b[None, :, 2:]) - torch.max(a[:, None, :2], b[None, :, :2])).clamp(min=0).prod(-1)
    return inter / ((a[:, 2:] - a[:, :2]).prod(-1)[:, None] + (b[:, 2:] - b[:, :2]).prod(-1) - inter + 1e-6)


@job("retinanet", "detection", "loop", "eval")
class RetinaNetLoop(ImageLoop):
    """Anchors of three levels; each is given to the box that it covers best, one image after the other."""
    rows, boxes = 64, 32
    precisions = "fp32", "autocast", "autocast"
    kinds = "sgd_momentum", "sgd_momentum", "adamw", "adam"

    def draw(self):
        r = self.rng
        self.convs, self.width, self.labels = r.choice([2, 4]), r.choice([48, 64]), r.choice([20, 80])
        self.draw_images([320, 384, 512], [8, 16])
        self.choose()

    def build(self):
        self.finish(RetinaNet(self))
        self.anchors = anchors_of(self.pixels).to(DEVICE)
        self.dataset = (self.dataset[0], torch.zeros(self.rows, self.boxes, 4), torch.zeros(self.rows, self.boxes, dtype=torch.long))

    def batch(self, i):
        images, boxes, labels = cut(self.dataset, i, self.size)
        return images.to(self.dtype).div_(255), boxes, labels

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[0]

    @torch.no_grad()
    def assigned(self, boxes, labels):
        best, which = iou(self.anchors, boxes).max(1)
        return (best > 0.5).float(), boxes[which], labels[which]

    def loss_of_image(self, scores, offsets, boxes, labels):
        positive, wanted, label = self.assigned(boxes, labels)
        picked = scores.gather(1, label[:, None]).squeeze(1).float()
        focal = (F.softplus(scores.float()) * scores.detach().float().sigmoid() ** 2).sum() + (positive * (F.softplus(-picked) - F.softplus(picked))).sum()
        shift = (wanted - self.anchors) / (self.anchors[:, 2:] - self.anchors[:, :2]).repeat(1, 2)
        return (0.25 * focal + (positive[:, None] * F.smooth_l1_loss(offsets.float(), shift, reduction="none")).sum()) / positive.sum().clamp(min=1)

    def loss(self, batch):
        images, boxes, labels = batch
        with self.autocast():
            scores, offsets = self.model(images)
        return torch.stack([self.loss_of_image(*one) for one in zip(scores, offsets, boxes, labels)]).mean()


class FlowStep(nn.Module):
    """A scale for each channel, a product of triangular matrices over the channels, and an affine coupling."""

    def __init__(self, ch, hidden):
        super().__init__()
        self.shift, self.log_scale = nn.Parameter(torch.zeros(1, ch, 1, 1)), nn.Parameter(torch.zeros(1, ch, 1, 1))
        self.lower, self.upper, self.log_diagonal = nn.Parameter(torch.eye(ch)), nn.Parameter(torch.eye(ch)), nn.Parameter(torch.zeros(ch))
        self.net = nn.Sequential(nn.Conv2d(ch // 2, hidden, 3, 1, 1), nn.ReLU(), nn.Conv2d(hidden, hidden, 1), nn.ReLU(), nn.Conv2d(hidden, ch, 3, 1, 1))

    def mixing(self):
        unit = torch.eye(len(self.lower), device=self.lower.device, dtype=self.lower.dtype)
        return (self.lower.tril(-1) + unit) @ (self.upper.triu(1) + torch.diag(self.log_diagonal.exp()))

    def forward(self, x, logdet):
        pixels = x.shape[2] * x.shape[3]
        x = (x + self.shift) * self.log_scale.exp()
        x = F.conv2d(x, self.mixing()[:, :, None, None])
        a, b = x.chunk(2, 1)
        log_s, t = self.net(a).chunk(2, 1)
        log_s = torch.tanh(log_s)
        x = torch.cat([a, b * log_s.exp() + t], 1)
        return x, logdet + pixels * (self.log_scale.sum() + self.log_diagonal.sum()) + log_s.flatten(1).sum(1)


class Glow(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.levels, ch = nn.ModuleList(), 3
        for k in range(o.levels):
            self.levels.append(nn.ModuleList(FlowStep(4 * ch, o.hidden) for _ in range(o.layers)))
            ch *= 2
        self.remat = o.checkpointing

    def forward(self, x):
        logdet, latents = x.new_zeros(len(x)), []
        for k, level in enumerate(self.levels):
            x = F.pixel_unshuffle(x, 2)
            for step in level:
                x, logdet = remat(self.remat and self.training, step, x, logdet)
            if k < len(self.levels) - 1:
                x, z = x.chunk(2, 1)
                latents.append(z)
        return latents + [x], logdet


@job("glow", "normalizing flow", "loop", "layers", "checkpointing", "eval")
class GlowLoop(ImageLoop):
    """The exact likelihood of images by a map that can be inverted."""
    precisions = "fp32",
    kinds = "adam", "adamw", "adamw_fused", "adamw_loop"

    def draw(self):
        r = self.rng
        self.levels, self.layers, self.hidden = r.choice([2, 3]), r.choice([3, 4, 6]), r.choice([256, 512])
        self.draw_images([32, 64], [32, 64])
        self.checkpointing = r.random() < 0.15
        self.choose()

    def build(self):
        self.finish(Glow(self))

    def bits(self, batch):
        latents, logdet = self.model(batch[0] + torch.rand_like(batch[0]) / 256)
        prior = sum(-0.5 * (z.pow(2) + 1.8379).flatten(1).sum(1) for z in latents)
        return -(prior + logdet) / batch[0][0].numel()

    def predict(self, batch):
        with self.autocast():
            return self.bits(batch)

    def loss(self, batch):
        return self.predict(batch).float().mean()


class SelectiveStateSpace(nn.Module):
    """A decaying state, chunk by chunk: products within a chunk, and the state between chunks."""

    def __init__(self, d, heads, state, chunk):
        super().__init__()
        self.heads, self.state, self.chunk, self.inner = heads, state, chunk, 2 * d
        self.norm, self.in_proj = nn.LayerNorm(d), nn.Linear(d, 2 * self.inner + 2 * state + heads)
        self.conv1d, self.out_proj = nn.Conv1d(self.inner, self.inner, 4, groups=self.inner, padding=3), nn.Linear(self.inner, d)
        self.A_log, self.D = nn.Parameter(torch.zeros(heads)), nn.Parameter(torch.ones(self.inner))

    def scan(self, x, dt, B, C):
        """x: batch, length, heads, width; dt: batch, length, heads; B, C: batch, length, state."""
        h = x.new_zeros(x.shape[0], self.heads, x.shape[3], self.state)
        outputs = []
        for x, dt, B, C in zip(*(t.split(self.chunk, 1) for t in (x, dt, B, C))):
            decay = torch.cumsum(-torch.exp(self.A_log) * dt, 1).to(x.dtype)
            total, xdt = decay[:, -1], x * dt[..., None]
            inside = torch.exp((decay[:, :, None] - decay[:, None]).clamp(max=0)).permute(0, 3, 1, 2).tril()
            y = torch.einsum("bqn,bkn,bhqk,bkhp->bqhp", C, B, inside, xdt)
            y = y + torch.einsum("bqn,bhpn,bqh->bqhp", C, h, decay.exp())
            h = h * total.exp()[..., None, None] + torch.einsum("bkn,bkh,bkhp->bhpn", B, (total[:, None] - decay).exp(), xdt)
            outputs.append(y)
        return torch.cat(outputs, 1)

    def forward(self, u):
        z, x, B, C, dt = self.in_proj(self.norm(u)).split([self.inner, self.inner, self.state, self.state, self.heads], -1)
        x = F.silu(self.conv1d(x.transpose(1, 2))[..., :u.shape[1]]).transpose(1, 2)
        y = self.scan(x.unflatten(-1, (self.heads, -1)), F.softplus(dt), B, C).flatten(2)
        return u + self.out_proj((y + self.D * x) * F.silu(z))


class DoublingRecurrence(nn.Module):
    """h[t] = a[t] h[t-1] + b[t] for all t, in as many passes as the length has binary digits."""

    def __init__(self, d, heads, state, chunk):
        super().__init__()
        self.norm, self.gates, self.out = nn.LayerNorm(d), nn.Linear(d, 2 * d), nn.Linear(d, d)
        self.mlp = nn.Sequential(nn.LayerNorm(d), nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def forward(self, u):
        forget, new = self.gates(self.norm(u)).chunk(2, -1)
        a = forget.sigmoid()
        b, shift = (1 - a) * new.tanh(), 1
        while shift < u.shape[1]:
            b = b + a * F.pad(b, (0, 0, shift, 0))[:, :-shift]
            a = a * F.pad(a, (0, 0, shift, 0), value=1.0)[:, :-shift]
            shift *= 2
        u = u + self.out(b)
        return u + self.mlp(u)


class RecurrentDecoder(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.embedding, self.remat = nn.Embedding(o.vocabulary, o.width), o.checkpointing
        self.layers = nn.ModuleList(o.mixer(o.width, o.heads, o.state, o.chunk) for _ in range(o.layers))
        self.norm_f, self.lm_head = nn.LayerNorm(o.width), nn.Linear(o.width, o.vocabulary, bias=False)

    def forward(self, tokens):
        u = self.embedding(tokens)
        for layer in self.layers:
            u = remat(self.remat and self.training, layer, u)
        return self.lm_head(self.norm_f(u))


class StateSpace(TextLoop):
    traits = {"decoder", "layers", "eval", "checkpointing"}
    kinds = "adamw", "adamw", "adamw_fused", "adamw_loop"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([3, 4, 6]), r.choice([512, 768]), r.choice([4096, 16000, 32000])
        self.length, self.size, self.heads = r.choice([384, 512]), r.choice([4, 8]), r.choice([4, 8])
        self.state, self.chunk, self.checkpointing = r.choice([32, 64]), r.choice([64, 128]), r.random() < 0.15
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(RecurrentDecoder(self))

    def loss(self, tokens):
        logits = self.predict(tokens)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


@job("selective_scan", "state space model", "loop")
class SelectiveScan(StateSpace):
    mixer = SelectiveStateSpace


@job("doubling_scan", "state space model", "loop")
class DoublingScan(StateSpace):
    mixer = DoublingRecurrence


class DividedBlock(nn.Module):
    """Attention over the frames at each place, then over the places of each frame."""

    def __init__(self, d, mode):
        super().__init__()
        self.mode = mode
        self.norms, self.qkvs = nn.ModuleList(nn.LayerNorm(d) for _ in range(3)), nn.ModuleList(nn.Linear(d, 3 * d) for _ in range(2))
        self.outs, self.mlp = nn.ModuleList(nn.Linear(d, d) for _ in range(2)), nn.Sequential(nn.Linear(d, 4 * d), nn.GELU(), nn.Linear(4 * d, d))

    def mixed(self, k, x):
        q, key, v = self.qkvs[k](self.norms[k](x)).unflatten(-1, (3, 8, -1)).permute(2, 0, 3, 1, 4)
        return self.outs[k](attend(self.mode, q, key, v).transpose(1, 2).flatten(2))

    def forward(self, x):
        b, t, n, d = x.shape
        x = x + self.mixed(0, x.transpose(1, 2).flatten(0, 1)).view(b, n, t, d).transpose(1, 2)
        x = x + self.mixed(1, x.flatten(0, 1)).view(b, t, n, d)
        return x + self.mlp(self.norms[2](x))


class TimeSformer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.tubelets, self.remat = nn.Conv3d(3, o.width, (2, 8, 8), (2, 8, 8)), o.checkpointing
        self.place, self.time = nn.Parameter(torch.zeros(1, 1, (o.pixels // 8) ** 2, o.width)), nn.Parameter(torch.zeros(1, o.frames // 2, 1, o.width))
        self.blocks, self.head = nn.ModuleList(DividedBlock(o.width, o.attention) for _ in range(o.layers)), nn.Linear(o.width, o.classes)

    def forward(self, clips):
        x = self.tubelets(clips).flatten(3).permute(0, 2, 3, 1) + self.place + self.time
        for block in self.blocks:
            x = remat(self.remat and self.training, block, x)
        return self.head(x.mean((1, 2)))


class Clips(Loop):
    """Clips of a set of videos on the host, with an action each."""
    traits = {"images", "dataset", "eval", "scene", "layers", "checkpointing"}
    rows, classes = 64, 400

    def finish(self, model):
        super().finish(model)
        self.dataset = torch.zeros(self.rows, 3, self.frames, self.pixels, self.pixels, dtype=torch.uint8), torch.zeros(self.rows, dtype=torch.long)

    def batch(self, i):
        clips, actions = cut(self.dataset, i, self.size)
        return clips.to(self.dtype).div_(255), actions

    def scene(self, i):
        """Thirty views of each video, view by view."""
        for k in range(30):
            yield self.batch(i)[0].roll(k, -1)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).float(), batch[1])


@job("timesformer", "video", "loop", "attention")
class TimeSformerLoop(Clips):
    def draw(self):
        r = self.rng
        self.layers, self.width, self.frames = r.choice([3, 4, 6]), r.choice([384, 512]), r.choice([8, 16])
        self.pixels, self.size, self.attention = r.choice([112, 128, 144]), r.choice([2, 4]), "sdpa"
        self.checkpointing = r.random() < 0.15
        self.choose()

    def build(self):
        self.finish(TimeSformer(self))


class Factorised(nn.Module):
    """A convolution over the image, then one over the frames."""

    def __init__(self, cin, cout, stride):
        super().__init__()
        self.space, self.norm1 = nn.Conv3d(cin, cout, (1, 3, 3), (1, stride, stride), (0, 1, 1), bias=False), nn.BatchNorm3d(cout)
        self.frames, self.norm2 = nn.Conv3d(cout, cout, (3, 1, 1), (stride, 1, 1), (1, 0, 0), bias=False), nn.BatchNorm3d(cout)
        self.skip = nn.Conv3d(cin, cout, 1, stride) if stride > 1 or cin != cout else nn.Identity()

    def forward(self, x):
        return F.relu(self.skip(x) + self.norm2(self.frames(F.relu(self.norm1(self.space(x))))))


class ResNet3D(nn.Module):
    def __init__(self, o):
        super().__init__()
        widths = [o.width * 2 ** min(k * 3 // o.layers, 2) for k in range(o.layers)]
        self.stem = nn.Sequential(nn.Conv3d(3, o.width, (3, 7, 7), (1, 2, 2), (1, 3, 3)), nn.BatchNorm3d(o.width), nn.ReLU())
        self.blocks = nn.ModuleList(Factorised(a, b, 1 if a == b else 2) for a, b in zip([o.width, *widths], widths))
        self.head, self.remat = nn.Linear(widths[-1], o.classes), o.checkpointing

    def forward(self, clips):
        x = self.stem(clips)
        for block in self.blocks:
            x = remat(self.remat and self.training, block, x)
        return self.head(x.mean((2, 3, 4)))


@job("video_convolutions", "video", "loop")
class VideoConvolutions(Clips):
    kinds = "sgd_momentum", "sgd_momentum", "adamw"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.frames = r.choice([4, 6]), r.choice([48, 64]), r.choice([8, 16])
        self.pixels, self.size, self.checkpointing = r.choice([96, 112, 128]), r.choice([4, 8, 16]), r.random() < 0.15
        self.choose()

    def build(self):
        self.finish(ResNet3D(self))
