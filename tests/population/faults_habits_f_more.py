"""Faults by habit, further ones: directions and deviations that optimizers keep, noise for everything, features as a table, batches that a collator repeats,
a long request, what generation remembers, averages of trainers, inner steps."""
import copy

import torch
import torch.nn.functional as F

from amounts import after_build, deep, light, mapped, peak, rows, side
from core import DEVICE, Fault, fault
from faults_batch import repeated
from faults_fields_b import WRAPPED
from faults_habits_d import OWN
from faults_optimizer import one_by_one
from faults_temporaries import Term


class Secant(torch.optim.Optimizer):
    """Steps along the gradient as the last steps have bent it: differences of weights and of gradients, `history` of each."""

    def __init__(self, parameters, history, form):
        super().__init__(parameters, {"lr": 1e-3})
        self.history, self.form, self.before, self.pairs = history, form, None, []

    def flat(self, of):
        return torch.cat([of(p).flatten() for group in self.param_groups for p in group["params"]])

    @torch.no_grad()
    def step(self):
        grads = self.flat(lambda p: p.grad if p.grad is not None else torch.zeros_like(p))
        if self.before is not None:
            weights, old = self.before
            pair = self.flat(lambda p: p) - weights, grads - old
            self.pairs.append(pair if self.form == "pairs" else {"moved": pair[0], "turned": pair[1]})
            del self.pairs[:-self.history]
        for pair in self.pairs:
            moved, turned = pair if self.form == "pairs" else pair.values()
            grads.add_(moved, alpha=0.0).add_(turned, alpha=0.0)
        self.before = self.flat(lambda p: p), grads
        at = 0
        for group in self.param_groups:
            for p in group["params"]:
                p.sub_(grads[at:at + p.numel()].view_as(p), alpha=group["lr"])
                at += p.numel()


@fault("long_history_of_directions", "directions of an optimizer", "loop", "layers", "tokens", without=OWN)
class LongHistoryOfDirections(Fault):
    """A quasi-Newton optimizer has a history of a hundred steps, with two vectors of all parameters each; the fixed form has a history of one.

    Threads about L-BFGS and history_size.
    """

    def inject(self, target, fixed):
        deep(target, self.rng)
        target.steps, form, target.micro_batches = self.rng.randint(6, 9), self.rng.choice(["pairs", "dicts"]), 1

        def choose():
            parameters = [p for p in target.model.parameters() if p.requires_grad]
            target.optimizers = [Secant(parameters, 1 if fixed else 100, form)]
        after_build(target, choose)


@fault("noise_for_all_gradients", "copies of gradients", "loop", "layers", "tokens", without=OWN)
class NoiseForAllGradients(Fault):
    """Noise for every gradient is made first, and added then, all at once; the fixed form makes it parameter by parameter.

    Threads about private training and about Langevin's dynamics.
    """

    def inject(self, target, fixed):
        deep(target, self.rng)
        optimize, scale, form = target.optimize, self.rng.choice([0.01, 0.1]), self.rng.choice(["list", "foreach"])

        @torch.no_grad()
        def with_noise():
            grads = [p.grad for p in target.model.parameters() if p.grad is not None]
            if fixed:
                for g in grads:
                    g.add_(torch.randn_like(g), alpha=scale)
            elif form == "list":
                noise = [torch.randn_like(g) for g in grads]
                noisy = [g + scale * n for g, n in zip(grads, noise)]
                for g, n in zip(grads, noisy):
                    g.copy_(n)
                del noise, noisy
            else:
                noise = [torch.randn_like(g) for g in grads]
                torch._foreach_add_(grads, torch._foreach_mul(noise, scale))
                del noise
            del grads
            optimize()
        target.optimize = with_noise
        after_build(target, lambda: one_by_one(target))


@fault("deviations_of_weights", "weights as columns", "loop", "layers", "tokens", without=OWN)
class DeviationsOfWeights(Fault):
    """How far the weights were from their mean, epoch by epoch, as one matrix with a column more each time; the fixed form has it on the host.

    SWAG, and reports about its low-rank part.
    """

    def inject(self, target, fixed):
        deep(target, self.rng)
        after_step, state, form = target.after_step, {}, self.rng.choice(["cat", "list"])
        target.steps = self.rng.randint(6, 9)

        @torch.no_grad()
        def collect(i, loss):
            after_step(i, loss)
            where = "cpu" if fixed else DEVICE
            now = torch.cat([p.to(where).flatten() for p in target.model.parameters()])
            state["mean"] = now if "mean" not in state else state["mean"].lerp(now, 1 / (i + 1))
            off = now - state["mean"]
            if form == "list":
                state.setdefault("columns", []).append(off)
            else:
                state["columns"] = torch.cat([state["columns"], off[None]]) if "columns" in state else off[None]
        target.after_step = collect


@fault("noise_for_all_steps", "data moved to the GPU", "loop", without=WRAPPED)
class NoiseForAllSteps(Fault):
    """The noise of all steps is drawn before the first one, so that runs can be compared; the fixed form draws it step by step, from the same seeds."""

    def inject(self, target, fixed):
        train, forward, share, state = target.train, target.loss, self.rng.uniform(0.9, 1.6), {"n": 0}
        number, form = self.rng.choice([16, 32, 64]), self.rng.choice(["stacked", "dict", "list"])

        def draw_all():
            state["each"] = max(1024, int(share * peak() / 4 / number))
            if not fixed:
                if form == "stacked":
                    state["noise"] = torch.randn(number, state["each"], device=DEVICE)
                else:
                    drawn = [torch.randn(state["each"], device=DEVICE) for _ in range(number)]
                    state["noise"] = drawn if form == "list" else dict(enumerate(drawn))
            return train()

        def with_noise(batch):
            loss = forward(batch)
            if not torch.is_grad_enabled() or "each" not in state:
                return loss
            state["n"] += 1
            generator = torch.Generator(DEVICE).manual_seed(state["n"]) if fixed else None
            noise = torch.randn(state["each"], generator=generator, device=DEVICE) if fixed else state["noise"][state["n"] % number]
            return loss + 0.0 * noise.mean()
        after_build(target, lambda: self.first_step(target))
        target.train, target.loss = draw_all, with_noise

    def first_step(self, target):
        """A step before the training, which shows how much room there is."""
        target.step(0)


@fault("features_as_a_table", "table of features on the GPU", "loop", "dataset", without=("two optimizers", "reference", *WRAPPED))
class FeaturesAsATable(Fault):
    """Features of all things, which nobody trains, are a frozen embedding, or a buffer, of the model; the fixed form has them on the host, and moves the
    rows that a batch needs."""

    def inject(self, target, fixed):
        forward, share, state, width = target.loss, self.rng.uniform(0.9, 1.6), {}, self.rng.choice([128, 300, 768])
        form = self.rng.choice(["embedding", "buffer", "parameter"])

        def make():
            target.step(0)
            number = rows(share, width)
            features = torch.zeros(1, width).expand(number, -1)
            state["number"] = number
            if fixed:
                state["features"] = features
            elif form == "embedding":
                target.model.features_of_things = torch.nn.Embedding.from_pretrained(features.to(DEVICE).contiguous(), freeze=True)
            elif form == "buffer":
                target.model.register_buffer("features_of_things", features.to(DEVICE).contiguous())
            else:
                target.model.features_of_things = torch.nn.Parameter(features.to(DEVICE).contiguous(), requires_grad=False)
            state["head"] = torch.nn.Linear(width, 8).to(DEVICE)

        def with_features(batch):
            loss = forward(batch)
            if "head" not in state:
                return loss
            chosen = torch.arange(256) * 37 % state["number"]
            if fixed:
                found = state["features"][chosen].to(DEVICE)
            elif form == "embedding":
                found = target.model.features_of_things(chosen.to(DEVICE))
            else:
                found = target.model.features_of_things[chosen.to(DEVICE)]
            return loss + 0.01 * state["head"](found).square().mean()
        after_build(target, make)
        target.loss = with_features


@fault("repeated_by_the_collator", "batch too large", "loop", "dataset", without=("two optimizers", "reference", "crop", *WRAPPED))
class RepeatedByTheCollator(Fault):
    """The collator puts each example into the batch several times, changed in other ways; the fixed form has a micro-batch for each way.

    Threads about repeated augmentation, and about multi-crop.
    """

    def fits(self, target):
        return super().fits(target) and target.name not in ("maml", "accelerate", "sounds_with_accelerate", "point_cloud", "table_transformer", "pinn_burgers")

    def inject(self, target, fixed):
        times, batch, target.steps, target.micro_batches = self.rng.choice([2, 3, 4]), target.batch, self.rng.randint(2, 4), 1
        if fixed:
            target.micro_batches *= times
        else:
            target.batch = lambda i: repeated(batch(i), times)


@fault("one_long_request", "one long request", "inference", "tokens")
class OneLongRequest(Fault):
    """Requests are padded to the longest one of their batch, and one is many times as long; the fixed form sorts them, and takes the long one alone."""

    def inject(self, target, fixed):
        batch, predict, take, when, times = target.batch, target.predict, target.take, self.rng.randint(2, 3), self.rng.choice([3, 4])
        target.steps, target.length, target.size, state = when + 2, 128 * times, self.rng.choice([32, 48, 64]), {}

        def padded(i):
            made, state["i"] = batch(i), i
            return mapped(made, lambda t: t if i == when and not fixed or t.dim() != 2 else t[:, :128].contiguous())

        def answered(tokens):
            told = predict(tokens)
            if fixed and state["i"] == when:
                take(when, told)
                long = mapped(tokens, lambda t: t[:4].repeat(1, times) if t.dim() == 2 else t)
                del told
                return predict(long)
            return told
        target.batch, target.predict = padded, answered


class OfGenerate(Fault):
    """A programme that calls generate() of a decoder of transformers."""

    def fits(self, target):
        return super().fits(target) and "decoder" in target.traits and hasattr(target, "generate_arguments") and target.name != "decode_by_hand"


@fault("processor_that_remembers", "results kept on the GPU", "generate")
class ProcessorThatRemembers(OfGenerate):
    """A processor of logits, written to look at them, has those of each token of each request in a list; the fixed form has the best of each.

    Threads about LogitsProcessor and watermarks.
    """

    def inject(self, target, fixed):
        seen, form = [], self.rng.choice(["scores", "softmax"])
        target.steps, target.vocabulary, target.size = self.rng.randint(4, 5), self.rng.choice([64000, 96000]), self.rng.choice([96, 128])
        target.new_tokens, target.prompt, target.layers = 5, 128, 2

        def remember(input_ids, scores):
            found = scores.softmax(-1) if form == "softmax" else scores
            seen.append(found.max(-1).values.cpu() if fixed else found)
            return scores
        target.generate_arguments = {**target.generate_arguments, "logits_processor": [remember]}


@fault("prefixes_of_all_documents", "caches of finished requests", "generate")
class PrefixesOfAllDocuments(OfGenerate):
    """Keys and values of each document are kept by its name, for requests that will ask about it again; the fixed form has those of the last one.

    Threads about prompt caching with past_key_values.
    """

    def inject(self, target, fixed):
        predict, known, state = target.predict, {}, {"n": 0}
        target.steps, target.new_tokens, target.prompt = self.rng.randint(5, 8), 2, self.rng.choice([512, 1024])
        target.size, target.layers = min(target.size, 16), max(3, target.layers)

        def with_prefix(prompts):
            if fixed:
                known.clear()
            state["n"] += 1
            read = target.model(input_ids=prompts, use_cache=True, logits_to_keep=1)
            known["document-%d" % state["n"]] = read.past_key_values
            del read
            return predict(prompts[:, -32:])
        target.predict = with_prefix


@fault("prefill_of_every_position", "scores of a whole prompt", "generate")
class PrefillOfEveryPosition(OfGenerate):
    """A loop over tokens of one's own: the first call returns logits for every token of the prompt, of which the last is used; the fixed form has
    logits_to_keep=1."""

    def inject(self, target, fixed):
        target.prompt, target.vocabulary, target.size = self.rng.choice([512, 1024]), self.rng.choice([64000, 128000]), self.rng.choice([8, 16])
        target.new_tokens, target.steps, form = 4, self.rng.randint(1, 2), self.rng.choice(["float", "plain"])

        def written(prompts):
            tokens, now, cache = [], prompts, None
            for k in range(target.new_tokens):
                keep = {"logits_to_keep": 1} if fixed else {}
                out = target.model(input_ids=now, past_key_values=cache, use_cache=True, **keep)
                logits = out.logits.float() if form == "float" else out.logits
                now, cache = logits[:, -1].argmax(-1, keepdim=True), out.past_key_values
                tokens.append(now)
                del out, logits
            return torch.cat([prompts, *tokens], dim=1)
        target.predict = written


class Averages:
    """Averages of a model's weights by several decays: whole models, or dicts of fp32, on the GPU; in the fixed form on the host."""

    def __init__(self, model, decays, form, fixed):
        where, self.decays = "cpu" if fixed else DEVICE, decays
        if form == "models":
            self.models = [copy.deepcopy(model).requires_grad_(False).to(where) for _ in decays]
            self.weights = [dict(m.named_parameters()) for m in self.models]
        else:
            self.weights = [{k: v.detach().float().to(where, copy=True) for k, v in model.named_parameters()} for _ in decays]

    @torch.no_grad()
    def update(self, model):
        for decay, average in zip(self.decays, self.weights):
            for name, p in model.named_parameters():
                average[name].lerp_(p.to(average[name].device, average[name].dtype), 1 - decay)


@fault("trainer_average_beside", "second model", "trainer")
class TrainerAverageBeside(Fault):
    """A callback has averages of the weights, by two decays, as models on the GPU; the fixed form has them on the host."""

    def inject(self, target, fixed):
        from transformers import TrainerCallback
        light(target, self.rng)
        decays, form, state = self.rng.choice([(0.99, 0.999), (0.9, 0.99, 0.999)]), self.rng.choice(["models", "dicts"]), {}
        target.trainer_arguments.update(optim="adafactor", gradient_accumulation_steps=1)

        class Average(TrainerCallback):
            def on_train_begin(self, args, state_, control, model=None, **keys):
                state["averages"] = Averages(model, decays, form, fixed)

            def on_step_end(self, args, state_, control, model=None, **keys):
                state["averages"].update(model)
        target.callbacks.append(Average())


@fault("lightning_average_beside", "second model", "lightning", "layers")
class LightningAverageBeside(Fault):
    """Averages of the weights, by three decays, beside Lightning's module; the fixed form has them on the host."""

    def inject(self, target, fixed):
        from lightning.pytorch import Callback
        decays, form, state = self.rng.choice([(0.9, 0.99, 0.999), (0.95, 0.97, 0.99, 0.999)]), self.rng.choice(["models", "dicts"]), {}
        for name, value in ("size", 1), ("length", 64), ("moments", 64), ("vocabulary", 8000), ("width", 512), ("layers", 4):
            if isinstance(getattr(target, name, None), int):
                setattr(target, name, value)

        class Average(Callback):
            def on_train_start(self, trainer, module):
                state["averages"] = Averages(module.model, decays, form, fixed)

            def on_train_batch_end(self, trainer, module, outputs, batch, batch_idx):
                state["averages"].update(module.model)
        target.callbacks.append(Average())


@fault("inner_steps_differentiated", "inner steps differentiated", "forward", "loop", without=("two optimizers", "trainer", "lightning", *WRAPPED))
class InnerStepsDifferentiated(Term):
    """Inner steps with create_graph=True, though the outer gradient is of first order: every step's weights and activations stay; the fixed form detaches
    them."""
    shares = 0.8, 1.5

    def prepare(self):
        self.inner, self.form = self.rng.choice([4, 6, 8]), self.rng.choice(["dict", "list"])

    def measure(self):
        return max(64, side(self.share / (8 * self.inner)))

    def term(self, fixed):
        n = self.sizes
        weights = {"up": self.features(n, n), "down": self.features(n, n)} if self.form == "dict" else [self.features(n, n), self.features(n, n)]
        x = torch.zeros(n, n, device=DEVICE)

        def lost(w):
            up, down = w.values() if self.form == "dict" else w
            return (F.gelu(x @ up) @ down - x).square().mean()
        with torch.enable_grad():
            for _ in range(self.inner):
                own = list(weights.values()) if self.form == "dict" else weights
                grads = torch.autograd.grad(lost(weights), own, create_graph=not fixed)
                moved = [w - 0.01 * g for w, g in zip(own, grads)]
                moved = [w.detach().requires_grad_(True) for w in moved] if fixed else moved
                weights = dict(zip(weights, moved)) if self.form == "dict" else moved
                del own, grads, moved
            return lost(weights)
