"""Jobs of text: seen and told, bytes, memories in matrices, generated weights, groups of answers, drafts that a larger model checks, reranking."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from torch.func import functional_call
from torch.utils.checkpoint import checkpoint
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from core import DEVICE, job
from jobs_images import EncoderBlock
from jobs_inference import Inference
from parts import Loop, TextLoop, cut


def llama(o, layers, width, vocabulary, dtype=torch.float32, **more):
    config = transformers.LlamaConfig(vocab_size=vocabulary, hidden_size=width, intermediate_size=3 * width, num_hidden_layers=layers, num_attention_heads=8,
                                      num_key_value_heads=4, max_position_embeddings=4096, use_cache=False, **more)
    with torch.device(DEVICE):
        return AutoModelForCausalLM.from_config(config, attn_implementation=o.attention, dtype=dtype)


class Viewer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.patches, self.position = nn.Conv2d(3, o.seen, 14, 14), nn.Parameter(torch.zeros(1, (o.pixels // 14) ** 2, o.seen))
        self.blocks = nn.ModuleList(EncoderBlock(o.seen, 8, o.attention) for _ in range(o.layers))

    def forward(self, images):
        x = self.patches(images).flatten(2).transpose(1, 2) + self.position
        for block in self.blocks:
            x = block(x)
        return x


class SeenAndTold(nn.Module):
    """Patches of an image, projected, come before the words of a question and its answer."""

    def __init__(self, o):
        super().__init__()
        self.vision, self.language = Viewer(o), llama(o, o.layers, o.width, o.vocabulary)
        self.projector = nn.Sequential(nn.Linear(4 * o.seen, o.width), nn.GELU(), nn.Linear(o.width, o.width))

    def forward(self, images, words):
        seen = self.vision(images)
        seen = self.projector(seen[:, :seen.shape[1] // 4 * 4].unflatten(1, (-1, 4)).flatten(2))
        embeds = torch.cat([seen, self.language.get_input_embeddings()(words).to(seen.dtype)], dim=1)
        return self.language(inputs_embeds=embeds, logits_to_keep=words.shape[1]).logits


@job("image_questions", "vision and language", "loop", "layers", "attention", "eval", "pretrained", "dataset")
class ImageQuestions(Loop):
    """Answers about images, with the vision tower as it was trained."""
    kinds = "adamw", "adamw_fused", "adafactor"

    def draw(self):
        r = self.rng
        self.layers, self.seen, self.width, self.attention = r.choice([2, 3, 4]), r.choice([384, 512]), r.choice([512, 768, 1024]), "sdpa"
        self.pixels, self.words, self.size, self.vocabulary = r.choice([224, 336]), r.choice([96, 160, 256]), r.choice([4, 8]), r.choice([16000, 32064])
        self.choose()

    def freeze(self):
        self.model.vision.requires_grad_(False)

    def build(self):
        with torch.device(DEVICE):
            self.model = SeenAndTold(self)
        self.freeze()
        self.finish(self.model)
        self.dataset = torch.zeros(32, 3, self.pixels, self.pixels, dtype=torch.uint8), torch.ones(32, self.words, dtype=torch.long)

    def batch(self, i):
        images, words = cut(self.dataset, i, self.size)
        return images.to(self.dtype) / 255, words

    def predict(self, batch):
        with self.autocast():
            return self.model(*batch)

    def loss(self, batch):
        logits = self.predict(batch)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), batch[1][:, 1:].flatten())


class ByteModel(nn.Module):
    """Bytes with embeddings of the hashes of the bytes before them; patches of bytes go through the large part."""

    def __init__(self, o):
        super().__init__()
        self.entries, self.patch, self.bytes = o.entries, o.patch, nn.Embedding(260, o.narrow)
        self.grams = nn.ModuleList(nn.Embedding(o.entries, o.narrow) for _ in range(o.orders))
        self.local = nn.ModuleList(EncoderBlock(o.narrow, 4, "sdpa") for _ in range(2))
        self.into, self.back = nn.Linear(o.patch * o.narrow, o.width), nn.Linear(o.width, o.patch * o.narrow)
        self.blocks = nn.ModuleList(EncoderBlock(o.width, 8, "sdpa") for _ in range(o.layers))
        self.head = nn.Linear(o.narrow, 260)

    def forward(self, text):
        x, key = self.bytes(text), text
        for n, table in enumerate(self.grams):
            key = (key * 257 + F.pad(text, (n + 1, 0))[:, :text.shape[1]]) % self.entries
            x = x + table(key)
        windows = x.unflatten(1, (-1, 8 * self.patch)).flatten(0, 1)
        x = self.local[0](windows).unflatten(0, (len(text), -1)).flatten(1, 2)
        large = self.into(x.unflatten(1, (-1, self.patch)).flatten(2))
        for block in self.blocks:
            large = block(large)
        x = x + self.back(large).unflatten(2, (self.patch, -1)).flatten(1, 2)
        x = self.local[1](x.unflatten(1, (-1, 8 * self.patch)).flatten(0, 1)).unflatten(0, (len(text), -1)).flatten(1, 2)
        return self.head(x)


@job("byte_model", "bytes", "loop", "layers", "eval", "dataset")
class Bytes(Loop):
    def draw(self):
        r = self.rng
        self.layers, self.narrow, self.width, self.patch = r.choice([3, 4, 6]), r.choice([128, 192, 256]), r.choice([512, 768]), r.choice([4, 8])
        self.entries, self.orders, self.bytes, self.size = r.choice([20000, 50000]), r.choice([3, 5]), r.choice([2048, 4096]), r.choice([4, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(ByteModel(self))
        self.dataset = torch.zeros(48, self.bytes, dtype=torch.uint8),

    def batch(self, i):
        return cut(self.dataset, i, self.size).long()

    def predict(self, batch):
        with self.autocast():
            return self.model(batch)

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch)[:, :-1].flatten(0, 1).float(), batch[:, 1:].flatten())


class MatrixMemory(nn.Module):
    """A matrix for each head remembers keys and values, and forgets by gates; it is computed chunk by chunk."""

    def __init__(self, width, heads, chunk):
        super().__init__()
        self.heads, self.chunk = heads, chunk
        self.norm, self.qkv, self.gates = nn.LayerNorm(width), nn.Linear(width, 3 * width, bias=False), nn.Linear(width, 2 * heads)
        self.out, self.gate = nn.Linear(width, width, bias=False), nn.Linear(width, width)
        self.mlp = nn.Sequential(nn.LayerNorm(width), nn.Linear(width, 3 * width), nn.GELU(), nn.Linear(3 * width, width))

    def remember(self, x):
        b, s, c = x.shape
        q, k, v = (t.view(b, s, self.heads, -1).transpose(1, 2) for t in self.qkv(x).chunk(3, dim=-1))
        forget, take = self.gates(x).transpose(1, 2).chunk(2, dim=1)
        forget, take = F.logsigmoid(forget), take.sigmoid()
        memory, outputs = q.new_zeros(b, self.heads, c // self.heads, c // self.heads), []
        for n in range(0, s, self.chunk):
            qc, kc, vc, f, t = (part[:, :, n:n + self.chunk] for part in (q, k, v, forget, take))
            decay = f.cumsum(-1)
            within = (qc @ kc.mT) * (decay[..., :, None] - decay[..., None, :]).tril().exp().tril() * t[..., None, :]
            outputs.append(within.to(vc.dtype) @ vc + (qc * decay.exp().to(qc.dtype)[..., None]) @ memory)
            left = (decay[..., -1:] - decay).exp() * t
            memory = memory * decay[..., -1, None, None].exp().to(memory.dtype) + (kc * left.to(kc.dtype)[..., None]).mT @ vc
        return torch.cat(outputs, dim=2).transpose(1, 2).reshape(b, s, c)

    def forward(self, x):
        h = self.norm(x)
        x = x + self.out(self.remember(h) * F.silu(self.gate(h)))
        return x + self.mlp(x)


@job("matrix_memory", "matrix memory", "loop", "decoder", "layers", "checkpointing", "eval")
class MatrixMemoryModel(TextLoop):
    """A language model whose memory has one size, however long the text is."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([2, 3, 4]), r.choice([384, 512, 768]), r.choice([8192, 16384, 32000])
        self.length, self.size, self.checkpointing = r.choice([256, 512]), r.choice([4, 8, 16]), r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            net = nn.Module()
            net.embed, net.head = nn.Embedding(self.vocabulary, self.width), nn.Linear(self.width, self.vocabulary, bias=False)
            net.layers, net.norm = nn.ModuleList(MatrixMemory(self.width, 4, 64) for _ in range(self.layers)), nn.LayerNorm(self.width)
            net.forward = lambda tokens: self.logits(net, tokens)
            self.finish(net)

    def logits(self, net, tokens):
        x = net.embed(tokens)
        for layer in net.layers:
            x = checkpoint(layer, x, use_reentrant=False) if self.checkpointing and net.training else layer(x)
        return net.head(net.norm(x))

    def loss(self, tokens):
        logits = self.predict(tokens)
        return F.cross_entropy(logits[:, :-1].flatten(0, 1).float(), tokens[:, 1:].flatten())


class GeneratedWeights(nn.Module):
    """A description of a task gives the weights of a small network that solves it."""

    def __init__(self, o):
        super().__init__()
        self.target = nn.Sequential(nn.Linear(o.inputs, o.hidden), nn.GELU(), nn.Linear(o.hidden, o.hidden), nn.GELU(), nn.Linear(o.hidden, o.outputs))
        self.target.requires_grad_(False)
        self.shapes = {name: p.shape for name, p in self.target.named_parameters()}
        self.trunk = nn.Sequential(nn.Linear(o.described, o.width), nn.GELU(), nn.Linear(o.width, o.width), nn.GELU())
        self.heads = nn.ModuleList(nn.Linear(o.width, p.numel()) for p in self.target.parameters())

    def forward(self, described, inputs):
        outputs = []
        for task, x in zip(self.trunk(described), inputs):
            weights = {name: head(task).view(shape) for head, (name, shape) in zip(self.heads, self.shapes.items())}
            outputs.append(functional_call(self.target, weights, (x,)))
        return torch.stack(outputs)


@job("generated_weights", "hypernetwork", "loop", "eval", "dataset")
class HyperNetwork(Loop):
    kinds = "adamw", "adam", "sgd_momentum"

    def draw(self):
        r = self.rng
        self.inputs, self.hidden, self.outputs, self.described = 32, r.choice([128, 192, 256]), 16, 64
        self.width, self.size, self.examples = r.choice([256, 384, 512]), r.choice([8, 16]), r.choice([2048, 8192, 16384])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(GeneratedWeights(self))
        self.dataset = torch.zeros(48, self.described), torch.zeros(48, self.examples, self.inputs), torch.zeros(48, self.examples, self.outputs)

    def batch(self, i):
        return cut(self.dataset, i, self.size)

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0].to(self.dtype), batch[1].to(self.dtype))

    def loss(self, batch):
        return F.mse_loss(self.predict(batch).float(), batch[2])


@job("group_rollouts", "groups of answers", "loop", "decoder", "layers", "attention", "tokens", "reference")
class GroupRollouts(Loop):
    """Several answers to each question are sampled; those that are better than their group become more likely, near to a frozen reference."""
    kinds = "adamw", "adamw_fused"
    precisions = "autocast", "bf16", "bf16"
    accumulated = 1, 1, 2

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary = r.choice([2, 3, 4]), r.choice([512, 768]), r.choice([8192, 16000, 32000])
        self.length, self.answer, self.size, self.attention = r.choice([96, 128, 256]), r.choice([4, 5]), r.choice([8, 16]), "sdpa"
        self.choose()
        self.steps = 3

    def build(self):
        self.reference = llama(self, self.layers, self.width, self.vocabulary, self.dtype).eval().requires_grad_(False)
        self.finish(llama(self, self.layers, self.width, self.vocabulary))

    def batch(self, i):
        """Questions with the answers that the model gives now."""
        questions = torch.zeros(max(1, self.size // 4), self.length, dtype=torch.long).to(DEVICE).repeat_interleave(min(4, self.size), dim=0)
        self.model.eval()
        with torch.no_grad(), self.autocast():
            texts = self.model.generate(questions, attention_mask=torch.ones_like(questions), max_new_tokens=self.answer, min_new_tokens=self.answer, pad_token_id=0,
                                        do_sample=True, use_cache=True)
        self.model.train()
        rewards = torch.rand(len(texts), device=DEVICE).unflatten(0, (-1, min(4, self.size)))
        return texts, ((rewards - rewards.mean(1, keepdim=True)) / (rewards.std(1, keepdim=True) + 1e-4)).flatten()

    def likelihoods(self, model, texts):
        with self.autocast():
            logits = model(input_ids=texts, logits_to_keep=texts.shape[1] - self.length + 1).logits[:, :-1]
        told = texts[:, self.length:]
        return torch.gather(logits, -1, told[..., None]).squeeze(-1).float() - logits.float().logsumexp(-1)

    def reference_outputs(self, batch):
        with self.no_grad():
            return self.likelihoods(self.reference, batch[0])

    def loss(self, batch):
        before, now = self.reference_outputs(batch), self.likelihoods(self.model, batch[0])
        ratio = (now - now.detach()).exp()
        distance = (before - now).exp() - (before - now) - 1
        return (-ratio * batch[1][:, None] + 0.04 * distance).mean()


@job("drafts_checked", "drafts", "decoder", "tokens", "layers", "attention")
class Drafts(Inference):
    """A small model drafts some tokens, which a large one checks in one pass; both have a cache."""

    def draw(self):
        super().draw()
        self.size, self.drafted, self.rounds, self.steps = self.rng.choice([8, 16, 32]), self.rng.choice([3, 4]), 3, self.rng.choice([4, 6])
        self.layers = self.rng.choice([2, 3, 4])

    def build(self):
        self.model = llama(self, self.layers, self.width, self.vocabulary, self.dtype).eval()
        self.draft = llama(self, 1, self.width // 2, self.vocabulary, self.dtype).eval()

    def predict(self, input_ids):
        checked = self.model(input_ids=input_ids, use_cache=True, logits_to_keep=1)
        drafted = self.draft(input_ids=input_ids, use_cache=True, logits_to_keep=1)
        last, accepted = checked.logits.argmax(-1), []
        for _ in range(self.rounds):
            draft = [last]
            for _ in range(self.drafted):
                drafted = self.draft(input_ids=draft[-1], past_key_values=drafted.past_key_values, use_cache=True)
                draft.append(drafted.logits[:, -1:].argmax(-1))
            draft = torch.cat(draft, dim=1)
            checked = self.model(input_ids=draft, past_key_values=checked.past_key_values, use_cache=True)
            told = checked.logits.argmax(-1)
            accepted.append(torch.where(told[:, :-1] == draft[:, 1:], draft[:, 1:], told[:, :-1]))
            last = told[:, -1:]
        return torch.cat(accepted, dim=1)

    def take(self, i, outputs):
        self.results.append(outputs.cpu())


def encoder(o):
    config = transformers.BertConfig(hidden_size=o.width, intermediate_size=4 * o.width, num_hidden_layers=o.layers, num_attention_heads=8, vocab_size=o.vocabulary,
                                     max_position_embeddings=max(512, o.length), num_labels=1)
    with torch.device(DEVICE):
        return AutoModelForSequenceClassification.from_config(config, attn_implementation=o.attention)


@job("listwise_reranker", "reranking", "loop", "layers", "attention", "eval")
class Reranker(TextLoop):
    """A question with each of its passages; the right passage should have the highest score."""
    rows = 256

    def draw(self):
        r = self.rng
        self.layers, self.width, self.vocabulary, self.attention = r.choice([2, 3, 4]), r.choice([384, 512, 768]), 30522, "sdpa"
        self.length, self.passages, self.size = r.choice([128, 192, 256]), 8, r.choice([16, 32, 64])
        self.choose()

    def build(self):
        self.finish(encoder(self))

    def predict(self, tokens):
        with self.autocast():
            return self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits

    def loss(self, tokens):
        scores = self.predict(tokens).float().squeeze(-1)
        lists = scores[:len(scores) // self.passages * self.passages].unflatten(0, (-1, self.passages)) if len(scores) >= self.passages else scores[None]
        return F.cross_entropy(lists, torch.zeros(len(lists), dtype=torch.long, device=DEVICE))


@job("reranking_service", "reranking", "tokens", "layers", "attention")
class RerankingService(Inference):
    """Requests with a question and its passages each; scores go back to who has asked."""

    def draw(self):
        super().draw()
        self.size *= 3

    def build(self):
        self.model = encoder(self).to(self.dtype).eval()

    def predict(self, tokens):
        return self.model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits.squeeze(-1)

    def take(self, i, outputs):
        self.results.append(outputs.topk(min(5, len(outputs))).values.cpu())
