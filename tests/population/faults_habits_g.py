"""Faults by habit, as threads about out-of-memory errors tell them: priorities and nodes with a graph, hooks that refer to their tensors, no_grad() of another
thread, line searches, networks of a loss, everything on a default device, weights for actors, states in double, batches that grow, prompts and caches."""
import collections
import copy
import gc
import queue
import threading

import torch
import torch.nn as nn

from amounts import after_build, deep, largest_tensor, light, mapped, peak, rows, side
from core import DEVICE, Fault, fault
from faults_batch import batch_length, repeated
from faults_copies import parameter_bytes
from faults_fields_b import WRAPPED
from faults_graph import KeptLoss
from faults_habits_d import OWN
from faults_habits_f_more import OfGenerate
from faults_optimizer import one_by_one
from faults_temporaries import Term

BY_HAND = "accelerate", "sounds_with_accelerate", "maml", "point_cloud", "table_transformer", "pinn_burgers"  # whose micro-batches are not rows alone


@fault("priorities_with_graph", "graph kept", "loop")
class PrioritiesWithGraph(KeptLoss):
    """What is drawn next depends on how large each example's last loss was: the losses are the priorities, by the example's number, with their graphs.

    Threads about prioritised replay and about hard examples.
    """

    def keeper(self, target, fixed):
        form, table, count = self.rng.choice(["dict", "slots", "ordered"]), {}, [0]
        if form == "slots":
            table = [None] * 512
        elif form == "ordered":
            table = collections.OrderedDict()

        def update(loss):
            found, count[0] = loss.detach() if fixed else loss, count[0] + 1
            table[count[0] % 512] = found.abs().float().reshape(()) + 1e-6
        return update


@fault("nodes_of_graphs", "graph kept", "loop")
class NodesOfGraphs(KeptLoss):
    """A drawing of the graph is made at the end: the node of each step's loss, grad_fn, is in a list, and has all that its backward pass would need."""

    def keeper(self, target, fixed):
        nodes, form = [], self.rng.choice(["node", "edges", "pair"])

        def remember(loss):
            node = (loss * 1.0).grad_fn
            if fixed:
                nodes.append(node.name())
            elif form == "node":
                nodes.append(node)
            elif form == "edges":
                nodes.append(node.next_functions)
            else:
                nodes.append((len(nodes), node.name(), node))
        return remember


@fault("hook_that_refers_to_its_tensor", "cycle of a function", "forward", "loop", without=("trainer", "lightning"))
class HookThatRefersToItsTensor(Fault):
    """A hook on a tensor's gradient uses the tensor: the two refer to each other, and wait for Python's collector, which is off; the fixed form's hook has
    the values, which know nothing of the hook.

    Threads about register_hook() with a lambda.
    """

    def inject(self, target, fixed):
        forward, share, state = target.loss, self.rng.uniform(0.2, 0.4), {}
        target.steps, form = self.rng.randint(5, 8), self.rng.choice(["mask", "scale"])

        def with_hook(batch):
            loss = forward(batch)
            if not torch.is_grad_enabled():
                return loss
            state.setdefault("n", side(share / target.micro_batches))
            seed = torch.zeros(state["n"], 1, device=DEVICE, requires_grad=True)
            x = (seed + torch.zeros(1, state["n"], device=DEVICE)) * 0.5
            seen = x.detach() if fixed else x
            x.register_hook(lambda grad: grad * (seen[:1] > 0) if form == "mask" else grad / (1 + seen[:1].detach().abs().mean()))
            return loss + 1e-6 * x.mean()
        target.loss = with_hook
        gc.disable()


@fault("evaluated_in_a_thread", "evaluation with a graph", "loop", "eval", without=("two optimizers", *WRAPPED))
class EvaluatedInAThread(Fault):
    """no_grad() holds for the thread that says so, and the evaluation runs in another one; what each batch has told is put together at the end."""

    def inject(self, target, fixed):
        after_step, when, batches, form = target.after_step, self.rng.randint(1, 2), self.rng.randint(5, 8), self.rng.choice(["thread", "queue"])
        target.steps = when + 2

        def read(found, made):
            with torch.set_grad_enabled(not fixed):
                for k in range(batches):
                    told = largest_tensor(target.predict(target.batch(k))).float()
                    found.append(told.flatten(1).mean(1) if told.dim() > 1 else told)
            made.put(len(found))

        def guarded(*arguments):
            try:
                read(*arguments)
            except BaseException as e:
                arguments[0][:] = [e]
                arguments[1].put(0)

        def evaluate(i, loss):
            after_step(i, loss)
            if i != when:
                return
            found, made = [], queue.Queue()
            with torch.no_grad():
                worker = threading.Thread(target=guarded, args=(found, made), daemon=form == "queue")
                worker.start()
                made.get()
                worker.join()
                if isinstance(found[0], BaseException):
                    raise found[0]
                target.score = torch.cat(found).mean().item()
        target.after_step = evaluate


@fault("evaluated_at_full_length", "evaluation batch", "loop", "tokens", "eval", without=("two optimizers", "reference", "pretrained", *WRAPPED))
class EvaluatedAtFullLength(Fault):
    """The training has texts that were cut, and the evaluation whole ones, as many at a time; the fixed form takes four at a time."""

    def inject(self, target, fixed):
        batch, predict, share = target.batch, target.predict, self.rng.choice([0.08, 0.1, 0.125])
        target.length, target.size, target.evaluated, target.steps = max(768, target.length), max(32, target.size), 2, 4

        def cut_or_whole(i):
            made = batch(i)
            if torch.is_grad_enabled():
                return mapped(made, lambda t: t[:, :max(16, int(t.shape[1] * share))].contiguous() if t.dim() == 2 else t)
            return made

        def answered(made):
            if torch.is_grad_enabled() or not fixed:
                return predict(made)
            told = [largest_tensor(predict(mapped(made, lambda t: t[k:k + 4]))).float().mean() for k in range(0, batch_length(made), 4)]
            return torch.stack(told)
        target.batch, target.predict = cut_or_whole, answered


@fault("trials_of_a_line_search", "earlier pass with a graph", "loop", without=("two optimizers", "reference", "pretrained", *WRAPPED))
class TrialsOfALineSearch(Fault):
    """After the gradient is known, steps of several lengths are tried, and the losses of all of them compared: numbers would do, and they have graphs."""

    def inject(self, target, fixed):
        optimize, batch, state, lengths = target.optimize, target.batch, {}, self.rng.choice([3, 4, 5])
        form, target.micro_batches = self.rng.choice(["list", "dict"]), 1

        def remembered(i):
            state["batch"] = batch(i)
            return state["batch"]

        def search():
            with torch.set_grad_enabled(not fixed):
                tried = {2.0 ** -k: target.loss(state["batch"]) for k in range(lengths)}
                if form == "list":
                    tried = list(tried.items())
            pairs = tried.items() if form == "dict" else tried
            state["best"] = torch.stack([loss.detach().float().reshape(()) for _, loss in pairs]).min()
            state.pop("batch", None)
            del tried, pairs
            optimize()
        target.batch, target.optimize = remembered, search


@fault("loss_network_not_frozen", "base not frozen", "forward", "loop", without=("two optimizers", "reference", "trainer", "lightning", *WRAPPED))
class LossNetworkNotFrozen(Fault):
    """A network in the loss, which no optimizer has, gets gradients of all its parameters in each step; the fixed form freezes it, and the loss's gradient
    goes through it all the same."""

    def inject(self, target, fixed):
        light(target, self.rng)
        forward, share, held, layers = target.loss, self.rng.uniform(1.0, 1.6), {}, self.rng.choice([4, 6, 8])
        form = self.rng.choice(["linear", "residual"])

        def with_network(batch):
            loss = forward(batch)
            if not torch.is_grad_enabled():
                return loss
            if not held:
                width = max(64, side(share / layers))
                held["layers"] = nn.ModuleList(nn.Linear(width, width) for _ in range(layers)).to(DEVICE).requires_grad_(not fixed)
                held["width"] = width
            x = torch.zeros(4, held["width"], device=DEVICE, requires_grad=True)
            for layer in held["layers"]:
                x = x + layer(x).relu() if form == "residual" else layer(x).tanh()
            return loss + 0.01 * x.square().mean()
        target.loss = with_network


@fault("default_device_for_everything", "data moved to the GPU", "loop", without=("deepspeed", "megatron"))
class DefaultDeviceForEverything(Fault):
    """torch.set_default_device("cuda") was meant for the model, and the examples are made on the GPU, too, one by one; the fixed form makes them on the host,
    and moves a batch of them."""

    def inject(self, target, fixed):
        train, step, share, state = target.train, target.step, self.rng.uniform(0.9, 1.5), {}
        number, form = self.rng.choice([48, 96, 160]), self.rng.choice(["list", "pairs"])

        def make(width):
            features, label = torch.zeros(width), torch.zeros(1, dtype=torch.long)
            return features if form == "list" else (features, label)

        def train_on_examples():
            step(0)
            width = max(1024, int(share * peak() / 4 / number))
            with torch.device("cpu" if fixed else DEVICE):
                state["examples"] = [make(width) for _ in range(1 if fixed else number)] * (number if fixed else 1)
            return train()

        def with_examples(i):
            done = step(i)
            if "examples" in state:
                one = state["examples"][i % number]
                target.seen = (one if form == "list" else one[0]).to(DEVICE).mean().item()
            return done
        target.train, target.step = train_on_examples, with_examples


@fault("weights_for_actors", "copies of the model kept", "loop", without=("two optimizers", "pretrained", *WRAPPED))
class WeightsForActors(Fault):
    """After each step the newest weights go into a queue, for actors that fetch them far more seldom; the fixed form's queue has room for one.

    Threads about IMPALA and about servers of parameters.
    """

    def inject(self, target, fixed):
        light(target, self.rng)
        after_step, share, form = target.after_step, self.rng.uniform(0.6, 1.2), self.rng.choice(["queue", "deque", "actors"])
        target.steps, state, mail = self.rng.randint(6, 10), {}, collections.deque(maxlen=1) if fixed else collections.deque()
        boxes = [queue.Queue() for _ in range(2)]

        def weights():
            return {name: p.detach().to("cpu" if fixed else DEVICE, copy=True) for name, p in target.model.named_parameters()}

        def send(i, loss):
            after_step(i, loss)
            state.setdefault("each", max(1, min(12, round(share * peak() / parameter_bytes(target) / (target.steps - 1)))))
            for k in range(state["each"]):
                if fixed or form == "deque":
                    mail.append(weights())
                else:
                    boxes[k % 2 if form == "actors" else 0].put((i, weights()))
        target.after_step = send


@fault("gradients_of_the_last_step", "gradients kept", "loop", "layers", "tokens", without=OWN)
class GradientsOfTheLastStep(Fault):
    """How much the gradients of two steps agree: those of the last one stay, all of them, and are compared with those of now; the fixed form has some numbers
    of each."""

    def inject(self, target, fixed):
        deep(target, self.rng)
        optimize, last, form = target.optimize, {}, self.rng.choice(["dict", "vector"])
        target.kind, target.micro_batches = self.rng.choice(["sgd", "sgd_momentum"]), 1

        @torch.no_grad()
        def compared():
            now = {name: p.grad[..., :8].cpu() if fixed else p.grad.clone() for name, p in target.model.named_parameters() if p.grad is not None}
            if form == "vector" and not fixed:
                now = {"all": torch.cat([g.flatten() for g in now.values()])}
            if last:
                target.agree = float(sum((last[name].float().flatten()[:64] * g.float().flatten()[:64]).sum() for name, g in now.items()))
            last.update(now)
            del now
            optimize()
        target.optimize = compared
        after_build(target, lambda: one_by_one(target))


class OwnAdam(torch.optim.Optimizer):
    """Adam as its paper has it, with averages in a type that is given."""

    def __init__(self, parameters, dtype):
        super().__init__(parameters, {"lr": 1e-4, "betas": (0.9, 0.999)})
        self.dtype, self.t = dtype, 0

    @torch.no_grad()
    def step(self):
        self.t += 1
        for group in self.param_groups:
            one, two = group["betas"]
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["mean"], state["square"] = (torch.zeros_like(p, dtype=self.dtype) for _ in range(2))
                state["mean"].mul_(one).add_(p.grad, alpha=1 - one)
                state["square"].mul_(two).addcmul_(p.grad, p.grad, value=1 - two)
                change = state["square"].to(p.dtype).div_(1 - two ** self.t).sqrt_().add_(1e-8).reciprocal_().mul_(state["mean"].to(p.dtype))
                p.add_(change, alpha=-group["lr"] / (1 - one ** self.t))


@fault("states_in_double", "states in double", "loop", "layers", "tokens", without=OWN)
class StatesInDouble(Fault):
    """An optimizer of one's own keeps its averages in float64, since sums of small numbers lose digits; the fixed form has them in the parameters' type."""

    def inject(self, target, fixed):
        deep(target, self.rng)

        def choose():
            parameters = [p for p in target.model.parameters() if p.requires_grad]
            target.optimizers = [OwnAdam(parameters, parameters[0].dtype if fixed else torch.float64)]
        after_build(target, choose)


@fault("batch_grows_with_time", "larger batch", "loop", without=("two optimizers", "reference", "crop", *WRAPPED))
class BatchGrowsWithTime(Fault):
    """Batches become larger as the training goes on, instead of a smaller learning rate; the fixed form has more micro-batches instead."""

    def fits(self, target):
        return super().fits(target) and target.name not in BY_HAND and bool(target.traits & {"tokens", "images", "dataset"})

    def inject(self, target, fixed):
        batch, step, every, factor, state = target.batch, target.step, self.rng.choice([1, 2]), self.rng.choice([2, 3]), {"times": 1}
        target.steps, target.micro_batches = self.rng.randint(2, 3) * every + 1, 1

        def stepped(i):
            state["times"] = min(4, factor ** (i // every))
            if fixed:
                target.micro_batches = state["times"]
            return step(i)

        def of_now(i):
            made = batch(i)
            return made if fixed or state["times"] == 1 else repeated(made, state["times"])
        target.step, target.batch = stepped, of_now


@fault("lightning_batch", "batch too large", "lightning")
class LightningBatch(Fault):
    """The loader's batch is as large as the recipe's, which was for many GPUs; the fixed form has accumulate_grad_batches."""

    def fits(self, target):
        return super().fits(target) and isinstance(getattr(target, "size", None), int)

    def inject(self, target, fixed):
        times = self.rng.choice([3, 4, 6])
        target.steps = self.rng.randint(2, 4)
        if fixed:
            target.trainer_arguments["accumulate_grad_batches"] = target.trainer_arguments.get("accumulate_grad_batches", 1) * times
        else:
            target.size *= times


@fault("prompts_padded_to_the_longest", "KV cache", "generate")
class PromptsPaddedToTheLongest(OfGenerate):
    """One prompt of each batch is long, and the others are padded to it; the fixed form sorts them, and takes the few long ones apart."""

    def inject(self, target, fixed):
        predict, ratio = target.predict, self.rng.choice([6, 8, 12])
        target.prompt, target.size, target.new_tokens = self.rng.choice([1024, 1536]), self.rng.choice([48, 64, 96]), 6
        target.steps, target.layers = self.rng.randint(1, 2), max(3, target.layers)

        def answered(prompts):
            if not fixed:
                return predict(prompts)
            short = [predict(part) for part in prompts[1:, -(target.prompt // ratio):].split(16)]
            long = predict(prompts[:1])
            width = max(t.shape[1] for t in (long, *short))
            return torch.cat([nn.functional.pad(t, (width - t.shape[1], 0)) for t in (long, *short)])
        target.predict = answered


@fault("cache_for_each_branch", "cache for each branch", "generate")
class CacheForEachBranch(OfGenerate):
    """A tree of answers: the prompt's keys and values are copied for each branch, and all branches are there until the best one is known; the fixed form
    follows one branch after the other.

    Threads about copy.deepcopy(past_key_values).
    """

    def inject(self, target, fixed):
        branches, form = self.rng.choice([5, 6, 8]), self.rng.choice(["list", "dict"])
        target.steps, target.prompt, target.size = self.rng.randint(1, 2), self.rng.choice([768, 1024]), self.rng.choice([8, 16])
        target.layers, target.kv_heads = max(3, target.layers), 8

        def follow(cache, prompts, k):
            now, told = prompts[:, -1:] + k, []
            for _ in range(3):
                out = target.model(input_ids=now, past_key_values=cache, use_cache=True)
                now = out.logits[:, -1:].argmax(-1)
                told.append(now)
            return torch.cat(told, dim=1)

        def explored(prompts):
            start = target.model(input_ids=prompts, use_cache=True, logits_to_keep=1).past_key_values
            if fixed:
                told = [follow(copy.deepcopy(start), prompts, k) for k in range(branches)]
            else:
                tree = {k: {"cache": copy.deepcopy(start), "told": None} for k in range(branches)}
                nodes = list(tree.values()) if form == "list" else tree
                for k in range(branches):
                    nodes[k]["told"] = follow(nodes[k]["cache"], prompts, k)
                told = [nodes[k]["told"] for k in range(branches)]
            return torch.cat([prompts, told[-1]], dim=1)
        target.predict = explored


@fault("book_read_with_a_cache", "cache of a whole text", "generate")
class BookReadWithACache(OfGenerate):
    """A long text goes through the model piece by piece, and the cache has the keys and values of all pieces; the fixed form has those of the last piece.

    Threads about past_key_values that grow, and about streaming.
    """

    def inject(self, target, fixed):
        piece, pieces, form = self.rng.choice([256, 384]), self.rng.choice([12, 16]), self.rng.choice(["loop", "attribute"])
        target.steps, target.size, target.layers, target.kv_heads = self.rng.randint(1, 2), self.rng.choice([16, 24, 32]), max(3, target.layers), 8
        target.prompt = piece

        def read(prompts):
            cache = None
            for _ in range(pieces):
                out = target.model(input_ids=prompts, past_key_values=None if fixed else cache, use_cache=True, logits_to_keep=1)
                cache = out.past_key_values
                if form == "attribute":
                    target.read = cache
                del out
            told = target.model(input_ids=prompts[:, -1:], past_key_values=cache, use_cache=True).logits.argmax(-1)
            target.read = None
            return torch.cat([prompts, told[:, -1:]], dim=1)
        target.predict = read


@fault("rewards_with_graph", "reference with a graph", "forward", without=("two optimizers", "reference", *WRAPPED))
class RewardsWithGraph(Term):
    """Several models score what was made, and their scores, which weigh the loss, are detached at the end: until then each one has its graph."""
    shares = 1.2, 2.0

    def prepare(self):
        self.number, self.depth, self.form = self.rng.choice([2, 3]), self.rng.choice([3, 4]), self.rng.choice(["list", "dict"])

    def measure(self):
        self.judges = nn.ModuleList(nn.Sequential(*[m for _ in range(self.depth) for m in (nn.Linear(256, 256), nn.GELU())], nn.Linear(256, 1))
                                    for _ in range(self.number)).to(DEVICE).eval()
        return max(256, rows(self.share / (2 * self.number * self.depth), 256))

    def term(self, fixed):
        made, likely = torch.zeros(self.sizes, 256, device=DEVICE), self.features(self.sizes)
        with torch.set_grad_enabled(not fixed):
            scores = {k: judge(made).squeeze(-1) for k, judge in enumerate(self.judges)}
            scores = list(scores.values()) if self.form == "list" else scores
        reward = sum(scores[k] / self.number for k in range(self.number)).detach()
        return -((reward - reward.mean()) * likely).mean()
