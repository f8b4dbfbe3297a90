"""Faults by habit, further ones: evaluations of trainers, buffers of a reduction, parameters that are replaced, loops that are not cut, calibration,
an index that grows, models that are compared, caches of functions."""
import copy

import torch

from amounts import after_build, deep, largest_tensor, light, peak, rows
from core import DEVICE, Fault, fault
from faults_fields_b import WRAPPED


class TrainersOwn(Fault):
    """An evaluation between the steps of transformers' Trainer."""

    def fits(self, target):
        return super().fits(target) and target.name == "trainer"

    def evaluated(self, target, rows_of_batches, batches):
        from jobs_trainers import Rows
        target.trainer_arguments.update(eval_strategy="steps", eval_steps=2, per_device_eval_batch_size=rows_of_batches)
        target.steps = 4

        def prepare():
            target.trainer.eval_dataset = Rows(rows_of_batches * batches, target.length)
        after_build(target, prepare)


@fault("trainer_evaluation_logits", "results kept on the GPU", "trainer")
class TrainerEvaluationLogits(TrainersOwn):
    """compute_metrics needs predictions, and the Trainer collects all logits on the GPU; the fixed form reduces each batch's first.

    Threads of transformers that led to preprocess_logits_for_metrics and eval_accumulation_steps.
    """

    def inject(self, target, fixed):
        batches, target.size, target.length = self.rng.randint(16, 24), 8, 256
        target.vocabulary, target.layers, target.width = self.rng.choice([8000, 12000]), min(target.layers, 3), 512
        self.evaluated(target, target.size, batches)

        def measure():
            target.trainer.compute_metrics = lambda found: {"rows": float(len(found.label_ids))}
            if fixed:
                target.trainer.preprocess_logits_for_metrics = lambda logits, labels: (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)
        after_build(target, measure)


@fault("trainer_evaluation_batch", "evaluation batch", "trainer")
class TrainerEvaluationBatch(TrainersOwn):
    """per_device_eval_batch_size is many times the training's, since an evaluation was thought to need little."""

    def inject(self, target, fixed):
        times, size = self.rng.choice([8, 12]), target.size
        self.evaluated(target, size if fixed else size * times, times if fixed else 1)


@fault("lightning_validation_kept", "results kept on the GPU", "lightning")
class LightningValidationKept(Fault):
    """The scores of each batch of the validation go into a list, of which the end of the epoch should make a metric, and are not cleared.

    Threads of Lightning since validation_epoch_end() went.
    """

    def fits(self, target):
        return super().fits(target) and hasattr(target, "length")

    def inject(self, target, fixed):
        from lightning.pytorch import Callback
        outputs, batches = [], self.rng.choice([6, 8])
        target.trainer_arguments["val_check_interval"] = 1

        class Collect(Callback):
            def on_validation_start(self, trainer, module):
                def hook(layer, inputs, output):
                    scores = largest_tensor(output)
                    if scores is not None:
                        outputs.append(scores.argmax(-1).cpu() if fixed else scores.detach())
                self.handle = module.model.register_forward_hook(hook)

            def on_validation_end(self, trainer, module):
                self.handle.remove()
        target.callbacks.append(Collect())

        def prepare():
            from jobs_trainers import Rows
            target.loaders = target.loaders[0], torch.utils.data.DataLoader(Rows(batches * target.size, target.length), batch_size=target.size)
        after_build(target, prepare)


@fault("reduction_bucket_too_large", "buffers of a reduction", "deepspeed")
class ReductionBucketTooLarge(Fault):
    """reduce_bucket_size and allgather_bucket_size as a recipe for large models has them, and gradients are copied into one buffer of that size.

    Threads of DeepSpeed that answer with 5e7 or less in place of 5e8.
    """

    def inject(self, target, fixed):
        deep(target, self.rng)
        target.bucket = 2_000_000 if fixed else self.rng.choice([200_000_000, 500_000_000])


@fault("states_of_replaced_parameters", "states of replaced parameters", "steps", without=WRAPPED)
class StatesOfReplacedParameters(Fault):
    """Parameters are cut and split from time to time, which makes new ones, and the optimizer keeps its states of the old ones, and them.

    As codes of splatting replace parameters; the fixed form deletes the old key.
    """

    def inject(self, target, fixed):
        share, after_step, held, width = self.rng.uniform(0.05, 0.09), target.after_step, {}, 59
        target.steps = self.rng.randint(7, 10)

        def start():
            held["blobs"] = torch.nn.Parameter(torch.zeros(rows(share, width), width, device=DEVICE))
            held["optimizer"] = torch.optim.Adam([held["blobs"]], lr=1e-3, foreach=False)

        def densify():
            old, optimizer = held["blobs"], held["optimizer"]
            state = optimizer.state.pop(old) if fixed else dict(optimizer.state[old])
            half = len(old) // 2
            new = torch.nn.Parameter(torch.cat([old.detach()[:half], old.detach()[half:] * 0.8]))
            for name in "exp_avg", "exp_avg_sq":
                state[name] = torch.cat([state[name][:half], torch.zeros_like(state[name][half:])])
            optimizer.param_groups[0]["params"], optimizer.state[new], held["blobs"] = [new], state, new

        def fit(i, loss):
            after_step(i, loss)
            if not held:
                start()
            with torch.enable_grad():
                held["blobs"].square().mean().backward()
            held["optimizer"].step()
            held["optimizer"].zero_grad()
            densify()
        target.after_step = fit


@fault("unrolled_without_truncation", "loop that is not cut", "steps", without=WRAPPED)
class UnrolledWithoutTruncation(Fault):
    """A recurrent predictor learns from a long sequence, chunk by chunk, with one backward pass at its end; the fixed form detaches the state and has one for each chunk.

    Threads about truncated backpropagation through time.
    """

    def inject(self, target, fixed):
        share, after_step, when = self.rng.uniform(0.8, 1.4), target.after_step, self.rng.randint(0, 1)
        chunks, inner, width, held = self.rng.choice([8, 12]), 4, self.rng.choice([128, 256]), {}
        target.steps = when + 3

        def start():
            cell = torch.nn.ModuleDict({"gates": torch.nn.Linear(2 * width, 2 * width), "new": torch.nn.Linear(2 * width, width), "out": torch.nn.Linear(width, width)})
            held.update(cell=cell.to(DEVICE), size=rows(share / (chunks * inner * 8), width))

        def chunk(state, inputs):
            cell, total = held["cell"], 0
            for _ in range(inner):
                forget, use = cell["gates"](torch.cat([state, inputs], dim=-1)).sigmoid().chunk(2, dim=-1)
                state = forget * state + (1 - forget) * cell["new"](torch.cat([use * state, inputs], dim=-1)).tanh()
                total = total + (cell["out"](state) - inputs).square().mean()
            return state, total

        def learn(i, loss):
            after_step(i, loss)
            if i < when:
                return
            if not held:
                start()
            state, total = torch.zeros(held["size"], width, device=DEVICE), 0
            inputs = torch.zeros(held["size"], width, device=DEVICE)
            for _ in range(chunks):
                state, part = chunk(state, inputs)
                if fixed:
                    part.backward()
                    state = state.detach()
                else:
                    total = total + part
            if not fixed:
                total.backward()
            held["cell"].zero_grad()
        target.after_step = learn


@fault("calibration_inputs", "results kept on the GPU", "inference")
class CalibrationInputs(Fault):
    """The inputs of each linear layer are collected for a calibration before the weights are quantised; the fixed form keeps the largest of each channel.

    Threads of AutoAWQ and of AutoGPTQ about n_samples.
    """

    def fits(self, target):
        return super().fits(target) and "generate" not in target.traits

    def inject(self, target, fixed):
        inputs, form = {}, self.rng.choice(["dict", "list"])
        target.steps, every = self.rng.randint(4, 7), self.rng.choice([1, 2])

        def watch():
            layers = [(n, m) for n, m in target.model.named_modules() if isinstance(m, torch.nn.Linear)]
            for k, (name, layer) in enumerate(layers):
                if k % every == 0:
                    layer.register_forward_pre_hook(lambda module, args, name=name: collect(name, args[0]))

        def collect(name, x):
            if fixed:
                most = x.detach().abs().flatten(0, -2).amax(0)
                inputs[name] = torch.maximum(inputs[name], most) if name in inputs else most
            elif form == "dict":
                inputs.setdefault(name, []).append(x.detach())
            else:
                inputs.setdefault("all", []).append((name, x.detach()))
        after_build(target, watch)


@fault("index_grows", "index concatenated", "inference")
class IndexGrows(Fault):
    """Each batch's vectors are concatenated to an index on the GPU; the fixed form has it on the host."""

    def inject(self, target, fixed):
        take, share, held = target.take, self.rng.uniform(0.1, 0.2), {}
        target.steps, width, form = self.rng.randint(8, 12), self.rng.choice([384, 1024]), self.rng.choice(["cat", "vstack"])

        def add(i, outputs):
            take(i, outputs)
            if not held:
                held.update(count=rows(share, width), index=torch.zeros(0, width, device="cpu" if fixed else DEVICE))
            new = torch.zeros(held["count"], width, device=DEVICE)
            new = new.cpu() if fixed else new
            held["index"] = torch.cat([held["index"], new]) if form == "cat" else torch.vstack((held["index"], new))
        target.take = add


@fault("models_compared", "idle model", "inference")
class ModelsCompared(Fault):
    """Two or three models are loaded to be compared, and run one after the other; the fixed form has the one that runs on the GPU."""

    def fits(self, target):
        return super().fits(target) and target.name != "drafts_checked"

    def inject(self, target, fixed):
        light(target, self.rng)
        number, train, held = self.rng.choice([1, 2]), target.train, []
        target.steps = min(target.steps, 2)
        if "layers" in target.traits:
            target.layers *= 2
        if "generate" in target.traits:
            target.prompt, target.new_tokens = 64, 4

        def load():
            for _ in range(number):
                target.model.cpu()
                other = copy.deepcopy(target.model)
                held.append(other if fixed else other.to(DEVICE))
            target.model.to(DEVICE)
        after_build(target, load)

        def compare():
            train()
            for other in held:
                if fixed:
                    target.model.cpu()
                target.model = other.to(DEVICE)
                train()
        target.train = compare


@fault("requests_remembered", "growing cache", "steps")
class RequestsRemembered(Fault):
    """functools.lru_cache on a method that makes tensors of its arguments, which differ each time: the last hundred results stay.

    Threads about caches of positions, of grids and of windows.
    """

    def inject(self, target, fixed):
        import functools
        share, after_step, held = self.rng.uniform(0.06, 0.12), target.after_step, {}
        target.steps, width = self.rng.randint(8, 12), self.rng.choice([64, 256])

        @functools.lru_cache(maxsize=1 if fixed else 128)
        def grid(number, length):
            return torch.zeros(length, width, device=DEVICE) + number

        def look(i, loss):
            after_step(i, loss)
            if not held:
                held["count"] = max(2, int(share * peak() / (4 * width)))
            for k in range(2):
                target.middle = grid(2 * i + k, held["count"] // 2 + k)[0, 0].item()
        target.after_step = look
