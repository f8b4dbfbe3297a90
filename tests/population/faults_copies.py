"""Faults that keep, or make, copies of the model, its state or a checkpoint."""
import copy
import os
import tempfile

import torch

from amounts import after_build, light, peak
from core import DEVICE, Fault, fault


def parameter_bytes(target):
    return max(1, sum(p.nbytes for p in target.model.parameters()))


def cloned(state, fixed):
    """Clones of a state dict, on the host in the fixed form."""
    return {k: (v.detach().cpu() if fixed else v.detach().clone()) if torch.is_tensor(v) else v for k, v in state.items()}


@fault("best_models", "copies of the model kept", "loop")
class BestModels(Fault):
    """The model is copied after each evaluation, as the best one, a snapshot of an ensemble or for an average of weights."""

    def inject(self, target, fixed):
        light(target, self.rng)
        form, after_step, copies = self.rng.choice(["deepcopy", "state_dict", "dict", "parameters"]), target.after_step, []
        target.steps, share, self.least = self.rng.randint(6, 10), self.rng.uniform(0.5, 1.2), None

        def keep_model(i, loss):
            after_step(i, loss)
            if self.least is None:  # how many copies after each step make the share
                self.least = max(1, min(20, round(share * peak() / parameter_bytes(target) / (target.steps - 1))))
            for k in range(self.least):
                if form == "deepcopy":
                    copies.append(cloned(target.model.state_dict(), True) if fixed else copy.deepcopy(target.model))
                elif form == "parameters":
                    copies.append([p.detach().cpu() if fixed else p.detach().clone() for p in target.model.parameters()])
                else:
                    state = cloned(target.model.state_dict(), fixed)
                    copies.append(state if form == "state_dict" else {"step": i, "model": state, "score": 0.0})
        target.after_step = keep_model


@fault("checkpoint_by_clones", "copies for a checkpoint", "loop")
class CheckpointByClones(Fault):
    """The state of model and optimizer is cloned on the GPU before it is written to a file."""

    def inject(self, target, fixed):
        light(target, self.rng)
        form, after_step, when = self.rng.choice(["clone", "deepcopy"]), target.after_step, self.rng.randint(1, 3)
        target.steps = when + 2

        def copied(state):
            if torch.is_tensor(state):
                return state.detach().cpu() if fixed else state.detach().clone()
            if isinstance(state, dict):
                return {k: copied(v) for k, v in state.items()}
            return [copied(v) for v in state] if isinstance(state, (list, tuple)) else state

        def save_checkpoint(i, loss):
            after_step(i, loss)
            if i != when:
                return
            state = {"model": target.model.state_dict(), "optimizers": [o.state_dict() for o in target.optimizers], "step": i}
            state = copy.deepcopy(state) if form == "deepcopy" and not fixed else copied(state)
            if fixed:
                del state
                return
            with open(os.devnull, "wb") as f:
                torch.save({"names": list(state["model"])}, f)
        target.after_step = save_checkpoint


@fault("loaded_checkpoint", "loaded checkpoint", "loop")
class LoadedCheckpoint(Fault):
    """A checkpoint is loaded to the GPU and stays referenced."""

    def inject(self, target, fixed):
        light(target, self.rng)
        form, train = self.rng.choice(["local", "attribute", "closure"]), target.train
        kept, parts = {}, self.rng.choice([("model", "ema"), ("model", "ema", "exp_avg", "exp_avg_sq"), ("model", "exp_avg", "exp_avg_sq")])

        def write():
            file = os.path.join(tempfile.mkdtemp(), "last.pt")
            torch.save({"epoch": 3, **{part: cloned(target.model.state_dict(), True) for part in parts}}, file)
            return file

        def resume(file):
            checkpoint = torch.load(file, map_location="cpu" if fixed else DEVICE, weights_only=form != "local")
            os.unlink(file)
            os.rmdir(os.path.dirname(file))
            target.model.load_state_dict(checkpoint["model"], strict=False)  # what bitsandbytes writes beside a quantised weight, it reads in no such way
            if form == "attribute":
                target.checkpoint = checkpoint
            elif form == "closure":
                kept["resumed"] = checkpoint
            return checkpoint

        def train_from_checkpoint():
            checkpoint = resume(write())
            train()
            return checkpoint["epoch"]
        target.train = train_from_checkpoint


@fault("second_model_kept", "second model", "loop")
class SecondModelKept(Fault):
    """A copy of the model that no step uses, or seldom, stays on the GPU: the pretrained one, averages of weights, an older policy."""

    def inject(self, target, fixed):
        light(target, self.rng)
        form, number = self.rng.choice(["attribute", "dict", "list"]), self.rng.choice([2, 3, 4])
        others = {}

        def duplicate():
            for k in range(number):
                other = copy.deepcopy(target.model)
                other.requires_grad_(False)
                if fixed:
                    other = other.cpu()
                if form == "dict":
                    others["ema_%d" % k] = other
                elif form == "list":
                    others.setdefault("models", []).append(other)
                else:
                    setattr(target, "%s_model" % ("old", "initial", "average", "best")[k], other)
        after_build(target, duplicate)


@fault("average_in_fp32", "second model", "loop")
class AverageInFp32(Fault):
    """Averages of the weights, or copies of them in fp32, on the GPU, updated after each step; in the fixed form on the host."""

    def inject(self, target, fixed):
        light(target, self.rng)
        form, after_step, shadow = self.rng.choice(["float", "double", "two"]), target.after_step, {}
        where = "cpu" if fixed else DEVICE

        def start():
            dtype = torch.float64 if form == "double" else torch.float32
            for k in range(1 if form == "double" else 2 if form == "float" else 3):
                shadow[k] = [p.detach().to(where, dtype, copy=True) for p in target.model.parameters()]

        @torch.no_grad()
        def update(i, loss):
            after_step(i, loss)
            for k, average in shadow.items():
                for a, p in zip(average, target.model.parameters()):
                    a.lerp_(p.detach().to(a), 0.01 * (k + 1))
        after_build(target, start)
        target.after_step = update


@fault("loaded_for_a_part", "loaded checkpoint", "loop")
class LoadedForAPart(Fault):
    """Pretrained weights of all parts are loaded to the GPU, and one part is used; the rest stays in a dict."""

    def inject(self, target, fixed):
        light(target, self.rng)
        number, form = self.rng.choice([2, 3, 4]), self.rng.choice(["state", "parts"])

        def load():
            state = {}
            for k in range(number):
                for name, p in target.model.state_dict().items():
                    state["part%d.%s" % (k, name)] = p.detach().cpu()
            file = os.path.join(tempfile.mkdtemp(), "all.pt")
            torch.save(state, file)
            loaded = torch.load(file, map_location="cpu" if fixed else DEVICE, weights_only=True)
            os.unlink(file)
            os.rmdir(os.path.dirname(file))
            own = {name[6:]: p for name, p in loaded.items() if name.startswith("part0.")}
            target.model.load_state_dict(own)
            target.loaded = loaded if form == "state" else {"own": own, "other": [p for n, p in loaded.items() if not n.startswith("part0.")]}
        after_build(target, load)


@fault("weights_tied_by_copy", "weights not tied", "decoder", "loop")
class WeightsTiedByCopy(Fault):
    """The output's weight is a copy of the embedding's, where it should be the same parameter."""

    def inject(self, target, fixed):
        light(target, self.rng)
        target.vocabulary = self.rng.choice([32000, 65536])
        form = self.rng.choice(["clone", "deepcopy"])

        def tie():
            embeddings = [m for m in target.model.modules() if isinstance(m, torch.nn.Embedding)]
            for head in target.model.modules():
                same = [e for e in embeddings if isinstance(head, torch.nn.Linear) and e.weight.shape == head.weight.shape]
                if same and fixed:
                    head.weight = same[0].weight
                elif same and form == "clone":
                    head.weight = torch.nn.Parameter(same[0].weight.detach().clone())
                elif same:
                    head.weight = copy.deepcopy(same[0].weight)
            target.optimizers = [type(o)([p for p in target.model.parameters() if p.requires_grad], **{k: o.defaults[k] for k in ("lr",)})
                                 for o in target.optimizers]
        after_build(target, tie)
