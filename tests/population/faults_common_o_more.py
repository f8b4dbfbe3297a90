"""Faults of programs as a whole, as they are told most often: inference, checkpoints, several runs, optimizers, trainers."""
import gc
import os
import tempfile

import torch
from transformers.trainer_utils import IntervalStrategy

from amounts import after_build, largest_tensor, sized, with_output
from core import Fault, fault
from faults_common_o import WRAPPED, few_examples, modest

SPECIAL = *WRAPPED, "reference", "peft", "pretrained"


@fault("o_predict_no_grad", "inference with a graph", "inference", without=("generate",))
class PredictNoGrad(Fault):
    """model.eval() and a loop over the test set, without no_grad(); what is kept of it is detached."""

    def inject(self, target, fixed):
        target.layers *= self.rng.choice([2, 3])
        modest(target, rows=16)
        predict = target.predict

        def detached(batch):
            with torch.set_grad_enabled(not fixed):
                return predict(batch).detach()
        target.predict = detached


@fault("o_features_no_grad", "features with a graph", "inference", without=("generate",))
class FeaturesNoGrad(Fault):
    """features.append(outputs.cpu()) without no_grad(): they are on the host, and their graphs are not."""

    def inject(self, target, fixed):
        modest(target, rows=8)
        target.steps, predict, features = self.rng.randint(6, 9), target.predict, []

        def with_features(batch):
            with torch.set_grad_enabled(not fixed):
                outputs = predict(batch)
                features.append(outputs.float().mean(-1).cpu())
            return outputs.detach()
        target.predict = with_features


@fault("o_inference_results", "results kept on the GPU", "inference", without=("generate",))
class InferenceResults(Fault):
    """What the model returns for each batch goes into a list as it is; the fixed one keeps a vector of it on the host."""

    def fits(self, target):
        few_numbers = "complaints_that_are_sorted", "tiles_on_request", "image_inference", "reranking_service", "answers_judged"
        return super().fits(target) and target.name not in few_numbers

    def inject(self, target, fixed):
        target.steps, results = self.rng.randint(24, 32), []

        def keep(output):
            tensor = largest_tensor(output)
            if tensor is not None:
                results.append(tensor[:, 0].float().cpu() if fixed else tensor)
        modest(target, rows=16)
        with_output(target, keep)


@fault("o_inference_batch", "batch too large", "inference", without=("generate",))
class LargeInferenceBatch(Fault):
    """The whole test set in a few batches; the fixed one takes as many examples, a few at a time."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        factor = self.rng.choice([8, 12])
        modest(target, rows=4 if "decoder" in target.traits else 16)
        target.steps = 2
        if fixed:
            target.steps *= factor
        else:
            target.size *= factor


@fault("o_many_prompts", "KV cache", "generate")
class ManyPrompts(Fault):
    """generate() for all prompts at once; the fixed one takes a few at a time."""

    def inject(self, target, fixed):
        factor = self.rng.choice([6, 8])
        target.size, target.new_tokens = min(target.size, self.rng.choice([8, 12])), min(target.new_tokens, 8)
        target.prompt = max(target.prompt, 512)
        if fixed:
            target.steps *= factor
        else:
            target.size *= factor


@fault("o_loaded_in_fp32", "weights in full precision", "inference")
class LoadedInFp32(Fault):
    """from_pretrained() without a dtype: 32 bits for each weight."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "dtype", None), torch.dtype) and isinstance(getattr(target, "layers", None), int)

    def inject(self, target, fixed):
        modest(target, rows=1, length=128)
        target.width, target.layers = max(target.width, 1024), self.rng.choice([10, 12, 16])
        if "generate" in target.traits:
            target.new_tokens, target.prompt = min(target.new_tokens, 6), min(target.prompt, 128)
        target.dtype = torch.bfloat16 if fixed else torch.float32


@fault("o_folds", "earlier runs kept", "loop", "layers", "attention", "states", without=SPECIAL)
class Folds(Fault):
    """Cross-validation: each fold has a new model and a new optimizer, and those of the folds before are kept in lists."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        folds, form, models, optimizers = self.rng.choice([3, 4]), self.rng.choice(["lists", "results"]), [], []
        few_examples(target, self.rng)
        modest(target)
        target.steps = 2

        def run():
            for fold in range(folds):
                target.build()
                target.train()
                if fixed:
                    target.model, target.optimizers = None, []
                    gc.collect()
                elif form == "lists":
                    models.append(target.model)
                    optimizers.append(target.optimizers)
                else:
                    models.append({"fold": fold, "model": target.model, "optimizer": target.optimizers})
        target.run = run


@fault("o_checkpoint_variable", "loaded checkpoint", "loop", "layers", "attention", "states", without=SPECIAL)
class CheckpointVariable(Fault):
    """checkpoint = torch.load(path, map_location="cuda"), with the states of the optimizer that made it; the variable lives as long as the script."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        few_examples(target, self.rng)
        modest(target)
        target.layers = min(target.layers, 6)

        def save(path):
            weights = {name: torch.zeros(t.shape, dtype=t.dtype) for name, t in target.model.state_dict().items()}
            states = {n: {"exp_avg": torch.zeros(p.shape), "exp_avg_sq": torch.zeros(p.shape)} for n, p in enumerate(target.model.parameters())}
            torch.save({"epoch": 3, "model": weights, "optimizer": {"state": states}}, path)

        def load():
            with tempfile.TemporaryDirectory() as directory:
                path = os.path.join(directory, "last.pt")
                save(path)
                checkpoint = torch.load(path, map_location="cpu" if fixed else "cuda")
            target.model.load_state_dict(checkpoint["model"])
            if not fixed:
                target.checkpoint = checkpoint
        after_build(target, load)


@fault("o_adam_states", "optimizer states", "loop", "layers", "attention", "states", without=SPECIAL)
class AdamStates(Fault):
    """The first forward and backward pass fit, and the first step of AdamW does not; the fixed one has an optimizer with small states."""

    def fits(self, target):
        return super().fits(target) and sized(target) and callable(getattr(target, "optimizer", None))

    def inject(self, target, fixed):
        form, kind = self.rng.choice(["sgd", "adafactor"]), self.rng.choice([torch.optim.Adam, torch.optim.AdamW])
        few_examples(target, self.rng)
        target.layers *= 2

        def optimizer(parameters):
            trained = [p for p in parameters if p.requires_grad]
            if not fixed:
                return kind(trained, lr=1e-4)
            return torch.optim.SGD(trained, lr=0.01) if form == "sgd" else torch.optim.Adafactor(trained, lr=1e-3)
        target.optimizer = optimizer


@fault("o_compute_metrics", "logits of an evaluation", "trainer", "decoder", "tokens", without=("reference", "peft", "forward"))
class ComputeMetrics(Fault):
    """A Trainer with compute_metrics(), and the logits of the whole evaluation set; the fixed one takes the argmax of each batch."""

    def fits(self, target):
        return super().fits(target) and target.name not in ("classifier_with_trainer", "trl_dpo", "trl_reward")

    def inject(self, target, fixed):
        total, every = self.rng.uniform(2.0, 2.5) * (1 << 30), self.rng.choice([2, 3])
        modest(target, rows=2, length=256, vocabulary=16000)
        target.layers = min(target.layers, 2)

        def evaluated():
            trainer = target.trainer
            rows = max(16, min(160, int(total / (target.length * target.vocabulary * 4))))
            part = trainer.eval_dataset or torch.utils.data.Subset(trainer.train_dataset, range(2))
            trainer.eval_dataset = torch.utils.data.ConcatDataset([part] * (rows // len(part)))
            trainer.args.eval_strategy, trainer.args.eval_steps = IntervalStrategy.STEPS, every
            trainer.compute_metrics = lambda evaluation: {"accuracy": 0.0}
            if fixed:
                trainer.preprocess_logits_for_metrics = lambda logits, labels: (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)
        after_build(target, evaluated)
