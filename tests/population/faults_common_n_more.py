"""The mistakes that people tell most often of a GPU out of memory: sizes, precision, data, copies of models, generation."""
import copy
import os
import tempfile

import torch

from amounts import after_build, light, sized
from core import DEVICE, Fault, fault
from faults_common_n import WRAPPED, number


def pictures_of(batch):
    """The pictures in a batch: its largest tensor of four dimensions."""
    tensors = [batch] if torch.is_tensor(batch) else list(batch.values()) if hasattr(batch, "values") else list(batch)
    return max((t for t in tensors if torch.is_tensor(t) and t.dim() == 4), key=lambda t: t.numel(), default=None)


@fault("n_picture_size", "pictures too large", "images", "loop", without=WRAPPED)
class PictureSize(Fault):
    """Pictures as the camera made them; nobody resized them to what the model was made for."""

    def fits(self, target):
        return super().fits(target) and number(target, "pixels") and target.pixels <= 256

    def inject(self, target, fixed):
        times = self.rng.choice([2, 2, 3])
        target.size = min(target.size, 32)
        if not fixed:
            target.pixels *= times


@fault("n_pad_to_max_length", "padding", "tokens", "loop", without=WRAPPED)
class PadToMaxLength(Fault):
    """padding="max_length": each row is filled up to the model's longest, and texts are short."""

    def fits(self, target):
        return super().fits(target) and number(target, "length") and number(target, "size")

    def inject(self, target, fixed):
        times = self.rng.choice([3, 4])
        target.size, target.length = min(max(target.size, 8), 16), min(target.length, 512)
        if number(target, "vocabulary"):
            target.vocabulary = min(target.vocabulary, 16000)
        if not fixed:
            target.length *= times


@fault("n_no_autocast", "no mixed precision", "loop", "layers", without=(*WRAPPED, "pretrained", "reference"))
class NoAutocast(Fault):
    """A training in fp32, on a card that has bf16."""

    def fits(self, target):
        return super().fits(target) and sized(target) and "autocast" in getattr(target, "precisions", ()) and hasattr(target, "precision")

    def inject(self, target, fixed):
        target.precision = "autocast" if fixed else "fp32"
        target.size *= self.rng.choice([2, 3, 4])
        if number(target, "rows"):
            target.rows = max(target.rows, target.size)
        if number(target, "vocabulary"):
            target.vocabulary = min(target.vocabulary, 8192)


@fault("n_no_gradient_checkpointing", "activations", "checkpointing", "attention", "loop", "layers", without=WRAPPED)
class NoGradientCheckpointing(Fault):
    """A deep model and long batches, and gradient checkpointing was never switched on."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        target.layers = max(target.layers, self.rng.choice([8, 10, 12]))
        target.size = max(target.size, self.rng.choice([8, 16]))
        if number(target, "rows"):
            target.rows = max(target.rows, target.size)
        if number(target, "vocabulary"):
            target.vocabulary = min(target.vocabulary, 4096)
        target.checkpointing = fixed


@fault("n_eager_attention", "attention scores", "attention", "tokens", "loop", without=WRAPPED)
class EagerAttention(Fault):
    """Long texts, with an attention that writes out its scores."""

    def fits(self, target):
        return super().fits(target) and number(target, "length") and number(target, "size")

    def inject(self, target, fixed):
        target.length, target.size = max(target.length, self.rng.choice([1024, 2048])), min(target.size, self.rng.choice([2, 4]))
        if number(target, "vocabulary"):
            target.vocabulary = min(target.vocabulary, 8192)
        target.checkpointing = False
        if not fixed:
            target.attention = "eager"


@fault("n_loader_on_gpu", "data moved to the GPU", "images", "loop", "dataset", without=WRAPPED)
class LoaderOnGPU(Fault):
    """[(x.cuda(), y.cuda()) for x, y in loader] before the first step, so that the loader is no bottleneck."""

    def inject(self, target, fixed):
        room, form = self.rng.uniform(2.0, 3.5) * 2 ** 30, self.rng.choice(["list", "tensor"])
        target.size = min(target.size, 16)
        batch = target.batch

        def load_everything():
            first = pictures_of(batch(0))
            if first is None or fixed:
                return
            count = min(3000, max(8, int(room / (first.numel() * first.element_size()))))
            if form == "list":
                data = [batch(i) for i in range(count)]
                target.batch = lambda i: data[i % count]
            else:
                data = torch.zeros(count, *first.shape, dtype=first.dtype).to(DEVICE)

                def batch_of_tensor(i):
                    old = batch(i)
                    now = data[i % count]
                    return now if torch.is_tensor(old) else type(old)(now if t.shape == now.shape else t for t in old)
                target.batch = batch_of_tensor
        after_build(target, load_everything)


@fault("n_checkpoint_on_gpu", "loaded checkpoint", "loop", "tokens", "layers", without=(*WRAPPED, "peft", "pretrained", "reference"))
class CheckpointOnGPU(Fault):
    """torch.load(path, map_location=device), and the variable is there for the rest of the training."""

    def fits(self, target):
        return super().fits(target) and hasattr(target, "kind") and number(target, "width") and number(target, "vocabulary")

    def inject(self, target, fixed):
        light(target, self.rng)
        target.micro_batches, target.kind = 1, target.kind if "adam" in target.kind else "adam"
        for name, most in ("size", 2), ("length", 64):
            if number(target, name):
                setattr(target, name, min(getattr(target, name), most))
        target.width, target.vocabulary, target.layers = min(target.width, 512), min(target.vocabulary, 16000), min(target.layers, 4)

        def resume():
            optimizer = target.optimizers[0]
            with tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, "last.pt")
                write_checkpoint(path, target.model, optimizer)
                checkpoint = torch.load(path, map_location="cpu" if fixed else DEVICE)
            target.model.load_state_dict(checkpoint["model"])
            optimizer.load_state_dict(checkpoint["optimizer"])
            target.checkpoint = None if fixed else checkpoint
        after_build(target, resume)


def write_checkpoint(path, model, optimizer):
    """What an earlier run has left; from the host, so that the device does not see it."""
    state, number_of = {}, 0
    for group in optimizer.param_groups:
        for p in group["params"]:
            state[number_of] = {"step": 1, "exp_avg": torch.zeros(p.shape, dtype=p.dtype), "exp_avg_sq": torch.zeros(p.shape, dtype=p.dtype)}
            number_of += 1
    weights = {k: torch.zeros(v.shape, dtype=v.dtype) for k, v in model.state_dict().items()}
    averages = {k: torch.zeros(v.shape, dtype=v.dtype) for k, v in model.state_dict().items()}
    torch.save({"model": weights, "ema": averages, "optimizer": {"state": state, "param_groups": optimizer.state_dict()["param_groups"]}, "epoch": 1}, path)


@fault("n_folds", "earlier runs kept", "loop", "tokens", "layers", without=(*WRAPPED, "reference"))
class Folds(Fault):
    """Cross-validation: each fold trains a model of its own, and the models of all folds are in a list, with their optimizers."""

    def inject(self, target, fixed):
        folds, target.steps, form = self.rng.choice([4, 5]), 2, self.rng.choice(["list", "dict"])
        light(target, self.rng)
        build, train, models, results = target.build, target.train, [], {}

        def train_folds():
            train()
            for fold in range(1, folds):
                if not fixed and form == "list":
                    models.append((target.model, target.optimizers))
                elif not fixed:
                    results["fold%d" % fold] = {"model": target.model, "optimizer": target.optimizers, "score": 0.5}
                else:
                    results["fold%d" % fold] = 0.5
                target.model, target.optimizers = None, []
                build()
                train()
        target.train = train_folds


@fault("n_weights_of_every_epoch", "copies of the model kept", "loop", "tokens", "layers", without=WRAPPED)
class WeightsOfEveryEpoch(Fault):
    """copy.deepcopy(model.state_dict()) after each epoch, to take the best one at the end."""

    def inject(self, target, fixed):
        light(target, self.rng)
        target.steps, form, history = self.rng.randint(6, 9), self.rng.choice(["deepcopy", "clone", "model"]), []

        def remember(i):
            if fixed:
                history[:] = [{k: v.cpu() for k, v in target.model.state_dict().items()}]
            elif form == "deepcopy":
                history.append(copy.deepcopy(target.model.state_dict()))
            elif form == "clone":
                history.append({k: v.clone() for k, v in target.model.state_dict().items()})
            else:
                history.append((i, {"epoch": i, "weights": {k: v.detach().clone() for k, v in target.model.named_parameters()}}))
        after_step = target.after_step

        def after(i, loss):
            after_step(i, loss)
            remember(i)
        target.after_step = after


@fault("n_loaded_in_fp32", "weights in full precision", "inference", "layers")
class LoadedInFP32(Fault):
    """A large model is loaded without a dtype, so that it is in fp32, and only answers questions."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "dtype", None), torch.dtype) and number(target, "width")

    def inject(self, target, fixed):
        light(target, self.rng)
        target.layers, target.width = target.layers * self.rng.choice([2, 3]), max(target.width, 1024)
        if number(target, "prompt"):
            target.prompt = min(target.prompt, 128)
        target.steps = min(target.steps, 3)
        target.dtype = torch.bfloat16 if fixed else torch.float32


@fault("n_forgot_to_freeze", "base not frozen", "pretrained", "loop")
class ForgotToFreeze(Fault):
    """The optimizer has the new parameters only; that the backbone must not ask for gradients was forgotten."""

    def inject(self, target, fixed):
        def unfreeze():
            for p in target.model.parameters():
                if p.is_floating_point():
                    p.requires_grad = True
        if not fixed:
            after_build(target, unfreeze)


@fault("n_all_prompts_at_once", "KV cache", "generate")
class AllPromptsAtOnce(Fault):
    """All prompts of a file go to generate() in one batch."""

    def fits(self, target):
        return super().fits(target) and number(target, "size") and number(target, "prompt")

    def inject(self, target, fixed):
        parts = self.rng.choice([3, 4])
        target.prompt = max(target.prompt, 512)
        target.new_tokens = min(target.new_tokens, 12)
        if fixed:
            target.steps *= parts
        else:
            target.size *= parts


@fault("n_flatten_then_linear", "one layer too large", "images", "loop", without=WRAPPED)
class FlattenThenLinear(Fault):
    """nn.Linear on flattened pictures: its matrix has a column for each pixel, where pooling before it would do."""

    def inject(self, target, fixed):
        hidden, target.size = self.rng.choice([2048, 3072, 4096]), min(target.size, 8)
        forward, heads = target.loss, []

        def make_head():
            shape = pictures_of(target.batch(0)).shape
            columns = shape[1] * (16 * 16 if fixed else shape[2] * shape[3])
            first, last = torch.nn.Linear(columns, hidden, device=DEVICE), torch.nn.Linear(hidden, 10, device=DEVICE)
            heads.append(torch.nn.Sequential(torch.nn.Flatten(), first, torch.nn.ReLU(), last))
            target.optimizers.append(torch.optim.Adam(heads[0].parameters(), lr=1e-4))

        def loss_with_head(batch):
            pictures = pictures_of(batch).float()
            if fixed:
                pictures = torch.nn.functional.adaptive_avg_pool2d(pictures, 16)
            return forward(batch) + 0.1 * heads[0](pictures).float().logsumexp(-1).mean()
        after_build(target, make_head)
        target.loss = loss_with_head
