"""Faults that keep more of the forward pass than its backward pass has to find."""
import math

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from amounts import after_build, blocks, largest_tensor, rows, with_output
from core import DEVICE, Fault, fault


def checkpointed(module, only_in_training=False):
    """Makes a module recompute its forward pass."""
    forward = module.forward

    def recomputed(*args, **keys):
        if only_in_training and not module.training:
            return forward(*args, **keys)
        return checkpoint(forward, *args, use_reentrant=False, **keys)
    module.forward = recomputed


def checkpoint_blocks(target, only_in_training=False):
    for block in blocks(target.model):
        checkpointed(block, only_in_training)


class Recomputation(Fault):
    def fits(self, target):
        return super().fits(target) and bool(target.traits & {"layers", "checkpointing"}) and target.family != "recurrent"

    def deep(self, target):
        """A deep model, in whose own code nothing is recomputed."""
        if "checkpointing" in target.traits:
            target.checkpointing = False
        if "layers" in target.traits:
            target.layers *= self.rng.choice([2, 3])
        if "decoder" in target.traits:
            target.vocabulary = min(target.vocabulary, 8000)


@fault("nothing_recomputed", "activations", "loop", without=("pretrained", "peft"))
class NothingRecomputed(Recomputation):
    """A deep model without activation checkpointing; the fixed form recomputes each block."""

    def inject(self, target, fixed):
        self.deep(target)
        if "checkpointing" in target.traits:
            target.checkpointing = fixed
        elif fixed:
            after_build(target, lambda: checkpoint_blocks(target))


@fault("whole_model_recomputed", "whole model recomputed", "loop", without=("pretrained", "peft"))
class WholeModelRecomputed(Recomputation):
    """The whole model is one checkpoint, so that all activations are there again in backward; the fixed form has one for each block."""

    def inject(self, target, fixed):
        self.deep(target)
        form = self.rng.choice(["module", "forward"])
        if "checkpointing" in target.traits:
            target.checkpointing = fixed

        def wrap():
            if fixed:
                if "checkpointing" not in target.traits:
                    checkpoint_blocks(target)
            elif form == "module":
                checkpointed(target.model)
            else:
                forward = target.model.forward
                target.model.forward = lambda *args, **keys: checkpoint(forward, *args, use_reentrant=False, **keys)
        after_build(target, wrap)


@fault("recomputation_off_in_eval_mode", "recomputation off", "loop", without=("pretrained", "peft"))
class RecomputationOffInEvalMode(Recomputation):
    """Training in eval mode, for the sake of dropout or batch norms: recomputation is for training mode only."""

    def inject(self, target, fixed):
        self.deep(target)
        step = target.step
        if "checkpointing" in target.traits:
            target.checkpointing = True
        else:
            after_build(target, lambda: checkpoint_blocks(target, True))

        def step_in_eval_mode(i):
            target.model.eval()
            return step(i)
        if not fixed:
            target.step = step_in_eval_mode


def longer(target, rng):
    """Sequences of a length at which scores matter, in batches with as many tokens as before."""
    length, size = getattr(target, "length", None), getattr(target, "size", None)
    if "tokens" in target.traits and isinstance(length, int) and isinstance(size, int):
        target.length = max(length, rng.choice([1024, 1536, 2048]))
        target.size = max(1, size * length // target.length)
    if "decoder" in target.traits:
        target.vocabulary = min(target.vocabulary, 8000)
    target.checkpointing = False


def softmax_attention(q, k, v, mask, scale, dropout):
    scores = q @ k.transpose(-2, -1) * scale
    if mask is not None:
        scores = scores.masked_fill(mask, float("-inf"))
    return F.dropout(scores.softmax(-1), dropout) @ v


def exponent_attention(q, k, v, mask, scale, dropout):
    weights = torch.exp(torch.einsum("bhqd,bhkd->bhqk", q, k) * scale)
    if mask is not None:
        weights = weights * ~mask
    return (weights / weights.sum(-1, keepdim=True)).to(v.dtype) @ v


def careful_attention(q, k, v, mask, scale, dropout):
    scores = torch.matmul(q.float(), k.float().transpose(2, 3)) * scale
    if mask is not None:
        scores = scores + mask.float() * -1e9
    weights = F.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return torch.matmul(F.dropout(weights, p=dropout), v)


@fault("own_attention", "attention scores", "attention", "loop")
class OwnAttention(Fault):
    """An attention of one's own, which makes all scores, in place of scaled_dot_product_attention."""

    def inject(self, target, fixed):
        longer(target, self.rng)
        attend = self.rng.choice([softmax_attention, exponent_attention, careful_attention])
        target.attention = "sdpa"

        def attention(query, key, value, attn_mask=None, dropout_p=0.0, is_causal=False, scale=None, enable_gqa=False):
            if query.shape[1] != key.shape[1]:
                key, value = (t.repeat_interleave(query.shape[1] // t.shape[1], 1) for t in (key, value))
            mask = ~attn_mask if attn_mask is not None and attn_mask.dtype == torch.bool else None
            if is_causal:
                mask = torch.ones(query.shape[2], key.shape[2], dtype=torch.bool, device=query.device).triu(1)
            return attend(query, key, value, mask, scale or 1 / math.sqrt(query.shape[-1]), dropout_p)
        if not fixed:
            F.scaled_dot_product_attention = attention


@fault("eager_attention", "attention scores", "attention", "loop")
class EagerAttention(Fault):
    """attn_implementation="eager", or a flag of the model's own."""

    def inject(self, target, fixed):
        longer(target, self.rng)
        target.attention = "sdpa" if fixed else "eager"


def in_parts(do, tensor, parts=16):
    """The mean of do() over parts of the rows, which backward computes again."""
    return sum(checkpoint(do, t, use_reentrant=False) * (len(t) / len(tensor)) for t in tensor.chunk(parts))


@fault("head_over_vocabulary", "logits", "forward")
class HeadOverVocabulary(Fault):
    """A head over a large vocabulary, in fp32 and for all positions at once; the fixed form takes parts of the rows."""

    def inject(self, target, fixed):
        share, forward, state = self.rng.uniform(0.8, 1.5), target.loss, {}
        vocabulary, form = self.rng.choice([151936, 200064, 262144]), self.rng.choice(["cross_entropy", "log_softmax", "bf16"])
        width = 16

        def head_loss(hidden):
            logits = state["head"](hidden)
            if form == "bf16":
                logits = logits.to(torch.bfloat16).float()
            labels = torch.zeros(len(hidden), dtype=torch.int64, device=DEVICE)
            if form == "log_softmax":
                return -logits.log_softmax(-1).gather(1, labels[:, None]).mean()
            return F.cross_entropy(logits, labels)

        def loss_with_head(batch):
            loss = forward(batch)
            if not state:
                state["rows"] = max(16, rows(share, vocabulary))
                state["head"] = torch.nn.Linear(width, vocabulary, bias=False, device=DEVICE)
            hidden = torch.zeros(state["rows"], width, device=DEVICE, requires_grad=True)
            return loss + 0.1 * (in_parts(head_loss, hidden) if fixed else head_loss(hidden))
        target.loss = loss_with_head


@fault("entropy_of_logits", "logits", "decoder", "loop")
class EntropyOfLogits(Fault):
    """Entropy, or log-probabilities, of the model's logits: several copies over the vocabulary, in fp32."""

    def inject(self, target, fixed):
        outputs, forward, form = [], target.loss, self.rng.choice(["entropy", "both", "temperature"])
        target.vocabulary = max(target.vocabulary, self.rng.choice([32000, 50304, 65536]))

        def term(logits):
            logits = logits.float()
            if form == "temperature":
                logits = logits / 0.7
            logp = torch.log_softmax(logits, dim=-1)
            entropy = -(logp.exp() * logp).sum(-1).mean()
            return entropy + F.softmax(logits, -1).pow(2).sum(-1).mean() if form == "both" else entropy

        def loss_with_entropy(batch):
            outputs.clear()
            loss = forward(batch)
            logits = largest_tensor(outputs.pop())
            logits = logits.flatten(0, -2)
            return loss - 0.01 * (in_parts(term, logits) if fixed else term(logits))
        with_output(target, outputs.append)
        target.loss = loss_with_entropy
