"""Faults by habit, as threads about out-of-memory errors tell them: what earlier folds leave, copies in cycles, inputs on modules, rollouts, buckets,
whole tables, full precision, range tests, importance by task, stacked momenta, dropout's samples, clients."""
import contextlib
import copy
import gc

import torch
from torch.nn.parallel import DistributedDataParallel

from amounts import deep, light
from core import DEVICE, Fault, fault
from faults_fields_b import WRAPPED


@fault("earlier_folds_kept", "earlier runs kept", "loop", without=("two optimizers", "peft", *WRAPPED))
class EarlierFoldsKept(Fault):
    """A new model and a new optimizer for each fold, while results or a scheduler have those of the folds before.

    Threads of transformers about hyperparameter_search, of optuna and of others: the trainer of each trial has its model until it is deleted.
    """

    def inject(self, target, fixed):
        light(target, self.rng)
        each, step, form, runs = self.rng.choice([1, 2]), target.step, self.rng.choice(["results", "schedulers", "models"]), []
        target.steps, target.evaluated = each * self.rng.randint(3, 4), 0

        def remember():
            if form == "schedulers":
                runs.append([torch.optim.lr_scheduler.LambdaLR(o, lambda _: 1.0) for o in target.optimizers])
            else:
                runs.append({"model": target.model, "optimizer": target.optimizers if form == "results" else None, "score": 0.0})

        def step_of_fold(i):
            if i and i % each == 0:
                if not fixed:
                    remember()
                target.model, target.optimizers = None, []
                target.build()
            return step(i)
        target.step = step_of_fold


@fault("copies_in_cycles", "copies in cycles", "loop", without=("two optimizers", "pretrained", *WRAPPED))
class CopiesInCycles(Fault):
    """A copy of the model is made for each checkpoint; it refers to itself, and Python's collector is off, as some loops have it for speed.

    A thread of ema-pytorch about deepcopy() in its checkpoints, and one of PyTorch about hooks that refer to their module.
    """

    def inject(self, target, fixed):
        light(target, self.rng)
        after_step, form = target.after_step, self.rng.choice(["hook", "attribute"])
        target.steps = self.rng.randint(5, 7)

        def save(i, loss):
            after_step(i, loss)
            if i == 0:
                gc.disable()
            if fixed:
                target.saved = {name: p.detach().to("cpu") for name, p in target.model.state_dict().items()}.keys()
                return
            shadow = copy.deepcopy(target.model)
            if form == "hook":
                shadow.register_forward_hook(lambda module, inputs, output: shadow.training)
            else:
                shadow.__dict__["owner"] = [shadow]
            target.saved = {name: p.detach().to("cpu") for name, p in shadow.state_dict().items()}.keys()
        target.after_step = save


@fault("inputs_on_modules", "activations on modules", "loop", "eval", without=("two optimizers", *WRAPPED))
class InputsOnModules(Fault):
    """An analysis leaves the input and the output of each layer on the layer; they stay until the next analysis.

    A thread of tangermeme about deep_lift_shap, and one of zennit about its composites: hooks were removed, and not what they had stored.
    """

    def inject(self, target, fixed):
        after_step, when, passes = target.after_step, self.rng.randint(0, 1), self.rng.choice([2, 3, 4])
        target.steps = when + 3

        def store(name):
            def hook(module, inputs, output):
                kept = module.__dict__.setdefault(name, [])
                kept.append([t.detach().clone() for t in (*inputs, output) if torch.is_tensor(t)])
            return hook

        def analyse(i, loss):
            after_step(i, loss)
            if i != when:
                return
            layers = [m for m in target.model.modules() if not any(True for _ in m.children())]
            handles = [m.register_forward_hook(store("_seen")) for m in layers]
            with torch.no_grad():
                for k in range(1 if fixed else passes):
                    target.predict(target.batch(k))
                    if fixed:
                        for m in layers:
                            m.__dict__.pop("_seen", None)
            for handle in handles:
                handle.remove()
        target.after_step = analyse


@fault("rollouts_with_graph", "earlier pass with a graph", "loop", without=("two optimizers", *WRAPPED))
class RolloutsWithGraph(Fault):
    """A buffer gets the log-probabilities of what was done, with their graphs; the update computes them anew.

    A thread of pymarl about its EpisodeRunner, and threads of the actor-critic example: what goes into a buffer is to be detached.
    """

    def inject(self, target, fixed):
        moves, step, buffer = self.rng.choice([3, 4, 6]), target.step, []
        form, target.steps = self.rng.choice(["list", "dict"]), self.rng.randint(3, 5)

        def play(i):
            buffer.clear()
            for k in range(moves):
                value = target.loss(target.batch(i * moves + k))
                told = value.detach() if fixed else value
                buffer.append(told if form == "list" else {"log_prob": told, "reward": 0.0})
                del value

        def step_after_play(i):
            with torch.no_grad() if fixed else contextlib.nullcontext():
                play(i)
            return step(i)
        target.step = step_after_play


@fault("gradient_buckets", "gradient buckets", "ddp")
class GradientBuckets(Fault):
    """DistributedDataParallel has buckets beside the gradients; with gradient_as_bucket_view=True gradients are views of them.

    PyTorch's pull request that made the option, and threads that ask for it.
    """

    def inject(self, target, fixed):
        deep(target, self.rng)
        target.kind, target.clip = self.rng.choice(["adam", "adamw_fused"]), 0

        def wrapped(net):
            target.model = DistributedDataParallel(net, device_ids=[0], gradient_as_bucket_view=fixed)
        target.wrapped = wrapped


@fault("whole_tables_trained", "whole tables trained", "peft", "decoder")
class WholeTablesTrained(Fault):
    """For a few new tokens, modules_to_save has the embedding and the head, copies of which are trained; the fixed form trains adapters alone.

    Threads of PEFT that led to trainable_token_indices.
    """

    def fits(self, target):
        return super().fits(target) and target.name == "lora"

    def inject(self, target, fixed):
        light(target, self.rng)
        target.vocabulary, target.layers = self.rng.choice([32000, 64000, 128000]), min(target.layers, 4)
        if target.lora.get("target_modules") == "all-linear":
            target.lora = {**target.lora, "target_modules": ["q_proj", "v_proj"]}
        if fixed:
            return
        target.lora = {**target.lora, "modules_to_save": ["embed_tokens", "lm_head"]}

        def freeze():
            for name, p in target.model.named_parameters():
                p.requires_grad = "lora_" in name or "modules_to_save" in name
        target.freeze = freeze


@fault("loaded_in_full_precision", "weights in full precision", "inference", "layers")
class LoadedInFullPrecision(Fault):
    """Weights are loaded in 32 bits, because nobody has said otherwise, or are moved to the GPU before they are made 16 bits.

    Threads of transformers about from_pretrained() without a dtype.
    """

    def inject(self, target, fixed):
        light(target, self.rng)
        target.layers *= self.rng.choice([3, 4])
        form, build = self.rng.choice(["never", "later"]), target.build
        if "generate" in target.traits:
            target.prompt = 32
        target.dtype = torch.bfloat16 if fixed else torch.float32
        if form == "later" and not fixed:
            def build_and_halve():
                build()
                target.model.to(torch.bfloat16)
                target.dtype = torch.bfloat16
            target.build = build_and_halve


@fault("range_test_copies", "copies of the model kept", "loop", "states", without=("two optimizers", "pretrained", *WRAPPED))
class RangeTestCopies(Fault):
    """A test of learning rates copies the states of the model and the optimizer on the GPU, to go back to them, and has them ever after.

    The pull requests of torch-lr-finder and of MONAI about where their finder caches the states: in memory, or in a file.
    """

    def inject(self, target, fixed):
        light(target, self.rng)
        train, tested, cache = target.train, self.rng.choice([1, 2]), {}

        def kept(state):
            if torch.is_tensor(state):
                return state.detach().cpu() if fixed else state.detach().clone()
            if isinstance(state, dict):
                return {k: kept(v) for k, v in state.items()}
            return [kept(v) for v in state] if isinstance(state, (list, tuple)) else state

        def range_test():
            for i in range(tested):
                target.step(i)
            cache["model"] = kept(target.model.state_dict())
            cache["optimizer"] = [kept(o.state_dict()["state"]) for o in target.optimizers]
            target.model.load_state_dict(cache["model"])
            train()
        target.train = range_test


@fault("importance_by_task", "copies of the model kept", "loop", without=("two optimizers", "pretrained", *WRAPPED))
class ImportanceByTask(Fault):
    """Learning task after task: the weights after each one, and how important each weight was, stay on the GPU; the fixed form has them on the host.

    A thread of OWM and others about methods against forgetting, whose memory grows with the number of tasks.
    """

    def inject(self, target, fixed):
        light(target, self.rng)
        after_step, each, tasks = target.after_step, self.rng.choice([1, 2]), []
        target.steps, where = each * self.rng.randint(4, 5), "cpu" if fixed else DEVICE

        def close_task(i, loss):
            after_step(i, loss)
            if i % each == each - 1:
                with torch.no_grad():
                    means = {n: p.detach().to(where, copy=True) for n, p in target.model.named_parameters() if p.requires_grad}
                    fisher = {n: p.grad.detach().square().to(where) for n, p in target.model.named_parameters() if p.grad is not None}
                tasks.append((means, fisher))
        target.after_step = close_task


class Stacked(torch.optim.Optimizer):
    """Momentum that is made orthogonal, either one matrix after the other or all of a shape in one stack."""

    def __init__(self, parameters, stacked):
        super().__init__(list(parameters), {"lr": 1e-3})
        self.stacked = stacked

    @staticmethod
    def orthogonal(x):
        x = x / (x.norm(dim=(-2, -1), keepdim=True) + 1e-7)
        for _ in range(5):
            a = x @ x.mT
            x = 3.4445 * x + (-4.775 * a + 2.0315 * a @ a) @ x
        return x

    @torch.no_grad()
    def step(self, closure=None):
        shapes = {}
        for p in (p for group in self.param_groups for p in group["params"] if p.grad is not None):
            state = self.state[p]
            if not state:
                state["momentum"] = torch.zeros_like(p)
            state["momentum"].mul_(0.95).add_(p.grad)
            if p.dim() == 2:
                shapes.setdefault((p.shape, p.dtype) if self.stacked else p, []).append(p)
            else:
                p.sub_(state["momentum"], alpha=1e-3)
        for same in shapes.values():
            moves = self.orthogonal(torch.stack([self.state[p]["momentum"] for p in same]))
            for p, move in zip(same, moves):
                p.sub_(move, alpha=1e-3)


@fault("stacked_momenta", "optimizer temporaries", "loop", "layers", "tokens", without=("two optimizers", "pretrained", *WRAPPED))
class StackedMomenta(Fault):
    """An optimizer stacks the momenta of all matrices of a shape, and iterates on the stack; the fixed form takes matrix after matrix.

    As it is told of Muon's batched forms, which trade memory for speed.
    """

    def inject(self, target, fixed):
        deep(target, self.rng)
        target.clip, target.micro_batches = 0, 1
        target.optimizer = lambda parameters: Stacked([p for p in parameters if p.requires_grad], not fixed)


@fault("dropout_samples_with_graph", "evaluation with a graph", "loop", "eval", without=("two optimizers", *WRAPPED))
class DropoutSamplesWithGraph(Fault):
    """Dropout stays on for samples of a prediction, train() instead of eval(), and no_grad() went with it.

    Threads about Monte Carlo dropout that ask how to keep dropout on, where the answer is to keep no_grad() too.
    """

    def inject(self, target, fixed):
        after_step, samples, when = target.after_step, self.rng.choice([4, 6, 8]), self.rng.randint(1, 2)
        target.steps, form = when + 2, self.rng.choice(["stack", "sum"])

        def uncertain(i, loss):
            after_step(i, loss)
            if i != when:
                return
            target.model.train()
            with torch.no_grad() if fixed else contextlib.nullcontext():
                if form == "stack":
                    spread = torch.stack([target.predict(target.batch(0)).float().mean() for _ in range(samples)]).std()
                else:
                    spread = sum(target.predict(target.batch(0)).float().mean() for _ in range(samples))
            target.spread = spread.item()
        target.after_step = uncertain


@fault("clients_on_device", "clients on the GPU", "loop", "states", without=("two optimizers", "pretrained", *WRAPPED))
class ClientsOnDevice(Fault):
    """Every client of a federation has its model and its optimizer on the GPU for all rounds; the fixed form has one of each, and weights on the host.

    Threads of FedIRM and of Flower: ten models are copied to the GPU, one for each simulated client.
    """

    def inject(self, target, fixed):
        light(target, self.rng)
        number, step, clients = self.rng.choice([3, 4]), target.step, []
        target.steps = number + self.rng.randint(1, 3)

        def take_turn(i):
            if fixed:
                state = {n: p.detach().cpu() for n, p in target.model.state_dict().items()}
                target.model.load_state_dict(state)
                return
            if len(clients) < number:
                clients.append((target.model, target.optimizers))
                target.model = copy.deepcopy(target.model)
                target.optimizers = [target.optimizer(target.model.parameters())]
            else:
                target.model, target.optimizers = clients[i % number]

        def step_of_client(i):
            take_turn(i)
            return step(i)
        target.step = step_of_client
