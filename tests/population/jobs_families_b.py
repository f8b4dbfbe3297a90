"""Jobs of other fields: dense retrieval, speech, time series, meta-learning, tables, several tasks, early exits, small classifiers after large ones."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from jobs_images import EncoderBlock, ImageLoop
from parts import Loop, TextLoop, cut


def mean_pool(hidden, mask):
    mask = mask.unsqueeze(-1).to(hidden.dtype)
    return (hidden * mask).sum(1) / mask.sum(1).clamp(min=1)


@job("dense_retriever", "retrieval", "loop", "layers", "attention", "eval")
class DenseRetriever(TextLoop):
    """Questions against the passages of the whole batch, a hard negative for each; sometimes the encoder runs over chunks, which backward repeats."""
    rows = 128

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([2, 3, 4, 6]), r.choice([384, 512, 768]), r.choice([30522, 50265])
        self.length, self.size, self.question = r.choice([128, 256]), r.choice([32, 48, 64]), r.choice([32, 48])
        self.temperature, self.attention = r.choice([0.02, 0.05]), "sdpa"
        self.choose()
        self.chunk = r.choice([*[0] * 7, 16])

    def build(self):
        config = transformers.BertConfig(hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8, intermediate_size=4 * self.width,
                                         vocab_size=self.vocabulary, max_position_embeddings=max(512, self.length))
        with torch.device(DEVICE):
            self.finish(transformers.AutoModel.from_config(config, attn_implementation=self.attention))

    def make_dataset(self):
        def ids(length):
            return torch.randint(1, self.vocabulary, (1, length)).expand(self.rows, -1).clone()
        return ids(self.question), ids(self.length), ids(self.length)

    def encode(self, tokens):
        mask = tokens.ne(0)
        with self.autocast():
            hidden = self.model(input_ids=tokens, attention_mask=mask.long()).last_hidden_state
        return F.normalize(mean_pool(hidden, mask), dim=-1)

    def embed(self, tokens):
        if not self.chunk or not torch.is_grad_enabled():
            return self.encode(tokens)
        return torch.cat([checkpoint(self.encode, part, use_reentrant=False) for part in tokens.split(self.chunk)])

    def predict(self, batch):
        questions, positives, negatives = batch
        return self.embed(questions) @ torch.cat([self.embed(positives), self.embed(negatives)]).T

    def loss(self, batch):
        scores = self.predict(batch).float() / self.temperature
        return F.cross_entropy(scores, torch.arange(len(scores), device=DEVICE))


@job("whisper_finetuning", "transcription", "loop", "layers", "attention", "eval", "pretrained", "dataset")
class WhisperFinetuning(Loop):
    """Transcripts of short recordings, with the encoder as it was trained."""
    kinds = "adamw", "adamw", "adamw_fused", "adafactor"
    rows = 64

    def draw(self):
        r = self.rng
        self.layers, self.width, self.size = r.choice([2, 3, 4]), r.choice([256, 384, 512]), r.choice([8, 16])
        self.frames, self.length, self.vocabulary, self.attention = r.choice([1600, 3000]), r.choice([48, 64, 96]), 51865, "sdpa"
        self.choose()

    def freeze(self):
        self.model.model.encoder.requires_grad_(False)

    def build(self):
        wide = {"d_model": self.width, "encoder_layers": self.layers, "decoder_layers": self.layers, "encoder_attention_heads": 8, "decoder_attention_heads": 8,
                "encoder_ffn_dim": 4 * self.width, "decoder_ffn_dim": 4 * self.width, "max_source_positions": self.frames // 2}
        config = transformers.WhisperConfig(vocab_size=self.vocabulary, pad_token_id=0, bos_token_id=1, eos_token_id=1, decoder_start_token_id=2, use_cache=False, **wide)
        with torch.device(DEVICE):
            self.model = transformers.AutoModelForSpeechSeq2Seq.from_config(config, attn_implementation=self.attention)
        self.freeze()
        self.finish(self.model)
        self.dataset = torch.zeros(self.rows, config.num_mel_bins, self.frames, dtype=torch.float16), torch.ones(self.rows, self.length, dtype=torch.long)

    def batch(self, i):
        features, labels = cut(self.dataset, i, self.size)
        return {"input_features": features.to(self.dtype), "labels": labels}

    def predict(self, batch):
        with self.autocast():
            return self.model(**batch).logits

    def loss(self, batch):
        with self.autocast():
            return self.model(**batch).loss


class PatchedForecaster(nn.Module):
    """Each patch of a series predicts quantiles of the values that follow it; channels are series of their own."""

    def __init__(self, o):
        super().__init__()
        self.patch, self.horizon, self.quantiles = o.patch, o.horizon, o.quantiles
        self.embed, self.position = nn.Linear(o.patch, o.width), nn.Parameter(torch.zeros(o.context // o.patch, o.width))
        layer = nn.TransformerEncoderLayer(o.width, 8, 4 * o.width, dropout=0.1, activation="gelu", batch_first=True, norm_first=True)
        self.encoder = nn.TransformerEncoder(layer, o.layers, enable_nested_tensor=False)
        self.head = nn.Linear(o.width, o.horizon * len(o.quantiles))

    def forward(self, series):
        mean, std = series.mean(-1, keepdim=True), series.std(-1, keepdim=True) + 1e-5
        x = ((series - mean) / std).unflatten(-1, (-1, self.patch)).flatten(0, 1)
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1], device=x.device, dtype=x.dtype)
        x = self.encoder(self.embed(x) + self.position, mask=mask, is_causal=True)
        x = self.head(x).unflatten(0, series.shape[:2]).unflatten(-1, (self.horizon, len(self.quantiles)))
        return x * std[..., None, None] + mean[..., None, None]


def pinball(predicted, wanted, quantiles):
    q = torch.tensor(quantiles, device=predicted.device)
    error = wanted.unsqueeze(-1) - predicted.float()
    return torch.maximum(q * error, (q - 1) * error).mean()


@job("patched_forecaster", "time series", "loop", "layers", "eval", "dataset")
class Forecaster(Loop):
    rows = 256

    def draw(self):
        r = self.rng
        self.layers, self.width, self.size, self.series = r.choice([2, 3, 4]), r.choice([192, 256, 384]), r.choice([16, 32]), r.choice([14, 21, 32])
        self.patch, self.context, self.horizon = 16, r.choice([512, 1024]), r.choice([48, 96])
        self.quantiles = [0.1, 0.5, 0.9] if r.random() < 0.6 else [k / 10 for k in range(1, 10)]
        self.choose()

    def build(self):
        self.finish(PatchedForecaster(self))
        self.dataset = torch.zeros(self.rows, self.series, self.context + self.horizon),

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[..., :self.context].to(self.dtype))

    def loss(self, batch):
        following = batch[..., self.patch:].unfold(-1, self.horizon, self.patch)
        return pinball(self.predict(batch), following, self.quantiles)


def conv_block(cin, cout):
    return nn.Sequential(nn.Conv2d(cin, cout, 3, padding=1), nn.BatchNorm2d(cout, track_running_stats=False), nn.ReLU(), nn.MaxPool2d(2))


class FewShotNet(nn.Module):
    def __init__(self, hidden, ways, pixels):
        super().__init__()
        self.features = nn.Sequential(conv_block(3, hidden), *[conv_block(hidden, hidden) for _ in range(3)])
        self.classifier = nn.Linear(hidden * (pixels // 16) ** 2, ways)

    def forward(self, x):
        return self.classifier(self.features(x).flatten(1))


@job("maml", "meta-learning", "loop", "images", "eval", "dataset")
class MAML(Loop):
    """An episode for each micro-batch: some steps on its first quarter, through which the loss of the rest is derived."""
    precisions = "fp32", "fp32", "autocast"
    accumulated = 2, 4
    rows = 512

    def draw(self):
        r = self.rng
        self.hidden, self.pixels, self.size, self.ways = r.choice([32, 48, 64]), r.choice([84, 128]), r.choice([80, 100, 160]), r.choice([5, 20])
        self.inner_steps, self.inner_lr = r.choice([2, 3, 5]), r.choice([0.01, 0.1])
        self.choose()

    def build(self):
        self.finish(FewShotNet(self.hidden, self.ways, self.pixels))
        self.dataset = torch.zeros(self.rows, 3, self.pixels, self.pixels, dtype=torch.uint8), torch.zeros(self.rows, dtype=torch.long)

    def batch(self, i):
        images, labels = cut(self.dataset, i, self.size)
        return images.to(self.dtype) / 255, labels

    def adapt(self, images, labels):
        """Fast weights; without gradients around it, they are derived once only."""
        fast, second_order = dict(self.model.named_parameters()), torch.is_grad_enabled()
        with torch.enable_grad():
            for _ in range(self.inner_steps):
                loss = F.cross_entropy(functional_call(self.model, fast, (images,)).float(), labels)
                gradients = torch.autograd.grad(loss, [p for p in fast.values() if p.requires_grad], create_graph=second_order)
                found = iter(gradients)
                fast = {n: p - self.inner_lr * next(found) if p.requires_grad else p for n, p in fast.items()}
                if not second_order:
                    fast = {n: p.detach().requires_grad_() for n, p in fast.items()}
        return fast

    def predict(self, batch):
        images, labels = batch
        support = max(1, len(images) // 4)
        with self.autocast():
            fast = self.adapt(images[:support], labels[:support])
            return functional_call(self.model, fast, (images[support:],))

    def loss(self, batch):
        scores = self.predict(batch)
        return F.cross_entropy(scores.float(), batch[1][-len(scores):])


class TableTransformer(nn.Module):
    """A token for each column and one for the row; each column's bin is restored, and the row has a target."""

    def __init__(self, o):
        super().__init__()
        self.weight, self.bias = nn.Parameter(torch.zeros(o.numbers, o.width)), nn.Parameter(torch.zeros(o.numbers, o.width))
        self.categories = nn.Embedding(o.cardinality * o.kinds_of_things, o.width)
        self.register_buffer("offsets", torch.arange(o.kinds_of_things) * o.cardinality)
        self.row, self.hidden = nn.Parameter(torch.zeros(1, 1, o.width)), nn.Parameter(torch.zeros(o.width))
        self.blocks = nn.ModuleList(EncoderBlock(o.width, 8, "sdpa") for _ in range(o.layers))
        self.norm, self.bins, self.target = nn.LayerNorm(o.width), nn.Linear(o.width, o.bins), nn.Linear(o.width, 1)

    def forward(self, numbers, categories, masked):
        columns = numbers.unsqueeze(-1) * self.weight + self.bias
        columns = torch.cat([columns, self.categories(categories + self.offsets)], dim=1)
        columns = torch.where(masked.unsqueeze(-1), self.hidden, columns)
        x = torch.cat([self.row.expand(len(columns), -1, -1), columns], dim=1)
        for block in self.blocks:
            x = block(x)
        x = self.norm(x)
        return {"bins": self.bins(x[:, 1:]), "target": self.target(x[:, 0]).squeeze(-1)}


@job("table_transformer", "tables", "loop", "layers", "eval", "dataset")
class Tables(Loop):
    """Rows of numbers and categories, of which some cells are hidden and restored."""
    rows = 8192

    def draw(self):
        r = self.rng
        self.layers, self.width, self.size = r.choice([2, 3, 4]), r.choice([96, 128, 192]), r.choice([512, 1024, 2048])
        self.numbers, self.kinds_of_things, self.cardinality, self.bins = r.choice([20, 40, 54]), r.choice([6, 12]), r.choice([1000, 20000]), r.choice([32, 64])
        self.choose()

    def build(self):
        self.finish(TableTransformer(self))
        self.dataset = (torch.zeros(self.rows, self.numbers), torch.zeros(self.rows, self.kinds_of_things, dtype=torch.long),
                        torch.zeros(self.rows, self.numbers + self.kinds_of_things, dtype=torch.long), torch.zeros(self.rows))

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def outputs(self, batch):
        numbers, categories, bins, _ = batch
        with self.autocast():
            return self.model(numbers.to(self.dtype), categories, torch.rand(bins.shape, device=DEVICE) < 0.15)

    def predict(self, batch):
        return self.outputs(batch)["target"]

    def loss(self, batch):
        outputs = self.outputs(batch)
        restored = F.cross_entropy(outputs["bins"].flatten(0, 1).float(), batch[2].flatten())
        return restored + F.mse_loss(outputs["target"].float(), batch[3])


class Bottleneck(nn.Module):
    def __init__(self, cin, width, stride, dilation):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(cin, width, 1, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
                                  nn.Conv2d(width, width, 3, stride, dilation, dilation, bias=False), nn.BatchNorm2d(width), nn.ReLU(True),
                                  nn.Conv2d(width, 4 * width, 1, bias=False), nn.BatchNorm2d(4 * width))
        self.skip = nn.Identity() if cin == 4 * width and stride == 1 else nn.Conv2d(cin, 4 * width, 1, stride, bias=False)

    def forward(self, x):
        return F.relu(self.body(x) + self.skip(x))


class Backbone(nn.Module):
    """Stages of bottlenecks; the last one is dilated. It gives the features of each stage."""

    def __init__(self, width, blocks):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, width, 7, 2, 3, bias=False), nn.BatchNorm2d(width), nn.ReLU(True), nn.MaxPool2d(3, 2, 1))
        self.stages, cin = nn.ModuleList(), width
        for k, number in enumerate(blocks):
            layers = []
            for n in range(number):
                layers.append(Bottleneck(cin, width << k, 2 if k in (1, 2) and not n else 1, 2 if k == 3 else 1))
                cin = 4 * (width << k)
            self.stages.append(nn.Sequential(*layers))
        self.out = cin

    def forward(self, x):
        features, x = [], self.stem(x)
        for stage in self.stages:
            x = stage(x)
            features.append(x)
        return features


class SceneNet(nn.Module):
    """Classes, depth and normals of each pixel, of one backbone; how much each task weighs is learned."""
    tasks = {"classes": 21, "depth": 1, "normals": 3}

    def __init__(self, width, blocks, hidden):
        super().__init__()
        self.backbone = Backbone(width, blocks)
        self.heads = nn.ModuleDict({task: nn.Sequential(nn.Conv2d(self.backbone.out, hidden, 3, padding=1), nn.BatchNorm2d(hidden), nn.ReLU(True),
                                                        nn.Conv2d(hidden, hidden, 3, padding=1), nn.ReLU(True), nn.Conv2d(hidden, channels, 1))
                                    for task, channels in self.tasks.items()})
        self.log_variance = nn.ParameterDict({task: nn.Parameter(torch.zeros(())) for task in self.tasks})

    def forward(self, images):
        shared = self.backbone(images)[-1]
        return {task: F.interpolate(head(shared), scale_factor=4 * 4, mode="bilinear") for task, head in self.heads.items()}


@job("scene_heads", "several tasks", "loop", "eval")
class SceneHeads(ImageLoop):
    """Three dense predictions for each image."""
    precisions = "fp32", "autocast", "autocast"
    rows = 64

    def draw(self):
        r = self.rng
        self.width, self.blocks, self.hidden = r.choice([24, 32, 48]), r.choice([(1, 2, 2, 1), (2, 2, 2, 2), (2, 3, 4, 2)]), r.choice([64, 128])
        self.draw_images([256, 320], [8, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(SceneNet(self.width, self.blocks, self.hidden))
        self.dataset = (self.dataset[0], torch.zeros(self.rows, self.pixels, self.pixels, dtype=torch.uint8),
                        torch.zeros(self.rows, 4, self.pixels, self.pixels, dtype=torch.float16))

    def batch(self, i):
        images, classes, geometry = cut(self.dataset, i, self.size)
        return images.to(self.dtype).div_(255), classes.long(), geometry

    def predict(self, batch):
        return super().predict(batch)["classes"]

    def loss(self, batch):
        images, classes, geometry = batch
        with self.autocast():
            outputs = self.model(images)
        losses = {"classes": F.cross_entropy(outputs["classes"].float(), classes), "depth": F.l1_loss(outputs["depth"].float(), geometry[:, :1].float()),
                  "normals": 1 - F.cosine_similarity(outputs["normals"].float(), geometry[:, 1:].float(), dim=1).mean()}
        s = self.model.log_variance
        return sum(loss * torch.exp(-s[task].float()) + s[task].float() for task, loss in losses.items())


class GatedBlock(nn.Module):
    """Attention with fewer heads for keys and values, and a gated MLP."""

    def __init__(self, o):
        super().__init__()
        self.heads, self.side, self.mode = o.heads, o.width // o.heads, o.attention
        self.norm1, self.norm2 = nn.RMSNorm(o.width), nn.RMSNorm(o.width)
        self.q, self.kv, self.o = (nn.Linear(o.width, n, bias=False) for n in (o.width, o.width // 2, o.width))
        self.gate, self.up, self.down = (nn.Linear(a, b, bias=False) for a, b in ((o.width, 3 * o.width), (o.width, 3 * o.width), (3 * o.width, o.width)))

    def attend(self, x, cos, sin):
        b, s, _ = x.shape
        q = rotated(self.q(x).view(b, s, self.heads, self.side).transpose(1, 2), cos, sin)
        k, v = self.kv(x).view(b, s, self.heads // 2, self.side).transpose(1, 2).chunk(2, dim=1)
        k, v = (t.repeat_interleave(4, dim=1) for t in (rotated(k, cos, sin), v))
        if self.mode == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        else:
            scores = q @ k.transpose(2, 3) * self.side ** -0.5
            y = torch.softmax(scores + torch.full((s, s), float("-inf"), device=x.device, dtype=x.dtype).triu(1), dim=-1).to(v.dtype) @ v
        return self.o(y.transpose(1, 2).reshape(b, s, -1))

    def forward(self, x, cos, sin):
        x = x + self.attend(self.norm1(x), cos, sin)
        h = self.norm2(x)
        return x + self.down(F.silu(self.gate(h)) * self.up(h))


def rotated(x, cos, sin):
    a, b = x.chunk(2, dim=-1)
    return x * cos + torch.cat([-b, a], dim=-1) * sin


class EarlyExitDecoder(nn.Module):
    """Logits after several depths, of one norm for each and one head for all."""

    def __init__(self, o):
        super().__init__()
        self.checkpointing, self.exits = o.checkpointing, sorted({*range(o.every - 1, o.layers, o.every), o.layers - 1})
        self.embed, self.head = nn.Embedding(o.vocabulary, o.width), nn.Linear(o.width, o.vocabulary, bias=False)
        self.layers, self.norms = nn.ModuleList(GatedBlock(o) for _ in range(o.layers)), nn.ModuleDict({str(k): nn.RMSNorm(o.width) for k in self.exits})
        inverse = 10000 ** -(torch.arange(0, o.width // o.heads, 2) / (o.width // o.heads))
        angles = torch.arange(o.length)[:, None] * inverse[None].repeat(1, 2)
        self.register_buffer("cos", angles.cos(), persistent=False)
        self.register_buffer("sin", angles.sin(), persistent=False)

    def forward(self, tokens):
        x, logits = self.embed(tokens), []
        cos, sin = (t[:tokens.shape[1]].to(x.dtype) for t in (self.cos, self.sin))
        for k, layer in enumerate(self.layers):
            x = checkpoint(layer, x, cos, sin, use_reentrant=False) if self.checkpointing else layer(x, cos, sin)
            if k in self.exits:
                logits.append(self.head(self.norms[str(k)](x)))
        return logits


@job("early_exit", "early exits", "loop", "decoder", "layers", "attention", "eval", "checkpointing")
class EarlyExit(TextLoop):
    """The loss of each exit, deeper ones weighing more."""

    def draw(self):
        r = self.rng
        self.layers, self.every, self.width, self.heads = r.choice([4, 6, 8]), r.choice([2, 4]), r.choice([384, 512, 768]), 8
        self.vocabulary, self.length, self.size = r.choice([2000, 4096, 8000]), r.choice([256, 512]), r.choice([8, 16])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(EarlyExitDecoder(self))

    def exits(self, tokens):
        with self.autocast():
            return self.model(tokens)

    def predict(self, batch):
        return self.exits(batch)[-1]

    def loss(self, tokens):
        exits = self.exits(tokens)
        weights = [k + 1 for k in range(len(exits))]
        losses = [F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten()) for logits in exits]
        return sum(w * x for w, x in zip(weights, losses)) / sum(weights)


class HintClassifier(nn.Module):
    def __init__(self, width, blocks, classes):
        super().__init__()
        self.backbone = Backbone(width, blocks)
        self.fc = nn.Linear(self.backbone.out, classes)

    def forward(self, x):
        features = self.backbone(x)
        return self.fc(features[-1].mean((2, 3))), features


@job("hint_distillation", "classifier distillation", "loop", "images", "reference", "eval", "dataset")
class HintDistillation(ImageLoop):
    """A small classifier learns from a large one: its softened classes, and its features after two stages through a projection."""
    kinds = "sgd_momentum", "sgd_momentum", "adamw"
    accumulated = 1, 1, 2
    rows = 256
    hints = 1, 3

    def draw(self):
        r = self.rng
        self.width, self.larger, self.blocks = r.choice([48, 64]), 2, r.choice([(1, 1, 1, 1), (2, 2, 2, 2)])
        self.alpha, self.temperature = r.choice([0.5, 0.9]), r.choice([2, 4])
        self.draw_images([96, 128, 160], [16, 32, 64])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            student, teacher = HintClassifier(self.width, self.blocks, self.classes), HintClassifier(self.larger * self.width, (2, 3, 4, 2), self.classes)
            sizes = [4 * (self.width << k) for k in self.hints]
            student.project = nn.ModuleList(nn.Conv2d(n, self.larger * n, 1) for n in sizes)
        self.finish(student)
        self.reference = teacher.to(self.dtype).eval().requires_grad_(False)

    def reference_outputs(self, batch):
        with self.no_grad(), self.autocast():
            return self.reference(batch[0])

    def predict(self, batch):
        return super().predict(batch)[0]

    def loss(self, batch):
        images, labels = batch
        taught, theirs = self.reference_outputs(batch)
        with self.autocast():
            scores, ours = self.model(images)
            hint = sum(F.mse_loss(project(ours[k]).float(), theirs[k].float()) for project, k in zip(self.model.project, self.hints))
        t = self.temperature
        soft = F.kl_div(F.log_softmax(scores.float() / t, dim=1), F.log_softmax(taught.float() / t, dim=1), reduction="batchmean", log_target=True) * t * t
        return (1 - self.alpha) * F.cross_entropy(scores.float(), labels) + self.alpha * soft + 0.1 * hint
