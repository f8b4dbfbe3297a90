"""Mistakes that people ask about most: sizes of batches, pictures and texts, precision, the optimizer, a checkpoint, runs in a row, generation."""
import gc
import tempfile

import torch

from amounts import after_build, deep, light, sized
from core import Fault, fault
from jobs_trainers import Rows, TrainerJob

WRAPPED = "ddp", "fsdp", "deepspeed", "megatron"
MADE_BEFORE = {"reranking_service", "picture_service", "speech_on_request", "clips_searched", "tiles_on_request"}  # jobs whose weights have 32 bits at first


def room(target, rows):
    """Makes the dataset as long as one batch at least."""
    if isinstance(getattr(target, "rows", None), int):
        target.rows = max(target.rows, rows)


def many_weights(target, rng):
    """A deep model on two short examples: one alone is too few for norms over a batch."""
    deep(target, rng)
    target.size = 2


@fault("m_batch_size", "batch too large", "loop", without=("two optimizers", "reference", *WRAPPED))
class BatchSize(Fault):
    """The batch size of a paper, on one card: the same batch fits in parts, whose gradients are accumulated."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        factor = self.rng.choice([4, 6, 8])
        target.size = max(2, min(target.size, 16))
        room(target, target.size * factor)
        if fixed:
            target.micro_batches *= factor
        else:
            target.size *= factor


@fault("m_image_size", "pictures too large", "loop", "images", without=("two optimizers", "reference", *WRAPPED))
class ImageSize(Fault):
    """Pictures go in as the camera took them; the task needs half of their width."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "pixels", None), int)

    def inject(self, target, fixed):
        factor = self.rng.choice([2, 2, 3])
        target.size = min(target.size, 16)
        if not fixed:
            target.pixels *= factor


@fault("m_max_length", "padding", "loop", "tokens", without=("two optimizers", "reference", *WRAPPED))
class MaxLength(Fault):
    """tokenizer(..., padding="max_length"): short texts are as long as the model allows."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "length", None), int)

    def inject(self, target, fixed):
        factor = self.rng.choice([4, 6, 8])
        target.length = min(target.length, 256)
        if not fixed:
            target.length *= factor


@fault("m_no_amp", "no mixed precision", "loop", without=("two optimizers", "reference", "peft", *WRAPPED))
class NoAmp(Fault):
    """Training in fp32, where autocast would halve the activations."""

    def fits(self, target):
        return super().fits(target) and sized(target) and "autocast" in getattr(target, "precisions", ()) and not target.traits & {"pretrained"}

    def inject(self, target, fixed):
        target.size = max(8, min(32, target.size * 2))
        room(target, target.size)
        target.precision = "autocast" if fixed else "fp32"
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8000)


@fault("m_no_checkpointing", "activations", "checkpointing", without=("two optimizers", "reference", "inference", "peft", "pretrained", *WRAPPED))
class NoCheckpointing(Fault):
    """A deep model and long examples without gradient_checkpointing_enable()."""

    def inject(self, target, fixed):
        target.checkpointing = fixed
        if isinstance(getattr(target, "layers", None), int) and "layers" in target.traits:
            target.layers = min(16, target.layers * self.rng.choice([2, 3]))
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8000)
        if sized(target):
            target.size = max(target.size, 8)
            room(target, target.size)


@fault("m_adam", "optimizer states", "loop", without=("two optimizers", "reference", "peft", "pretrained", *WRAPPED))
class Adam(Fault):
    """The model fits, forward and backward pass too, and optimizer.step() makes Adam's states; SGD would have none."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        many_weights(target, self.rng)
        form = self.rng.choice(["adam", "adamw", "amsgrad"])

        def choose():
            parameters = [p for p in target.model.parameters() if p.requires_grad]
            if fixed:
                target.optimizers = [torch.optim.SGD(parameters, lr=0.01)]
            elif form == "adam":
                target.optimizers = [torch.optim.Adam(parameters, lr=1e-3)]
            else:
                target.optimizers = [torch.optim.AdamW(parameters, lr=1e-4, amsgrad=form == "amsgrad")]
        after_build(target, choose)


@fault("m_resume_cuda", "loaded checkpoint", "loop", "tokens", without=("two optimizers", "reference", "peft", "pretrained", *WRAPPED))
class ResumeCuda(Fault):
    """checkpoint = torch.load(path, map_location="cuda"), with the weights and their average, and the name stays."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        many_weights(target, self.rng)

        def resume():
            state = {k: v.cpu() for k, v in target.model.state_dict().items() if torch.is_tensor(v)}
            with tempfile.TemporaryFile() as file:
                torch.save({"epoch": 3, "model": state, "model_ema": {k: v.clone() for k, v in state.items()}}, file)
                file.seek(0)
                checkpoint = torch.load(file, map_location="cpu" if fixed else "cuda")
            target.model.load_state_dict(checkpoint["model"], strict=False)
            target.start_epoch, target.checkpoint = checkpoint["epoch"] + 1, checkpoint
        after_build(target, resume)


@fault("m_trials", "earlier runs kept", "loop", without=("two optimizers", "reference", "peft", "pretrained", *WRAPPED))
class Trials(Fault):
    """Folds, or trials, one after the other: each result holds its model and its optimizer."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        light(target, self.rng)
        trials, form, results = self.rng.randint(3, 4), self.rng.choice(["list", "dict"]), []
        target.steps = 2

        def run():
            for k in range(trials):
                target.build()
                target.train()
                if fixed:
                    results.append({"fold": k, "score": 0.5})
                elif form == "dict":
                    results.append({"fold": k, "score": 0.5, "model": target.model, "optimizer": target.optimizers})
                else:
                    results.append((0.5, target.model, target.optimizers))
                target.model, target.optimizers = None, []
                gc.collect()
        target.run = run


@fault("m_loss_sum", "losses summed", "loop", without=("two optimizers", "reference", *WRAPPED))
class LossSum(Fault):
    """Accumulation as it was understood: loss_sum += loss for some batches, and then one loss_sum.backward()."""

    def inject(self, target, fixed):
        target.micro_batches = accumulated = self.rng.choice([4, 5, 8])
        if fixed:
            return

        def step(i):
            target.zero_grad()
            loss_sum = 0
            for k in range(accumulated):
                loss_sum = loss_sum + target.loss(target.batch(i * accumulated + k)) / accumulated
            target.backward(loss_sum)
            target.optimize()
            return loss_sum.detach()
        target.step = step


@fault("m_eager_attention", "attention scores", "attention", "tokens", without=("generate", "reference", *WRAPPED))
class EagerAttention(Fault):
    """attn_implementation="eager" on long texts."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "length", None), int) and isinstance(getattr(target, "size", None), int)

    def inject(self, target, fixed):
        target.length, target.size = self.rng.choice([2048, 3072]), min(target.size, self.rng.choice([1, 2]))
        if isinstance(getattr(target, "vocabulary", None), int):
            target.vocabulary = min(target.vocabulary, 8192)
        if not fixed:
            target.attention = "eager"


@fault("m_many_prompts", "KV cache", "generate")
class ManyPrompts(Fault):
    """All prompts in one call of generate(), which has their keys and values at once."""

    def inject(self, target, fixed):
        factor, predict = self.rng.choice([4, 6]), target.predict
        part = target.size = min(target.size, 32)
        target.size *= factor
        if fixed:
            target.predict = lambda prompts: torch.cat([predict(few) for few in prompts.split(part)])


@fault("m_double", "double precision", "loop", "tokens", "decoder", without=("two optimizers", "reference", "peft", "pretrained", *WRAPPED))
class Double(Fault):
    """model.double(), since numpy's arrays were of float64 and an error asked for one type."""

    def inject(self, target, fixed):
        target.precision = "fp32"
        light(target, self.rng)
        if not fixed:
            after_build(target, lambda: target.model.double())


@fault("m_trainer_metrics", "logits of an evaluation", "trainer", "tokens", "decoder", without=("reference", "peft", "forward"))
class TrainerMetrics(Fault):
    """compute_metrics in a Trainer without preprocess_logits_for_metrics: the logits of the whole evaluation are put together on the GPU."""

    def fits(self, target):
        others = "trl_sft", "trl_dpo", "trl_reward", "adapters_with_trl", "classifier_with_trainer"  # whose evaluation takes other rows
        return super().fits(target) and isinstance(target, TrainerJob) and target.name not in others

    def inject(self, target, fixed):
        batches = self.rng.randint(16, 24)
        target.length, target.size = min(target.length, 256), min(target.size, 4)
        target.trainer_arguments.update(eval_strategy="steps", eval_steps=2)

        def evaluated():
            trainer = target.trainer
            trainer.eval_dataset = Rows(batches * target.size, target.length)
            trainer.compute_metrics = lambda predictions: {"count": float(len(predictions.label_ids))}
            if fixed:
                trainer.preprocess_logits_for_metrics = lambda logits, labels: (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)
        after_build(target, evaluated)


@fault("m_eval_batch", "evaluation batch", "loop", "eval", "decoder", "tokens", without=("two optimizers", "reference", *WRAPPED))
class EvalBatch(Fault):
    """The loader of the validation has a batch many times that of the training, as there is no backward pass."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        factor, after_step = self.rng.choice([16, 24]), target.after_step
        target.size = min(target.size, 4)
        room(target, target.size * factor)

        def validate():
            small = target.size
            if fixed:
                for _ in range(factor):
                    target.evaluate().float().mean().item()
                return
            target.size = small * factor
            try:
                target.evaluate().mean().item()
            finally:
                target.size = small

        def after(i, loss):
            after_step(i, loss)
            if i == 1:
                validate()
        target.after_step = after


@fault("m_float32_weights", "weights in full precision", "inference", "layers", without=("generate",))
class Float32Weights(Fault):
    """from_pretrained() without a dtype: the weights have 32 bits."""

    def fits(self, target):
        return super().fits(target) and target.name not in MADE_BEFORE and isinstance(getattr(target, "dtype", None), torch.dtype)

    def inject(self, target, fixed):
        light(target, self.rng)
        target.layers *= self.rng.choice([3, 4])
        target.size = 4
        target.dtype = torch.bfloat16 if fixed else torch.float32
