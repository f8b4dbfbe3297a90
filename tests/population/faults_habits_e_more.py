"""Faults by habit, further ones: models that score, losses of trainers, hidden states of an evaluation, sharding, holes, a corpus on the GPU, a teacher's scores."""
import torch
from torch.distributed.fsdp import FSDPModule, MixedPrecisionPolicy, fully_shard

from amounts import after_build, deep, largest_tensor, mapped, peak, rows
from core import DEVICE, Fault, fault
from faults_habits_d_more import TrainersOwn


def scorer(share, layers=6):
    """A model that scores samples, whose weights take a share of the peak."""
    width = max(128, int((share * peak() / (4 * layers * 8)) ** 0.5) // 64 * 64)
    with torch.device(DEVICE):
        return torch.nn.Sequential(*[torch.nn.Sequential(torch.nn.Linear(width, 4 * width), torch.nn.GELU(), torch.nn.Linear(4 * width, width)) for _ in range(layers)]), width


@fault("scorer_stays", "scorer stays", "steps")
class ScorerStays(Fault):
    """A model for a metric, BERTScore's or LPIPS's, comes to the GPU for the first evaluation, and stays; the fixed form moves it to the host again."""

    def inject(self, target, fixed):
        after_step, share, when, held = target.after_step, self.rng.uniform(0.3, 0.6), self.rng.randint(0, 1), {}
        target.steps = when + 3

        @torch.no_grad()
        def look(i, loss):
            after_step(i, loss)
            if i < when:
                return
            if not held:
                held["model"], held["width"] = scorer(share)
            target.score = held["model"].to(DEVICE)(torch.zeros(8, held["width"], device=DEVICE)).mean().item()
            if fixed:
                held["model"].cpu()
                torch.cuda.empty_cache()
        target.after_step = look


@fault("scorer_of_each_evaluation", "scorers kept", "steps")
class ScorerOfEachEvaluation(Fault):
    """Each evaluation makes its metric anew, with the network inside, and a registry of metrics has them all."""

    def inject(self, target, fixed):
        after_step, share, form, metrics = target.after_step, self.rng.uniform(0.1, 0.16), self.rng.choice(["list", "dict"]), []
        target.steps, sizes = self.rng.randint(8, 11), {}

        @torch.no_grad()
        def look(i, loss):
            after_step(i, loss)
            sizes.setdefault("share", share * peak())
            model, width = scorer(sizes["share"] / peak(), 2)
            target.score = model(torch.zeros(8, width, device=DEVICE)).mean().item()
            if fixed:
                metrics.clear()
            metrics.append(model if form == "list" else {"name": "lpips-%d" % i, "net": model})
        target.after_step = look


@fault("lightning_losses_kept", "graph kept", "lightning", "forward")
class LightningLossesKept(Fault):
    """training_step() appends a second loss, which is only watched, to a list of the module for a mean at the epoch's end; no backward pass frees its graph.

    Threads of Lightning about training_step_outputs.
    """

    def inject(self, target, fixed):
        forward, target.steps, form, kept = target.loss, self.rng.randint(5, 9), self.rng.choice(["loss", "outputs"]), []
        target.trainer_arguments.setdefault("val_check_interval", target.steps)

        def with_list(batch):
            if torch.is_grad_enabled():
                watched = forward(batch)
                watched = watched.detach() if fixed else watched
                kept.append(watched if form == "loss" else {"clean_loss": watched, "size": 1})
                del watched
            return forward(batch)
        target.loss = with_list


@fault("trainer_losses_with_graph", "graph kept", "trainer", "forward")
class TrainerLossesWithGraph(Fault):
    """compute_loss() adds up what the loss would be without its weights, to be logged from time to time; no backward pass frees its graph."""

    def inject(self, target, fixed):
        forward, target.steps, state, form = target.loss, self.rng.randint(5, 8), {"sum": 0.0, "all": []}, self.rng.choice(["sum", "list"])

        def with_sum(batch):
            if torch.is_grad_enabled():
                plain = forward(batch)
                plain = plain.item() if fixed else plain
                if form == "sum":
                    state["sum"] = state["sum"] + plain
                else:
                    state["all"].append(plain / 2)
                del plain
            return 0.9 * forward(batch)
        target.loss = with_sum


@fault("trainer_hidden_states_collected", "results concatenated", "trainer")
class TrainerHiddenStatesCollected(TrainersOwn):
    """The model's configuration says output_hidden_states=True, and the Trainer collects those of all layers as predictions.

    A thread of transformers about BertForSequenceClassification; the fixed form has them left out: ignore_keys.
    """

    def fits(self, target):
        return super(TrainersOwn, self).fits(target) and target.name in ("trainer", "classifier_with_trainer", "adapters_with_trainer")

    def inject(self, target, fixed):
        batches, target.size, target.length = self.rng.randint(20, 28), 8, 256
        target.vocabulary, target.layers = 2000, max(target.layers, 4)
        self.evaluated(target, target.size, batches)

        def measure():
            target.trainer.eval_dataset = torch.utils.data.Subset(target.trainer.train_dataset, range(target.size * batches))
            target.model.config.output_hidden_states = True
            target.trainer.compute_metrics = lambda found: {"rows": float(len(found.label_ids))}
            target.model.config.keys_to_ignore_at_inference = ["past_key_values", "hidden_states", "logits"] if fixed else ["past_key_values"]
        after_build(target, measure)


class OfFSDP2(Fault):
    """A model under fully_shard(), whose parameters weigh more than its activations."""

    def fits(self, target):
        return super().fits(target) and target.name in ("fsdp2", "sharded_pictures")

    def heavy(self, target):
        deep(target, self.rng)
        target.precision, target.kind = "mixed", self.rng.choice(["sgd", "sgd_momentum"])

    def units(self, target):
        return [m for m in target.model.modules() if isinstance(m, FSDPModule)]


@fault("whole_model_is_one_unit", "whole model gathered", "fsdp")
class WholeModelIsOneUnit(OfFSDP2):
    """fully_shard() of the model alone, so that all parameters are gathered at a time; the fixed form has each layer, too."""

    def inject(self, target, fixed):
        self.heavy(target)
        wrapped = target.wrapped

        def one_unit(model):
            if fixed:
                return wrapped(model)
            target.model = fully_shard(model, mp_policy=MixedPrecisionPolicy(torch.bfloat16, torch.float32))
            return None
        target.wrapped = one_unit


@fault("not_resharded", "gathered units kept", "fsdp")
class NotResharded(OfFSDP2):
    """reshard_after_forward=False, which is faster: gathered parameters stay from the forward pass to the backward pass."""

    def inject(self, target, fixed):
        self.heavy(target)

        def keep():
            for unit in self.units(target):
                unit.set_reshard_after_forward(fixed)
                unit.set_reshard_after_backward(fixed)
        after_build(target, keep)


@fault("whole_state_on_the_gpu", "copies for a checkpoint", "fsdp")
class WholeStateOnTheGpu(OfFSDP2):
    """A checkpoint takes the whole state of model and optimizer together on the GPU; the fixed form has it on the host."""

    def inject(self, target, fixed):
        self.heavy(target)
        after_step, when, target.kind = target.after_step, self.rng.randint(1, 2), "adamw_fused"
        target.steps = when + 2

        def save(i, loss):
            from torch.distributed.checkpoint.state_dict import StateDictOptions, get_state_dict
            after_step(i, loss)
            if i == when:
                weights, states = get_state_dict(target.model, target.optimizers, options=StateDictOptions(full_state_dict=True, cpu_offload=fixed))
                whole = mapped([weights, states], lambda t: t.cpu() if fixed else t.clone())  # what one rank gathers may be the shard itself
                target.saved = len(whole[0])
        target.after_step = save


@fault("bank_with_holes", "fragmentation", "steps", without=("trainer", "lightning", "deepspeed", "megatron"))
class BankWithHoles(Fault):
    """A bank of features that takes what is free loses old entries here and there, in whose place nothing larger fits; the fixed form has one tensor with fewer rows.

    Threads about memory that is reserved and not allocated.
    """
    own_limit = True

    def inject(self, target, fixed):
        after_step, share, when, state = target.after_step, self.rng.uniform(0.8, 0.9), self.rng.randint(1, 2), {}
        target.steps, entry = when + 3, self.rng.choice([3, 5, 6]) << 20

        def look(i, loss):
            after_step(i, loss)
            if i == when:
                torch.cuda.empty_cache()
                number = max(12, int(share * min(torch.cuda.mem_get_info()[0], 2 * peak()) / entry))
                if fixed:
                    state["bank"] = torch.empty(max(1, peak() // 4 // entry), entry, dtype=torch.uint8, device=DEVICE)
                else:
                    bank = [torch.empty(entry, dtype=torch.uint8, device=DEVICE) for _ in range(number)]
                    state["bank"] = bank[::3]
                    del bank
                    joined = torch.empty(number * entry // 2, dtype=torch.uint8, device=DEVICE)
                    target.joined = joined.numel()
        target.after_step = look


@fault("corpus_on_the_gpu", "data moved to the GPU", "inference")
class CorpusOnTheGpu(Fault):
    """All that the programme is to read lies on the GPU, in fp32, before the first batch; the fixed form moves part after part."""

    def inject(self, target, fixed):
        share, batch, held, form = self.rng.uniform(0.6, 1.2), target.batch, {}, self.rng.choice(["one", "list"])
        target.steps = min(target.steps, 4)

        def bring():
            amount = max(peak(), 400 << 20)
            held["rows"] = max(16, int(share * amount / (4 * 1024)))
            held["corpus"] = torch.zeros(1, 1024).expand(held["rows"], -1)
            if not fixed:
                held["corpus"] = torch.zeros(held["rows"], 1024, device=DEVICE) if form == "one" else [torch.zeros(max(1, held["rows"] // 16), 1024, device=DEVICE) for _ in range(16)]
        after_build(target, bring)

        def with_features(i):
            made = batch(i)
            part = held["corpus"][i % 16]
            target.read = part.to(DEVICE, non_blocking=True).sum().item()
            return made
        target.batch = with_features


@fault("scores_of_the_teacher", "data moved to the GPU", "loop", "eval", without=("two optimizers", "reference", "fsdp", "deepspeed", "megatron"))
class ScoresOfTheTeacher(Fault):
    """What a teacher says of each batch is computed before the training, for all batches, and stays on the GPU; the fixed form has it on the host."""

    def inject(self, target, fixed):
        share, scores, state, forward, form = self.rng.uniform(0.8, 1.4), [], {"n": 0}, target.loss, self.rng.choice(["list", "dict"])
        train, number = target.train, self.rng.choice([8, 12])

        def say_all():
            with torch.no_grad():
                said = largest_tensor(target.predict(target.batch(0)))
                width = said.shape[-1]
            each = max(2, rows(share / number, width))
            del said
            for k in range(number):
                told = torch.zeros(each, width, device=DEVICE)
                told = told.cpu() if fixed else told
                scores.append(told if form == "list" else {"batch": k, "scores": told})
            return train()

        def with_scores(batch):
            loss = forward(batch)
            if not torch.is_grad_enabled() or not scores:
                return loss
            state["n"] += 1
            wanted = scores[state["n"] % len(scores)]
            wanted = wanted if form == "list" else wanted["scores"]
            return loss + 0.0 * wanted[:2].to(DEVICE).float().mean()
        target.train, target.loss = say_all, with_scores
