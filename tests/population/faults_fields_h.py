"""Faults as threads about out-of-memory errors tell them, field by field: scorers behind features that learn, pairs of a ranking, pointers, spans of a
text, what should not be said again, calibration, scores with a cap, copies of caches, masks of a whole set, prompts read ahead."""
import collections
import contextlib
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from amounts import peak, rows, side
from core import DEVICE, Fault, fault
from faults_fields_b import WRAPPED
from faults_fields_c import Between
from faults_fields_d import in_parts
from faults_generation import OwnGeneration
from faults_habits_f_more import OfGenerate
from faults_temporaries import Term


@fault("scorer_behind_features", "reference with a graph", "forward", without=WRAPPED)
class ScorerBehindFeatures(Term):
    """A frozen scorer weighs the examples by features that are trained: its parameters want no gradient, but its input does, and so every layer saves what it
    needs; the fixed form says no_grad()."""
    shares = 1.0, 1.8

    def prepare(self):
        self.depth, self.wide, self.form = self.rng.choice([8, 12]), self.rng.choice([256, 512]), self.rng.choice(["gelu", "norm"])

    def measure(self):
        body = [m for _ in range(self.depth) for m in (nn.Linear(self.wide, self.wide), nn.GELU() if self.form == "gelu" else nn.LayerNorm(self.wide))]
        self.scorer, self.learnt = nn.Sequential(*body).to(DEVICE).eval().requires_grad_(False), nn.Parameter(torch.zeros(self.wide, device=DEVICE))
        return max(64, rows(self.share / (2 * self.depth), self.wide))

    def term(self, fixed):
        features = torch.zeros(self.sizes, 1, device=DEVICE) + self.learnt
        with torch.no_grad() if fixed else contextlib.nullcontext():
            weights = torch.sigmoid(self.scorer(features).mean(1))
        return (features.square().mean(1) * weights).mean()


@fault("pairs_of_a_ranking", "one huge temporary", "forward", without=WRAPPED)
class PairsOfARanking(Term):
    """How much each exchange of two documents would change a ranking's gain: differences of all pairs of scores, of gains and of discounts; the fixed
    form takes some documents at a time, and makes their pairs again."""
    shares = 0.9, 1.6

    def prepare(self):
        self.form = self.rng.choice(["logistic", "hinge"])

    def measure(self):
        return max(128, side(self.share / 5))

    def pairs(self, scores, gains, discounts, all_of_them, all_gains, all_discounts):
        change = (gains[:, None] - all_gains[None]).abs() * (discounts[:, None] - all_discounts[None]).abs()
        apart = scores[:, None] - all_of_them[None]
        lost = F.softplus(-apart) if self.form == "logistic" else (1 - apart).clamp(min=0)
        return (lost * change).mean()

    def term(self, fixed):
        scores, gains = self.features(self.sizes), torch.zeros(self.sizes, device=DEVICE)
        discounts = 1 / torch.log2(torch.arange(self.sizes, device=DEVICE) + 2.0)
        if not fixed:
            return self.pairs(scores, gains, discounts, scores, gains, discounts)
        parts = zip(scores.chunk(32), gains.chunk(32), discounts.chunk(32))
        return sum(checkpoint(self.pairs, *part, scores, gains, discounts, use_reentrant=False) for part in parts) / 32


@fault("pointers_over_the_vocabulary", "scores of all positions", "forward", without=WRAPPED)
class PointersOverTheVocabulary(Term):
    """A word is made, or copied from the text: attention is scattered into a distribution over all words at each position; the fixed form takes some
    positions at a time, and makes theirs again."""
    shares = 0.9, 1.6

    def prepare(self):
        self.vocabulary, self.text, self.form = self.rng.choice([20000, 50000]), self.rng.choice([100, 400]), self.rng.choice(["scatter", "sum"])

    def measure(self):
        self.head = nn.Linear(32, self.vocabulary).to(DEVICE)
        return max(64, rows(self.share / 4, self.vocabulary))

    def likelihood(self, states, look):
        made = self.head(states).softmax(-1)
        words = torch.arange(self.text, device=DEVICE).expand(len(states), -1)
        share = torch.sigmoid(states.mean(1, keepdim=True))
        if self.form == "scatter":
            both = (share * made).scatter_add(1, words, (1 - share) * look.softmax(-1))
        else:
            both = share * made + (1 - share) * torch.zeros_like(made).scatter_add(1, words, look.softmax(-1))
        return -(both + 1e-9).log()[:, 0].mean()

    def term(self, fixed):
        states, look = self.features(self.sizes, 32), self.features(self.sizes, self.text)
        return in_parts(self.likelihood, 16, states, look) if fixed else self.likelihood(states, look)


@fault("scores_of_all_spans", "whole sequence at once", "forward", without=WRAPPED)
class ScoresOfAllSpans(Term):
    """A name may begin and end anywhere: both ends' features, side by side, for every pair of places; the fixed form has spans of a few words alone.

    Threads about extraction of entities and relations by spans.
    """
    shares = 0.8, 1.5

    def prepare(self):
        self.wide, self.kinds, self.widest = self.rng.choice([64, 128]), self.rng.choice([5, 9]), self.rng.choice([8, 12])
        self.form = self.rng.choice(["cat", "sum"])

    def measure(self):
        self.told = nn.Sequential(nn.Linear(2 * self.wide, self.wide), nn.GELU(), nn.Linear(self.wide, self.kinds)).to(DEVICE)
        return max(32, side(self.share / (5 * self.wide)))

    def term(self, fixed):
        x = self.features(self.sizes, self.wide)
        if fixed:
            ends = (torch.arange(self.sizes, device=DEVICE)[:, None] + torch.arange(self.widest, device=DEVICE)).clamp(max=self.sizes - 1)
            begin, end = x[:, None].expand(-1, self.widest, -1), F.embedding(ends, x)
        else:
            begin, end = x[:, None].expand(-1, self.sizes, -1), x[None].expand(self.sizes, -1, -1)
        if self.form == "sum":
            begin, end = begin + 0.1 * end, end * begin
        scores = self.told(torch.cat([begin, end], dim=-1)).flatten(0, 1)
        return F.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long, device=DEVICE))


@fault("unlikelihood_of_what_was_said", "scores of all positions", "forward", without=WRAPPED)
class UnlikelihoodOfWhatWasSaid(Term):
    """What was said before should not be said again: a mask of all words for each position, and the logarithm of one less each chance; the fixed form
    takes some positions at a time, and makes theirs again."""
    shares = 0.9, 1.6

    def prepare(self):
        self.vocabulary, self.window, self.form = self.rng.choice([16000, 32000, 50000]), self.rng.choice([32, 128]), self.rng.choice(["mask", "multiplied"])

    def measure(self):
        self.head = nn.Linear(32, self.vocabulary, bias=False).to(DEVICE)
        return max(64, rows(self.share / 5, self.vocabulary))

    def unlikely(self, states, said):
        chances = self.head(states).softmax(-1)
        mask = torch.zeros_like(chances).scatter_(1, said, 1.0)
        lost = -torch.log((1 - chances).clamp(min=1e-5))
        return (lost * mask).sum(1).mean() if self.form == "multiplied" else lost.masked_fill(mask == 0, 0.0).sum(1).mean()

    def term(self, fixed):
        states, said = self.features(self.sizes, 32), torch.zeros(self.sizes, self.window, dtype=torch.long, device=DEVICE)
        return in_parts(self.unlikely, 16, states, said) if fixed else self.unlikely(states, said)


@fault("calibration_of_every_token", "scores of a whole prompt", "steps")
class CalibrationOfEveryToken(Between):
    """How sure a model is of each word of some texts: chances of the whole vocabulary in fp32, and their order, at all positions; the fixed form goes
    by parts."""
    shares = 1.0, 1.8

    def prepare(self, target):
        self.vocabulary, self.form = self.rng.choice([16000, 32000, 64000]), self.rng.choice(["topk", "max"])

    def sure(self, states, head):
        logits = head(states)
        chances = (logits.float() / 1.3).softmax(-1)
        return chances.topk(10, dim=-1).values[:, 0] if self.form == "topk" else chances.max(-1).values

    def work(self, target, share):
        head = nn.Linear(64, self.vocabulary, bias=False).to(DEVICE)
        states = torch.zeros(max(64, rows(share / 3, self.vocabulary)), 64, device=DEVICE)
        found = [self.sure(part, head) for part in (states.chunk(32) if self.fixed else [states])]
        target.sure = torch.cat(found).mean().item()


@fault("scores_with_a_cap", "attention scores", "forward", without=WRAPPED)
class ScoresWithACap(Term):
    """Scores of attention are kept small by a tanh, which the fused kernel of one's version does not know: all scores are made; the fixed form makes
    those of some queries at a time, and again in the backward pass.

    Threads about soft-capping.
    """
    shares = 0.9, 1.6

    def prepare(self):
        self.heads, self.cap, self.form = self.rng.choice([4, 8]), self.rng.choice([30.0, 50.0]), self.rng.choice(["tanh", "masked"])

    def measure(self):
        self.q, self.k, self.v = (nn.Linear(32 * self.heads, 32 * self.heads).to(DEVICE) for _ in range(3))
        return max(128, side(self.share / (4 * self.heads)))

    def attend(self, q, k, v, first):
        scores = torch.tanh(q @ k.mT / 32 ** 0.5 / self.cap) * self.cap
        if self.form == "masked":
            n = torch.arange(k.shape[2], device=DEVICE)
            scores = scores.masked_fill(n > n[first:first + q.shape[2], None], float("-inf"))
        return scores.softmax(-1) @ v

    def term(self, fixed):
        x = self.features(1, self.sizes, 32 * self.heads)
        q, k, v = (f(x).unflatten(2, (self.heads, 32)).transpose(1, 2) for f in (self.q, self.k, self.v))
        if not fixed:
            return self.attend(q, k, v, 0).square().mean()
        total, first = 0.0, 0
        for part in q.chunk(16, dim=2):
            total, first = total + checkpoint(self.attend, part, k, v, first, use_reentrant=False).square().mean() / 16, first + part.shape[2]
        return total


@fault("caches_before_a_rollback", "caches of finished requests", "steps")
class CachesBeforeARollback(OwnGeneration):
    """Before each draft the cache is copied, to go back to if the draft is not taken, and the copies stay in a history; the fixed form crops the cache."""
    shares = 1.0, 1.8

    def prepare(self, target):
        self.rounds, self.form = self.rng.randint(6, 12), self.rng.choice(["list", "dict", "deepcopy"])

    def generate(self, fixed):
        count = max(2 * self.rounds, self.positions(self.share) // self.rounds // 4)
        cache = [[torch.zeros(4, self.heads, count, self.width, dtype=self.dtype, device=DEVICE) for _ in range(2)] for _ in range(self.layers)]
        history = collections.OrderedDict()
        for turn in range(self.rounds):
            if not fixed:
                history[turn] = copy.deepcopy(cache) if self.form == "deepcopy" else [[t.clone() for t in layer] for layer in cache]
            for layer in cache:
                drafted = [torch.cat([t[:, :, :-2], torch.zeros_like(t[:, :, :2])], dim=2) for t in layer]
                layer[:] = drafted
        del cache


@fault("masks_of_a_whole_set", "data moved to the GPU", "steps", without=("trainer", "lightning"))
class MasksOfAWholeSet(Fault):
    """Which word may see which, as numbers for each text of the set, made before the training goes on, once a first step has shown how much room there is; the
    fixed form makes the mask of the text that comes next."""

    def inject(self, target, fixed):
        after_step, share, state = target.after_step, self.rng.uniform(0.6, 1.2), {}
        length, form, target.steps = self.rng.choice([128, 256, 512]), self.rng.choice(["stacked", "filled"]), self.rng.randint(3, 5)

        def mask_of(number):
            seen = torch.ones(length, length, dtype=torch.bool).tril()
            return torch.zeros(length, length).masked_fill(~seen, -1e9)

        @torch.no_grad()
        def look(i, loss=None):
            after_step(i, loss)
            if not state:
                n = max(4, int(share * peak() / (4 * length ** 2)))
                state["n"] = n
                if not fixed and form == "stacked":
                    state["masks"] = mask_of(0).to(DEVICE).expand(n, 1, -1, -1).contiguous()
                elif not fixed:
                    state["masks"] = torch.empty(n, 1, length, length, device=DEVICE)
                    state["masks"][:] = mask_of(0).to(DEVICE)
            now = mask_of(i).to(DEVICE) if fixed else state["masks"][i % state["n"]]
            target.visible = now.mean().item()
        target.after_step = look


@fault("prompts_read_ahead", "prompts read ahead", "generate")
class PromptsReadAhead(OfGenerate):
    """All waiting requests' prompts are read at once, so that answers begin sooner: each request's keys and values wait for its turn; the fixed form
    reads a prompt when its turn comes."""

    def inject(self, target, fixed):
        parts, form = self.rng.choice([8, 12, 16]), self.rng.choice(["list", "deque"])
        target.steps, target.prompt, target.size = self.rng.randint(1, 2), self.rng.choice([768, 1024]), self.rng.choice([16, 32])
        target.layers, target.kv_heads = max(3, target.layers), 8

        def read(prompts):
            return target.model(input_ids=prompts, use_cache=True, logits_to_keep=1).past_key_values

        def answer(prompts, cache):
            told = [prompts[:, -1:]]
            for _ in range(3):
                out = target.model(input_ids=told[-1], past_key_values=cache, use_cache=True)
                told.append(out.logits[:, -1:].argmax(-1))
            return torch.cat(told[1:], dim=1)

        def served(prompts):
            asked = [p for _ in range(2) for p in prompts.chunk(parts // 2)]
            if fixed:
                return torch.cat([torch.cat([p, answer(p, read(p))], dim=1) for p in asked])
            waiting = [(p, read(p)) for p in asked]
            waiting, told = collections.deque(waiting) if form == "deque" else waiting, []
            while waiting:
                p, cache = waiting.popleft() if form == "deque" else waiting.pop(0)
                told.append(torch.cat([p, answer(p, cache)], dim=1))
            return torch.cat(told)
        target.predict = served
