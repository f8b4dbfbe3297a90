"""The mistakes that people tell of most often, continued: results, data, models and their copies, settings that were left out."""
import copy
import os
import tempfile

import torch
import torch.nn as nn
import torch.nn.functional as F

from amounts import after_build, largest_tensor, light, sized, with_output
from core import DEVICE, Fault, fault
from faults_common_l import WRAPPED, after_steps


FOURS = {"benchmark", "choices"}  # whose size divides by four


def bytes_of(model):
    return sum(p.numel() * p.element_size() for p in model.parameters())


def small(target, rng):
    """Small batches, of two pictures at least, so that parameters weigh more than activations."""
    pictures = max(2, target.size // 4) if "images" in target.traits and isinstance(getattr(target, "size", None), int) else 0
    if target.name not in FOURS:
        light(target, rng)
    if pictures:
        target.size = min(pictures, 4)


def image_loop(target):
    return isinstance(getattr(target, "pixels", None), int) and "images" in target.traits


@fault("l_all_preds", "results kept on the GPU", "loop", "eval", "decoder", without=WRAPPED)
class AllPreds(Fault):
    """all_preds.append(outputs) in the validation, and nothing empties the list between epochs."""

    def inject(self, target, fixed):
        batches, form, all_preds = self.rng.choice([3, 4]), self.rng.choice(["logits", "probabilities", "pairs"]), []
        target.steps = self.rng.randint(5, 7)

        def validate():
            target.model.eval()
            with torch.no_grad():
                for k in range(batches):
                    outputs = largest_tensor(target.predict(target.batch(k)))
                    if fixed:
                        all_preds.append(outputs.argmax(-1).cpu())
                    elif form == "pairs":
                        all_preds.append((k, outputs))
                    else:
                        all_preds.append(outputs if form == "logits" else outputs.softmax(-1))
            target.model.train()
        after_steps(target, validate)


@fault("l_outputs_list", "results kept on the GPU", "inference", without=("generate", "images"))
class OutputsList(Fault):
    """outputs.append(out) for each batch of an inference, without .cpu()."""

    def fits(self, target):
        return super().fits(target) and target.name not in ("reranking_service", "names_on_request", "picture_service")  # whose outputs are small

    def inject(self, target, fixed):
        target.steps, outputs, form = self.rng.randint(10, 16), [], self.rng.choice(["list", "dict"])

        def keep(output):
            found = largest_tensor(output)
            outputs.append(found.mean(dim=0).cpu() if fixed else found if form == "list" else {"hidden": found, "index": len(outputs)})
        with_output(target, keep)


@fault("l_training_preds", "list of tensors", "forward", "decoder", without=(*WRAPPED, "peft"))
class TrainingPreds(Fault):
    """self.training_step_outputs.append({"preds": preds}), for metrics at the end of an epoch that is far away."""

    def inject(self, target, fixed):
        target.steps, target.training_step_outputs, form = self.rng.randint(12, 16), [], self.rng.choice(["dict", "list"])
        if isinstance(getattr(target, "micro_batches", None), int):
            target.micro_batches = 1

        def keep(output):
            preds = largest_tensor(output)
            if preds is not None and preds.requires_grad:
                value = preds.detach().float().mean().item() if fixed else preds
                target.training_step_outputs.append({"preds": value} if form == "dict" else value)
        with_output(target, keep)


@fault("l_compute_metrics", "logits of an evaluation", "trainer")
class ComputeMetrics(Fault):
    """compute_metrics takes an argmax of the logits of all of the evaluation, which the trainer has kept until then."""
    with_evaluation = "trainer", "adapters_with_trainer", "summaries_with_trainer", "pictures_and_words"  # and logits over a vocabulary

    def fits(self, target):
        return super().fits(target) and target.name in self.with_evaluation

    def inject(self, target, fixed):
        share, row = self.rng.uniform(0.6, 1.0), target.length if isinstance(getattr(target, "length", None), int) else 256
        target.size, target.steps = min(target.size, 2), 2
        target.trainer_arguments.update(eval_strategy="steps", eval_steps=2, gradient_accumulation_steps=1)

        def extend():
            trainer = target.trainer
            batches = share * (4 * bytes_of(target.model) + (512 << 20)) / (4 * target.size * row * target.vocabulary)
            trainer.eval_dataset = torch.utils.data.ConcatDataset([trainer.eval_dataset] * max(4, min(40, int(batches))))
            trainer.compute_metrics = lambda prediction: {"rows": len(prediction.label_ids)}
            if fixed:
                trainer.preprocess_logits_for_metrics = lambda logits, labels: (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)
        after_build(target, extend)


@fault("l_preds_concatenated", "results concatenated", "loop", "eval", "decoder", without=WRAPPED)
class PredsConcatenated(Fault):
    """preds = torch.cat((preds, outputs)) for each batch of the validation, and all of it is compared with the labels at the end."""

    def inject(self, target, fixed):
        batches, form = self.rng.randint(8, 12), self.rng.choice(["first is None", "empty"])
        target.steps = self.rng.choice([2, 3])

        def validate():
            target.model.eval()
            preds = None if form == "first is None" else torch.tensor([], device="cpu" if fixed else DEVICE)
            with torch.no_grad():
                for k in range(batches):
                    outputs = largest_tensor(target.predict(target.batch(k)))
                    if fixed:
                        outputs = outputs.argmax(-1).cpu()
                    preds = outputs if preds is None else torch.cat((preds, outputs))
            target.accuracy = preds.argmax() if fixed else preds.argmax(-1)
            target.model.train()
        after_steps(target, validate)


@fault("l_dataset_to_device", "data moved to the GPU", "loop", "dataset", without=WRAPPED)
class XTrainToDevice(Fault):
    """X_train.to(device) for all of the data, before the first epoch; the fixed form moves a batch at a time."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        small(target, self.rng)
        amount = self.rng.uniform(1.5, 3) * (1 << 30)

        def move():
            row = sum(t[0].numel() * t.element_size() for t in target.dataset)
            count = max(len(target.dataset[0]), int((amount + 3 * bytes_of(target.model)) / row))
            if fixed:
                target.dataset = tuple(t[:1].expand(count, *t.shape[1:]) for t in target.dataset)
            else:
                target.dataset = tuple(torch.zeros(count, *t.shape[1:], dtype=t.dtype, device=DEVICE) for t in target.dataset)
        after_build(target, move)


@fault("l_best_weights", "copies of the model kept", "loop", without=(*WRAPPED, "peft", "pretrained"))
class BestWeights(Fault):
    """best_weights.append(copy.deepcopy(model.state_dict())) whenever the loss is lower; the fixed form keeps the last one, on the host."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        small(target, self.rng)
        target.steps, form, best = self.rng.randint(8, 11), self.rng.choice(["deepcopy", "clone", "epoch"]), []

        def remember():
            state = target.model.state_dict()
            if fixed:
                best[:] = [{k: v.cpu() for k, v in state.items()}]
            elif form == "clone":
                best.append({k: v.clone() for k, v in state.items()})
            else:
                best.append(copy.deepcopy(state) if form == "deepcopy" else {"epoch": len(best), "weights": copy.deepcopy(state)})
        after_steps(target, remember)


@fault("l_models_of_folds", "earlier runs kept", "loop", without=(*WRAPPED, "peft"))
class ModelsOfFolds(Fault):
    """K-fold cross-validation in one process: each fold's model, with its optimizer, goes into a list."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        small(target, self.rng)
        folds, form, models, train, build = self.rng.choice([3, 4, 5]), self.rng.choice(["pairs", "dict"]), [], target.train, target.build
        target.steps, target.build = 2, lambda: None

        def train_folds():
            for fold in range(folds):
                target.model, target.optimizers = None, []
                build()
                train()
                if not fixed:
                    pair = target.model, target.optimizers
                    models.append(pair if form == "pairs" else {"fold": fold, "model": pair[0], "optimizer": pair[1]})
                    del pair
        target.train = train_folds


@fault("l_checkpoint_on_cuda", "loaded checkpoint", "loop", without=(*WRAPPED, "peft", "pretrained"))
class CheckpointOnCuda(Fault):
    """checkpoint = torch.load(path, map_location="cuda"), with the weights and an optimizer's states, stays a variable of the script."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        small(target, self.rng)

        def load():
            state = {name: torch.zeros(t.shape, dtype=t.dtype) for name, t in target.model.state_dict().items()}
            averages = [{name: torch.zeros_like(t) for name, t in state.items()} for _ in range(2)]
            with tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, "checkpoint.pt")
                torch.save({"epoch": 3, "model": state, "exp_avg": averages[0], "exp_avg_sq": averages[1]}, path)
                del state, averages
                checkpoint = torch.load(path, map_location="cpu" if fixed else DEVICE)
            target.model.load_state_dict(checkpoint["model"])
            if not fixed:
                target.checkpoint = checkpoint
        after_build(target, load)


@fault("l_larger_variant", "model too large", "layers", without=WRAPPED)
class LargerVariant(Fault):
    """The large variant of a model, where the card has room for the small one."""

    def inject(self, target, fixed):
        small(target, self.rng)
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8192)
        times = self.rng.choice([4, 5, 6])
        if not fixed:
            target.layers *= times


@fault("l_loaded_in_fp32", "weights in full precision", "inference", "layers")
class LoadedInFP32(Fault):
    """from_pretrained() without a dtype makes weights of 32 bits."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "dtype", None), torch.dtype) and target.name not in FOURS

    def inject(self, target, fixed):
        small(target, self.rng)
        target.layers *= self.rng.choice([3, 4])
        target.dtype = torch.bfloat16 if fixed else torch.float32


@fault("l_linear_after_flatten", "one layer too large", "loop", "images", without=(*WRAPPED, "peft"))
class FlattenThenLinear(Fault):
    """nn.Linear(channels * height * width, hidden) after flatten(), without any pooling before it."""

    def fits(self, target):
        return super().fits(target) and image_loop(target)

    def inject(self, target, fixed):
        small(target, self.rng)
        amount, forward, head = self.rng.uniform(0.3, 0.5) * (1 << 30), target.loss, []

        def make():
            images = target.batch(0)[0]
            width = images[0].numel()
            hidden = max(64, int((amount + bytes_of(target.model)) / (4 * width)) // 64 * 64)
            front = nn.Sequential(nn.AdaptiveAvgPool2d(8), nn.Flatten()) if fixed else nn.Flatten()
            with torch.device(DEVICE):
                head.append(nn.Sequential(front, nn.Linear(len(images[0]) * 64 if fixed else width, hidden), nn.ReLU(), nn.Linear(hidden, 10)))
            target.optimizers[0].add_param_group({"params": list(head[0].parameters())})

        def loss_with_head(batch):
            scores = head[0](batch[0].float())
            return forward(batch) + 0.1 * F.cross_entropy(scores, torch.zeros(len(scores), dtype=torch.long, device=DEVICE))
        after_build(target, make)
        target.loss = loss_with_head


@fault("l_distances_by_broadcast", "one huge temporary", "loop", without=WRAPPED)
class DistancesByBroadcast(Fault):
    """((a[:, None] - b[None]) ** 2).sum(-1), all pairs at once, where torch.cdist makes the distances alone."""

    def inject(self, target, fixed):
        share, width, form = self.rng.uniform(0.5, 0.9), self.rng.choice([64, 128, 256]), self.rng.choice(["power", "norm"])
        forward, state = target.loss, {"calls": 0}

        def distances(a, b):
            if fixed:
                return torch.cdist(a, b)
            difference = a.unsqueeze(1) - b.unsqueeze(0)
            return (difference ** 2).sum(-1) if form == "power" else difference.norm(dim=-1)

        def loss_with_distances(batch):
            loss = forward(batch)
            state["calls"] += 1
            if state["calls"] > target.micro_batches:  # the first epoch is without it
                if "projection" not in state:
                    count = max(16, int((share * torch.cuda.max_memory_allocated() / (4 * width)) ** 0.5))
                    state["projection"] = nn.Linear(width, width, device=DEVICE)
                    state["a"], state["b"] = torch.zeros(count, width, device=DEVICE), torch.zeros(count, width, device=DEVICE)
                loss = loss + 0.01 * distances(state["projection"](state["a"]), state["b"]).mean()
            return loss
        target.loss = loss_with_distances


@fault("l_adam_for_all", "optimizer states", "loop", without=(*WRAPPED, "peft", "pretrained"))
class AdamForAll(Fault):
    """AdamW, where the card has room for the model and its gradients only; the fixed form is plain SGD."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        small(target, self.rng)
        kind = self.rng.choice([torch.optim.AdamW, torch.optim.Adam])

        def choose():
            parameters = [p for p in target.model.parameters() if p.requires_grad]
            target.optimizers = [torch.optim.SGD(parameters, lr=0.01) if fixed else kind(parameters, lr=1e-4)]
        after_build(target, choose)


class Features(nn.Module):
    """Convolutions as of a network that was trained to tell classes of pictures."""

    def __init__(self, base):
        super().__init__()
        self.layers, cin = nn.Sequential(), 3
        for k in range(4):
            cout = base << min(k, 3)
            self.layers.extend([nn.Conv2d(cin, cout, 3, padding=1), nn.ReLU(), nn.Conv2d(cout, cout, 3, padding=1), nn.ReLU(), nn.MaxPool2d(2)])
            cin = cout

    def forward(self, x):
        return self.layers(x)


@fault("l_teacher_pictures", "teacher not frozen", "loop", "images", without=WRAPPED)
class TeacherOfPictures(Fault):
    """A large network, already trained, tells what a small one should see; its forward pass has no no_grad() around it."""

    def fits(self, target):
        return super().fits(target) and image_loop(target) and getattr(target, "channels", 3) == 3

    def inject(self, target, fixed):
        base, forward, nets = self.rng.choice([96, 128]), target.loss, {}
        target.size = max(2, target.size // 2)

        def make():
            with torch.device(DEVICE):
                nets["teacher"], nets["student"] = Features(base).eval(), nn.Conv2d(3, base << 3, 16, 16)
            target.optimizers[0].add_param_group({"params": list(nets["student"].parameters())})

        def loss_with_teacher(batch):
            images = batch[0].float()
            if fixed:
                with torch.no_grad():
                    wanted = nets["teacher"](images)
            else:
                wanted = nets["teacher"](images)
            told = nets["student"](images)
            wanted = F.interpolate(wanted, told.shape[-2:])
            return forward(batch) + F.mse_loss(told, wanted)
        after_build(target, make)
        target.loss = loss_with_teacher


@fault("l_only_the_head", "base not frozen", "loop", without=(*WRAPPED, "peft", "pretrained", "reference"))
class OnlyTheHead(Fault):
    """Adam(model.head.parameters()), and nobody told the rest of the model that it needs no gradients."""

    def inject(self, target, fixed):
        kind = self.rng.choice([torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])

        def choose():
            parameters = [p for p in target.model.parameters() if p.requires_grad]
            if fixed:
                for p in parameters[:-2]:
                    p.requires_grad = False
            target.optimizers = [kind(parameters[-2:], lr=1e-3)]
        after_build(target, choose)


@fault("l_without_autocast", "no mixed precision", "loop", without=(*WRAPPED, "peft", "pretrained"))
class WithoutAutocast(Fault):
    """float32 throughout, where autocast would halve the activations."""

    def fits(self, target):
        return super().fits(target) and hasattr(target, "precision") and "autocast" in target.precisions and sized(target)

    def inject(self, target, fixed):
        if "checkpointing" in target.traits:
            target.checkpointing = False
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8192)
        target.size *= self.rng.choice([3, 4])
        target.precision = "autocast" if fixed else "fp32"


@fault("l_without_checkpointing", "activations", "checkpointing", "layers", "loop", without=WRAPPED)
class WithoutCheckpointing(Fault):
    """A deep model whose activations are all kept, where checkpointing is a switch away."""

    def inject(self, target, fixed):
        target.layers *= 2
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8192)
        if isinstance(getattr(target, "size", None), int):
            target.size *= self.rng.choice([1, 2])
        target.checkpointing = fixed


@fault("l_scores_of_long_texts", "attention scores", "attention", "tokens", without=(*WRAPPED, "generate"))
class ScoresOfLongTexts(Fault):
    """softmax(q @ k.T) by hand over long texts, where scaled_dot_product_attention() would do."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "length", None), int)

    def inject(self, target, fixed):
        target.length = max(target.length, self.rng.choice([1024, 1536, 2048]))
        if sized(target):
            target.size = min(target.size, self.rng.choice([2, 4]))
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8192)
        if "checkpointing" in target.traits:
            target.checkpointing = False
        target.attention = "sdpa" if fixed else "eager"
