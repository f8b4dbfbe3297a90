"""Jobs of video, sound, roads, pictures with words: what happens in a clip, videos made sharper, letters with a trainer, speech without noise,
music of codes, roads, pictures and words with a trainer, pairs by a sigmoid."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint
from transformers import AutoModel, AutoModelForCTC, CLIPVisionModel, LlamaForCausalLM, Trainer, TrainingArguments

from core import DEVICE, job
from jobs_families_k import SelfLook
from jobs_images import ImageLoop
from jobs_trainers import OUTPUT, TrainerJob
from parts import Loop, cut


class Apart(nn.Sequential):
    """A look at each picture, then one along time."""

    def __init__(self, a, b, space=1, time=1):
        middle = (27 * a * b) // (9 * a + 3 * b)
        super().__init__(nn.Conv3d(a, middle, (1, 3, 3), (1, space, space), (0, 1, 1), bias=False), nn.BatchNorm3d(middle), nn.ReLU(True),
                         nn.Conv3d(middle, b, (3, 1, 1), (time, 1, 1), (1, 0, 0), bias=False), nn.BatchNorm3d(b))


class Clip(nn.Module):
    """Blocks of such layers, and what was there is added to each."""

    def __init__(self, o):
        super().__init__()
        w, blocks, shorts = o.base, [], []
        self.stem = nn.Sequential(Apart(3, w, 2), nn.ReLU(True))
        for k in range(3):
            for n in range(o.layers):
                a, b, s = w << (k - 1 if k and not n else k), w << k, 2 if k and not n else 1
                blocks.append(nn.Sequential(Apart(a, b, s, s), nn.ReLU(True), Apart(b, b)))
                shorts.append(nn.Conv3d(a, b, 1, s) if s > 1 else nn.Identity())
        self.blocks, self.shorts, self.kinds = nn.ModuleList(blocks), nn.ModuleList(shorts), nn.Linear(w << 2, o.kinds_of_clips)

    def forward(self, clip):
        x = self.stem(clip)
        for block, short in zip(self.blocks, self.shorts):
            x = F.relu(block(x) + short(x))
        return self.kinds(x.mean((2, 3, 4)))


@job("what_happens_in_a_clip", "what happens in a clip", "loop", "layers", "eval", "dataset", "crop")
class WhatHappensInAClip(Loop):
    """Hundreds of things that people do, from some frames."""
    kinds = "sgd_momentum", "adamw", "adam"
    longest, kinds_of_clips, accumulated = 48, 400, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.base, self.side = r.choice([1, 2]), r.choice([32, 48]), r.choice([96, 112])
        self.length, self.size = r.choice([8, 16]), r.choice([4, 6, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Clip(self))
        self.dataset = torch.zeros(16, 3, self.longest, self.side, self.side, dtype=torch.uint8), torch.zeros(16, dtype=torch.long)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        clips, kinds = (t[start:start + self.size] for t in self.dataset)
        return clips[:, :, :self.length].to(DEVICE).to(self.dtype).div_(255), kinds.to(DEVICE)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).float(), batch[1], label_smoothing=0.1)


class Steady(nn.Module):
    """Blocks without norms, behind a layer that takes a picture and a state."""

    def __init__(self, into, width, layers):
        super().__init__()
        self.into = nn.Conv2d(into, width, 3, padding=1)
        def pair():
            return nn.Sequential(nn.Conv2d(width, width, 3, padding=1), nn.ReLU(True), nn.Conv2d(width, width, 3, padding=1))
        self.blocks = nn.ModuleList(pair() for _ in range(layers))

    def forward(self, x):
        x = F.leaky_relu(self.into(x), 0.1)
        for block in self.blocks:
            x = x + block(x)
        return x


class Sharper(nn.Module):
    """Two states, one that comes from later frames and one that comes from earlier ones; each is moved as the pictures move."""

    def __init__(self, o):
        super().__init__()
        w, self.width, self.remake = o.width, o.width, o.checkpointing
        self.moves = nn.Sequential(nn.Conv2d(6, 32, 7, padding=3), nn.ReLU(True), nn.Conv2d(32, 2, 7, padding=3))
        self.back, self.forth = Steady(3 + w, w, o.layers), Steady(3 + 2 * w, w, o.layers)
        self.up = nn.Sequential(nn.Conv2d(w, 4 * w, 3, padding=1), nn.PixelShuffle(2), nn.LeakyReLU(0.1), nn.Conv2d(w, 256, 3, padding=1), nn.PixelShuffle(2),
                                nn.LeakyReLU(0.1), nn.Conv2d(64, 3, 3, padding=1))

    def moved(self, state, a, b):
        flow = self.moves(torch.cat([a, b], dim=1)).permute(0, 2, 3, 1)
        places = F.affine_grid(torch.eye(2, 3, device=a.device).expand(len(a), -1, -1), list(a.shape), align_corners=False)
        return F.grid_sample(state, places.to(state.dtype) + 0.1 * flow.tanh().to(state.dtype), align_corners=False)

    def run(self, part, *inputs):
        x = torch.cat(inputs, dim=1)
        return checkpoint(part, x, use_reentrant=False) if self.remake and torch.is_grad_enabled() else part(x)

    def forward(self, frames):
        frames = frames.unbind(1)
        state, later = frames[0].new_zeros(len(frames[0]), self.width, *frames[0].shape[2:]), []
        for k in range(len(frames) - 1, -1, -1):
            state = self.moved(state, frames[k], frames[k + 1]) if k + 1 < len(frames) else state
            state = self.run(self.back, frames[k], state)
            later.append(state)
        state, told = torch.zeros_like(state), []
        for k, frame in enumerate(frames):
            state = self.moved(state, frame, frames[k - 1]) if k else state
            state = self.run(self.forth, frame, state, later[-1 - k])
            told.append(self.up(state) + F.interpolate(frame, scale_factor=4, mode="bilinear", align_corners=False))
        return torch.stack(told, dim=1)


@job("videos_made_sharper", "videos made sharper", "loop", "layers", "checkpointing", "eval", "dataset", "crop")
class VideosMadeSharper(Loop):
    """Frames of a small video, four times as wide, from all frames before and after each."""
    kinds = "adam", "adamw"
    precisions = "fp32", "autocast"
    longest, accumulated = 15, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width, self.side = r.choice([2, 3, 4]), r.choice([32, 48, 64]), r.choice([48, 64])
        self.length, self.size, self.checkpointing = r.choice([4, 5, 6]), r.choice([2, 3, 4]), r.random() < 0.2
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Sharper(self))
        small, large = ((12, self.longest, 3, n * self.side, n * self.side) for n in (1, 4))
        self.dataset = torch.zeros(small, dtype=torch.uint8), torch.zeros(large, dtype=torch.uint8)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        return [t[start:start + self.size, :self.length].to(DEVICE).to(self.dtype).div_(255) for t in self.dataset]

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        return ((self.predict(batch).float() - batch[1].float()).square() + 1e-6).sqrt().mean()


class Recordings(torch.utils.data.Dataset):
    """One recording, again and again, and its letters."""

    def __init__(self, rows, samples, letters):
        self.rows, self.sound, self.letters = rows, torch.zeros(samples), torch.ones(letters, dtype=torch.long)

    def __len__(self):
        return self.rows

    def __getitem__(self, i):
        return {"input_values": self.sound, "labels": self.letters}


@job("letters_with_trainer", "letters with a trainer", "trainer", "layers", "attention", "checkpointing", "states", "forward")
class LettersWithTrainer(TrainerJob):
    """A network of transformers that has heard much is taught the letters of a language, under the Trainer; compute_loss() is its own."""

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.width, self.samples, self.letters = r.choice([3, 4, 6]), r.choice([512, 768]), 16000 * r.choice([4, 6, 8]), r.choice([40, 60])
        self.trainer_arguments["per_device_train_batch_size"] = r.choice([4, 6, 8])

    def build(self):
        config = transformers.UniSpeechConfig(hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8, intermediate_size=4 * self.width,
                                              vocab_size=40, num_ctc_classes=40, mask_time_prob=0.0, apply_spec_augment=False, layerdrop=0.0,
                                              conv_dim=[256] * 7)
        with torch.device(DEVICE):
            self.model = AutoModelForCTC.from_config(config, attn_implementation=self.attention)
        self.model.freeze_feature_encoder()
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [], "warmup_steps": 2,
            "disable_tqdm": True, "logging_steps": 3, "remove_unused_columns": False, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        own = self

        class Spelling(Trainer):
            def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
                return own.loss(inputs)
        sets = [Recordings(n * self.size, self.samples, self.letters) for n in (32, 2)]
        self.trainer = Spelling(self.model, arguments, train_dataset=sets[0], eval_dataset=sets[1], callbacks=self.callbacks)

    def loss(self, batch):
        with self.trainer.compute_loss_context_manager():
            logs = self.trainer.model(input_values=batch["input_values"]).logits.float().log_softmax(-1).transpose(0, 1)
        n = len(batch["labels"])
        return F.ctc_loss(logs, batch["labels"], torch.full((n,), len(logs)), torch.full((n,), self.letters), zero_infinity=True)


LettersWithTrainer.traits = LettersWithTrainer.traits - {"tokens", "decoder"}


class Both(nn.Module):
    """Along the bands of a moment, in both directions, and then along time."""

    def __init__(self, width):
        super().__init__()
        self.bands, self.time = nn.GRU(width, width // 2, batch_first=True, bidirectional=True), nn.GRU(width, width, batch_first=True)
        self.one, self.two = nn.LayerNorm(width), nn.LayerNorm(width)

    def forward(self, x):
        n, t, f, c = x.shape
        x = x + self.one(self.bands(x.reshape(n * t, f, c))[0].view(n, t, f, c))
        along = self.time(x.transpose(1, 2).reshape(n * f, t, c))[0]
        return x + self.two(along.view(n, f, t, c).transpose(1, 2))


class Clean(nn.Module):
    """Spectra in, and a complex number for each band and moment out, by which they are multiplied."""

    def __init__(self, o):
        super().__init__()
        w, self.window, self.hop = o.width, 512, 256
        self.down = nn.Sequential(nn.Conv2d(2, w // 2, (3, 5), (1, 2), (1, 2)), nn.PReLU(), nn.Conv2d(w // 2, w, (3, 5), (1, 2), (1, 2)), nn.PReLU())
        self.layers = nn.ModuleList(Both(w) for _ in range(o.layers))
        self.up = nn.Sequential(nn.ConvTranspose2d(w, w // 2, (3, 5), (1, 2), (1, 2)), nn.PReLU(), nn.ConvTranspose2d(w // 2, 2, (3, 5), (1, 2), (1, 2)))

    def spectra(self, sound):
        frames = sound.float().unfold(-1, self.window, self.hop) * torch.hann_window(self.window, device=sound.device)
        return torch.view_as_real(torch.fft.rfft(frames))

    def forward(self, noisy):
        given = self.spectra(noisy)
        x = self.down(given.permute(0, 3, 1, 2).to(self.up[0].weight.dtype)).permute(0, 2, 3, 1)
        for layer in self.layers:
            x = layer(x)
        mask = self.up(x.permute(0, 3, 1, 2)).permute(0, 2, 3, 1).float()
        return torch.view_as_real(torch.view_as_complex(given) * torch.view_as_complex(mask.contiguous()))


@job("speech_without_noise", "speech without noise", "loop", "layers", "eval", "dataset", "crop")
class SpeechWithoutNoise(Loop):
    """A voice in the street, without the street; loudness counts as it is heard."""
    kinds = "adam", "adamw", "adamw_fused"
    precisions = "fp32", "fp32", "autocast"
    longest, accumulated = 16000 * 12, (1, 1, 2)

    def draw(self):
        r = self.rng
        self.layers, self.width = r.choice([2, 3]), r.choice([48, 64])
        self.length, self.size = 16000 * r.choice([2, 3, 4]), r.choice([8, 12, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Clean(self))
        self.dataset = torch.zeros(48, self.longest, dtype=torch.int16), torch.zeros(48, self.longest, dtype=torch.int16)

    def batch(self, i):
        start = i * self.size % max(1, len(self.dataset[0]) - self.size + 1)
        return [t[start:start + self.size, :self.length].to(DEVICE).float() / 32768 for t in self.dataset]

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        told, wanted = self.predict(batch), self.model.spectra(batch[1])
        loud, right = ((s.square().sum(-1) + 1e-9).pow(0.15) for s in (told, wanted))
        return F.mse_loss(loud, right) + 0.3 * F.l1_loss(told, wanted)


class Composer(nn.Module):
    """Some codes for each moment, each later by one than the one before; what the music should be like is looked at in every layer."""

    def __init__(self, o):
        super().__init__()
        w, self.remake, self.heads = o.width, o.checkpointing, o.codebooks
        self.codes = nn.ModuleList(nn.Embedding(o.codes + 1, w) for _ in range(o.codebooks))
        self.asked, self.layers = nn.Linear(o.wish, w), nn.ModuleList()
        for _ in range(o.layers):
            self.layers.append(nn.ModuleDict({"n1": nn.LayerNorm(w), "own": SelfLook(w, o.attention), "n2": nn.LayerNorm(w), "n3": nn.LayerNorm(w),
                                              "wish": nn.MultiheadAttention(w, 8, batch_first=True), "wide": nn.Linear(w, 4 * w), "back": nn.Linear(4 * w, w)}))
        self.norm, self.out = nn.LayerNorm(w), nn.Linear(w, o.codebooks * o.codes)

    @staticmethod
    def layer(part, x, asked):
        x = x + part["own"](part["n1"](x))
        x = x + part["wish"](part["n2"](x), asked, asked, need_weights=False)[0]
        return x + part["back"](F.gelu(part["wide"](part["n3"](x))))

    def forward(self, codes, wish):
        x, asked = sum(table(codes[:, k]) for k, table in enumerate(self.codes)), self.asked(wish)
        for part in self.layers:
            x = checkpoint(self.layer, part, x, asked, use_reentrant=False) if self.remake and torch.is_grad_enabled() else self.layer(part, x, asked)
        return self.out(self.norm(x)).unflatten(-1, (self.heads, -1))


@job("music_of_codes", "music of codes", "loop", "layers", "attention", "checkpointing", "eval", "dataset", "crop")
class MusicOfCodes(Loop):
    """Seconds of music, as codes of a codec, after what somebody wishes; sometimes nothing is wished."""
    kinds = "adamw", "adamw_fused", "adafactor"
    longest, codebooks, wish = 1500, 4, 768

    def draw(self):
        r = self.rng
        self.layers, self.width, self.codes, self.attention = r.choice([4, 6, 8]), r.choice([512, 768]), r.choice([1024, 2048]), "sdpa"
        self.length, self.size, self.checkpointing = r.choice([300, 500]), r.choice([4, 8]), r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Composer(self))
        self.dataset = torch.zeros(48, self.codebooks, self.longest, dtype=torch.int16), torch.zeros(48, 32, self.wish)

    def batch(self, i):
        codes, wish = cut(self.dataset, i, self.size)
        late = [F.pad(codes[:, k, :self.length - k].long(), (k, 0), value=self.codes) for k in range(self.codebooks)]
        return torch.stack(late, dim=1), wish.to(self.dtype) * (i % 5 > 0)

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)

    def loss(self, batch):
        said, wanted = self.predict(batch)[:, :-1].float(), batch[0][:, :, 1:]
        return sum(F.cross_entropy(said[:, :, k].transpose(1, 2), wanted[:, k], ignore_index=self.codes) for k in range(self.codebooks)) / self.codebooks


class Gated(nn.Module):
    """A gate along time, and what flows between the roads: by a map, and by one that is learned."""

    def __init__(self, width, gap):
        super().__init__()
        self.keep, self.open = (nn.Conv2d(width, width, (1, 2), dilation=(1, gap)) for _ in range(2))
        self.mix, self.skip, self.norm = nn.Conv2d(5 * width, width, 1), nn.Conv2d(width, 4 * width, 1), nn.BatchNorm2d(width)

    def forward(self, x, maps):
        y = torch.tanh(self.keep(x)) * torch.sigmoid(self.open(x))
        skip, seen = self.skip(y[..., -1:]), [y]
        for m in maps:
            once = torch.einsum("ncvt,vw->ncwt", y, m.to(y.dtype))
            seen += [once, torch.einsum("ncvt,vw->ncwt", once, m.to(y.dtype))]
        return self.norm(F.dropout(self.mix(torch.cat(seen, dim=1)), 0.3, self.training) + x[..., -y.shape[-1]:]), skip


class RoadNet(nn.Module):
    """Layers with gates, each of which adds to what is told in the end."""

    def __init__(self, o):
        super().__init__()
        self.into, self.layers = nn.Conv2d(2, o.width, 1), nn.ModuleList(Gated(o.width, 1 << k % 3) for k in range(o.layers))
        self.a, self.b = nn.Parameter(torch.zeros(o.roads, 10)), nn.Parameter(torch.zeros(10, o.roads))
        self.register_buffer("map", torch.zeros(o.roads, o.roads))
        self.out = nn.Sequential(nn.ReLU(), nn.Conv2d(4 * o.width, 512, 1), nn.ReLU(), nn.Conv2d(512, o.ahead, 1))

    def forward(self, x):
        x, total, maps = self.into(x), 0, (self.map, F.relu(self.a @ self.b).softmax(1))
        x = F.pad(x, (max(0, 1 + sum(1 << k % 3 for k in range(len(self.layers))) - x.shape[-1]), 0))
        for layer in self.layers:
            x, skip = layer(x, maps)
            total = total + skip
        return self.out(total).squeeze(-1)


@job("roads", "roads", "loop", "layers", "eval", "dataset")
class Roads(Loop):
    """How fast cars will be in the next hour on each road, from the last one; sensors that were broken do not count."""
    kinds = "adam", "adamw", "sgd_momentum"
    precisions = "fp32", "fp32", "autocast"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.roads, self.ahead = r.choice([6, 8]), r.choice([32, 48]), r.choice([207, 325, 512]), 12
        self.size = r.choice([32, 48, 64])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(RoadNet(self))
        self.dataset = torch.zeros(256, 2, self.roads, 12), torch.zeros(256, self.ahead, self.roads)

    def batch(self, i):
        before, after = cut(self.dataset, i, self.size)
        return before.to(self.dtype), after

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])

    def loss(self, batch):
        known = (batch[1] != 0).float()
        return ((self.predict(batch).float() - batch[1]).abs() * known).sum() / known.sum().clamp(min=1)


class PicturesRead(nn.Module):
    """Patches of a picture, as a tower sees them, stand before the words of a language model."""

    def __init__(self, o):
        super().__init__()
        look = {"hidden_size": 512, "intermediate_size": 2048, "num_hidden_layers": 4, "num_attention_heads": 8}
        self.tower = CLIPVisionModel(transformers.CLIPVisionConfig(image_size=o.pixels, patch_size=16, attn_implementation=o.attention, **look))
        self.bridge = nn.Sequential(nn.LayerNorm(512), nn.Linear(512, o.width), nn.GELU(), nn.Linear(o.width, o.width))
        self.language = LlamaForCausalLM(transformers.LlamaConfig(
            vocab_size=o.vocabulary, hidden_size=o.width, intermediate_size=3 * o.width, num_hidden_layers=o.layers, num_attention_heads=8,
            num_key_value_heads=4, max_position_embeddings=4096, attn_implementation=o.attention, use_cache=False))

    def gradient_checkpointing_enable(self, **how):
        self.language.gradient_checkpointing_enable(**how)

    def forward(self, pixel_values, input_ids, labels=None):
        with torch.no_grad():
            seen = self.tower(pixel_values=pixel_values).last_hidden_state[:, 1:]
        first, words = self.bridge(seen), self.language.get_input_embeddings()(input_ids)
        said = self.language(inputs_embeds=torch.cat([first.to(words.dtype), words], dim=1), logits_to_keep=input_ids.shape[1]).logits
        lost = None if labels is None else F.cross_entropy(said[:, :-1].flatten(0, 1).float(), labels[:, 1:].flatten())
        return {"loss": lost, "logits": said}


@job("pictures_and_words", "pictures and words with a trainer", "trainer", "decoder", "layers", "attention", "checkpointing", "states", "pretrained")
class PicturesAndWords(TrainerJob):
    """Questions about pictures under transformers' Trainer: bridge and language model learn, the tower stays."""

    def draw(self):
        super().draw()
        self.pixels, self.length, self.vocabulary = self.rng.choice([224, 336]), self.rng.choice([128, 256]), self.rng.choice([16000, 32000])

    def freeze(self):
        self.model.tower.requires_grad_(False)

    def build(self):
        with torch.device(DEVICE):
            self.model = PicturesRead(self)
        self.freeze()
        arguments = TrainingArguments(**{
            "output_dir": OUTPUT, "per_device_eval_batch_size": self.size, "max_steps": self.steps, "save_strategy": "no", "report_to": [], "logging_steps": 2,
            "disable_tqdm": True, "remove_unused_columns": False, "gradient_checkpointing": self.checkpointing, **self.trainer_arguments})
        one = {"pixel_values": torch.zeros(3, self.pixels, self.pixels), **dict.fromkeys(("input_ids", "labels"), torch.ones(self.length, dtype=torch.long))}
        self.trainer = Trainer(self.model, arguments, train_dataset=[one] * (32 * self.size), eval_dataset=[one] * (2 * self.size), callbacks=self.callbacks)


PicturesAndWords.traits = PicturesAndWords.traits - {"tokens"}


@job("pairs_by_a_sigmoid", "pairs by a sigmoid", "loop", "images", "layers", "attention", "eval")
class PairsByASigmoid(ImageLoop):
    """SigLIP: whether a caption belongs to a picture, each pair by itself, some rows of pairs at a time."""
    kinds = "adamw", "adamw_fused", "adafactor"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.words, self.attention = r.choice([3, 4, 6]), r.choice([384, 512, 768]), r.choice([16000, 32000]), "sdpa"
        self.draw_images([128, 192, 224], [24, 32, 48])
        self.choose()

    def build(self):
        both = {"hidden_size": self.width, "intermediate_size": 4 * self.width, "num_hidden_layers": self.layers, "num_attention_heads": 8}
        config = transformers.SiglipConfig(text_config={"vocab_size": self.words, "max_position_embeddings": 64, "projection_size": self.width, **both},
                                           vision_config={"image_size": self.pixels, "patch_size": 16, **both})
        with torch.device(DEVICE):
            self.finish(AutoModel.from_config(config, attn_implementation=self.attention))

    def predict(self, batch):
        captions = torch.ones(len(batch[0]), 64, dtype=torch.long, device=DEVICE)
        with self.autocast():
            return self.model(pixel_values=batch[0], input_ids=captions).logits_per_image

    def loss(self, batch):
        near = self.predict(batch).float()
        signs = 2 * torch.eye(len(near), device=DEVICE) - 1
        return -sum(F.logsigmoid(part * sign).sum() for part, sign in zip(near.split(16), signs.split(16))) / len(near)
