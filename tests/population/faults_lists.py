"""Faults that keep tensors on the GPU, without a graph, in lists, dicts and caches."""
import collections
import functools

import torch

from amounts import after_build, largest_tensor, peak, rows, with_output
from core import DEVICE, Fault, fault


class KeptEachStep(Fault):
    """Calls keep(i, count) after each step, where `count` rows of self.width take a share of the peak after the first step."""
    shares = 0.1, 0.2

    def inject(self, target, fixed):
        share, after_step, self.count = self.rng.uniform(*self.shares), target.after_step, 0
        target.steps, self.width, self.fixed = self.rng.randint(6, 12), self.rng.choice([128, 384, 1024]), fixed
        self.prepare(target)

        def record(i, loss):
            after_step(i, loss)
            if not self.count:
                self.count = rows(share, self.width)
            self.keep(i)
        target.after_step = record

    def prepare(self, target):
        pass

    def keep(self, i):
        raise NotImplementedError


@fault("outputs_kept", "list of tensors", "forward", "steps")
class OutputsKept(Fault):
    """The outputs of each training step are kept, detached, for the epoch's metrics."""

    def inject(self, target, fixed):
        form, kept, records = self.rng.choice(["list", "dict", "probabilities", "meter"]), [], collections.defaultdict(list)
        target.steps, target.outputs = self.rng.randint(8, 14), []

        def collect(output):
            output = largest_tensor(output)
            if output is None or not torch.is_grad_enabled():
                return
            output = output.detach()
            if form == "probabilities":
                output = output.softmax(-1)
            if fixed:
                output = output.cpu()
            if form == "dict":
                records["logits"].append(output)
            elif form == "meter":
                target.outputs += [output]
            else:
                kept.append(output)
        with_output(target, collect)


@fault("predictions_kept", "results kept on the GPU", "forward", "steps")
class PredictionsKept(Fault):
    """An evaluation keeps the predictions of all batches on the GPU."""

    def inject(self, target, fixed):
        share, after_step, every = self.rng.uniform(0.8, 1.6), target.after_step, self.rng.randint(2, 3)
        form, outputs, target.steps = self.rng.choice(["list", "extend", "dict"]), [], every + self.rng.randint(1, 3)
        with_output(target, lambda output: None if torch.is_grad_enabled() else outputs.append(largest_tensor(output)))

        @torch.no_grad()
        def evaluate(i, loss):
            after_step(i, loss)
            if i % every != every - 1:
                return
            outputs.clear()
            predictions, wanted, size = collections.defaultdict(list), share * peak(), 0
            for k in range(40):
                target.loss(target.batch(k))
                prediction = outputs.pop() if outputs else None
                outputs.clear()
                if prediction is None or prediction.nbytes < wanted / 30:
                    prediction = torch.zeros(rows(share / 12, 768), 768, device=DEVICE)  # features, where the model's outputs are small
                size += prediction.nbytes
                prediction = prediction.cpu() if fixed else prediction
                if form == "extend":
                    predictions["all"] += list(prediction)
                elif form == "dict":
                    predictions[k].append(prediction)
                else:
                    predictions["all"].append(prediction)
                if size > wanted:
                    break
        target.after_step = evaluate


@fault("features_of_the_set", "results kept on the GPU", "steps")
class FeaturesOfTheSet(Fault):
    """Features of a whole set are collected in a list and concatenated at the end."""

    def inject(self, target, fixed):
        share, after_step, batches = self.rng.uniform(0.7, 1.3), target.after_step, self.rng.randint(8, 20)
        form, width, target.steps = self.rng.choice(["cat", "stack", "both"]), self.rng.choice([512, 768, 2048]), self.rng.randint(2, 4)
        features = torch.nn.Linear(width, width)

        @torch.no_grad()
        def extract(i, loss):
            after_step(i, loss)
            if i < target.steps - 1:
                return
            encoder, found = features.to(DEVICE), []
            count = rows(share / batches, width)
            for _ in range(batches):
                one = encoder(torch.zeros(count, width, device=DEVICE))
                found.append(one.cpu() if fixed else one)
            target.features = torch.stack(found) if form == "stack" else torch.cat(found)
            if form == "both":
                target.normalized = torch.nn.functional.normalize(target.features, dim=1)
        target.after_step = extract


@fault("inputs_kept", "list of tensors", "steps")
class InputsKept(KeptEachStep):
    """Inputs are kept to be looked at later: hard examples, batches for a second pass."""

    def prepare(self, target):
        self.form, self.kept = self.rng.choice(["list", "dict", "tuple"]), {}

    def keep(self, i):
        inputs = torch.zeros(self.count, self.width, device=DEVICE)
        if self.fixed:
            inputs = inputs.cpu()
        if self.form == "list":
            self.kept.setdefault("hard", []).append(inputs)
        elif self.form == "dict":
            self.kept[i] = {"inputs": inputs, "index": i}
        else:
            self.kept["all"] = (*self.kept.get("all", ()), inputs)


@fault("image_grids", "list of tensors", "steps")
class ImageGrids(KeptEachStep):
    """A grid of images is logged in each step and kept on the GPU."""

    def prepare(self, target):
        self.grids, self.form = collections.OrderedDict(), self.rng.choice(["grid", "list", "uint8"])

    def keep(self, i):
        side = max(8, int((self.count * self.width / 3 / 64) ** 0.5))
        images = torch.zeros(64, 3, side, side, device=DEVICE)
        if self.form == "grid":
            images = images.view(8, 8, 3, side, side).permute(2, 0, 3, 1, 4).reshape(3, 8 * side, 8 * side)
        elif self.form == "uint8":
            images = (images * 255).clamp(0, 255)
        self.grids["samples/%d" % i] = list(images.cpu()) if self.fixed else list(images) if self.form == "list" else images


@fault("gradients_logged", "list of tensors", "loop")
class GradientsLogged(Fault):
    """Clones of all gradients are kept in every step, for a plot of how they change."""

    def inject(self, target, fixed):
        optimize, form, history = target.optimize, self.rng.choice(["list", "dict", "flat"]), collections.defaultdict(list)
        target.steps = self.rng.randint(8, 14)

        def log_gradients():
            for name, p in target.model.named_parameters():
                if p.grad is None:
                    continue
                gradient = p.grad.detach().norm().item() if fixed else p.grad.detach().clone()
                if form == "flat" and not fixed:
                    gradient = gradient.flatten().abs()
                history[name if form == "dict" else "all"].append(gradient)
            optimize()
        target.optimize = log_gradients


@fault("cache_by_shape", "growing cache", "forward", "steps")
class CacheByShape(KeptEachStep):
    """A cache of masks, position tables or compiled inputs with a key for each shape, and without a limit."""

    def prepare(self, target):
        self.form, self.cache = self.rng.choice(["lru_cache", "dict", "attribute"]), {}

        @functools.lru_cache(maxsize=1 if self.fixed else None)
        def table(count, length):
            return torch.zeros(count, length, device=DEVICE)
        self.table = table

    def keep(self, i):
        count = self.count + i % 7 * 16 + i
        if self.form == "lru_cache":
            self.table(count, self.width)
            return
        if self.fixed:
            self.cache.clear()
        key = (count, self.width) if self.form == "dict" else "mask_%d" % count
        if key not in self.cache:
            self.cache[key] = torch.zeros(count, self.width, device=DEVICE)


@fault("replay_without_limit", "list of tensors", "steps")
class ReplayWithoutLimit(KeptEachStep):
    """A replay buffer, or a queue of negatives, without a largest length."""

    def prepare(self, target):
        self.form, self.buffer = self.rng.choice(["deque", "list", "tuples"]), collections.deque(maxlen=1 if self.fixed else None)

    def keep(self, i):
        for _ in range(2):
            state = torch.zeros(self.count // 2 + 1, self.width, device=DEVICE)
            if self.form == "tuples":
                self.buffer.append((state, torch.zeros(self.count, device=DEVICE), state.new_zeros(self.count, dtype=torch.bool)))
            elif self.form == "deque":
                self.buffer.append(state)
            else:
                self.buffer.append({"observation": state, "reward": 0.0})


@fault("hidden_states_kept", "list of tensors", "forward", "steps")
class HiddenStatesKept(Fault):
    """The hidden states of all layers are collected, detached, for an analysis."""

    def inject(self, target, fixed):
        form, target.steps, states = self.rng.choice(["all", "per layer", "stack"]), self.rng.randint(5, 9), collections.defaultdict(list)

        def collect(name, output):
            output = largest_tensor(output)
            if output is not None and torch.is_grad_enabled():
                output = output.detach()
                output = output.float().std().item() if fixed else output.clone() if form == "stack" else output
                states[name if form == "per layer" else "all"].append(output)

        def watch():
            layers = [m for m in target.model.modules() if not isinstance(m, (torch.nn.ModuleList, torch.nn.Sequential))]
            for k, module in enumerate(layers[1:]):
                module.register_forward_hook(lambda m, i, o, k=k: collect(k, o))
        after_build(target, watch)


@fault("saved_tensors_kept", "what autograd saves kept", "forward", "steps")
class SavedTensorsKept(Fault):
    """Hooks on what autograd saves, for statistics, put every tensor in a list."""

    def inject(self, target, fixed):
        target.steps, forward, form = self.rng.randint(3, 6), target.loss, self.rng.choice(["list", "pairs"])
        seen = []

        def pack(tensor):
            if fixed:
                seen.append(tuple(tensor.shape))
            else:
                seen.append(tensor.detach() if form == "list" else (len(seen), tensor.detach()))
            return tensor

        def loss_with_statistics(batch):
            with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
                return forward(batch)
        target.loss = loss_with_statistics


@fault("slices_kept", "list of tensors", "steps")
class SlicesKept(KeptEachStep):
    """A slice is kept of a large tensor: a view, which keeps all of it; the fixed form clones the slice."""

    def prepare(self, target):
        self.form, self.kept = self.rng.choice(["rows", "columns", "select"]), []

    def keep(self, i):
        table = torch.zeros(self.count, self.width, device=DEVICE)
        piece = table[:4] if self.form == "rows" else table[:, :1] if self.form == "columns" else table.select(0, 0)
        self.kept.append(piece.clone() if self.fixed else piece)
