"""Mistakes with graphs and results: hard batches, a schedule that looks at a validation, ranges of outputs, tables of a tracker, threads, prefixes, streams."""
import concurrent.futures
import contextlib
import copy
import heapq

import torch
import torch.nn.functional as F
from transformers.trainer_utils import IntervalStrategy

from amounts import after_build, largest_tensor, with_output
from core import DEVICE, Fault, fault
from faults_common_r import WRAPPED, at_most, usual

ALONE = (*WRAPPED, "two optimizers", "pretrained", "peft", "reference")


class HardBatches:
    """The batches with the largest losses, to look at them after the training."""

    def __init__(self, count):
        self.count, self.heap = count, []

    def offer(self, number, loss):
        heapq.heappush(self.heap, (float(loss), number, loss))
        if len(self.heap) > self.count:
            heapq.heappop(self.heap)


class Table:
    """A table of an experiment tracker: rows are added one by one, and sent as a whole."""

    def __init__(self, *columns):
        self.columns, self.data, self.sent = columns, [], 0

    def add_data(self, *values):
        self.data.append(dict(zip(self.columns, values)))

    def log(self):
        self.sent += len(self.data)
        self.data = []


class Ranges:
    """An observer for quantization: the smallest and the largest number of each channel."""

    def __init__(self):
        self.low = self.high = None

    def observe(self, outputs):
        rows = outputs.float().reshape(-1, outputs.shape[-1])
        low, high = rows.amin(0), rows.amax(0)
        self.low = low if self.low is None else torch.minimum(self.low, low)
        self.high = high if self.high is None else torch.maximum(self.high, high)

    def scale(self):
        return float((self.high - self.low).max() / 255)


class Streams:
    """Answers that are sent word by word; each has its state here, until its client closes it."""

    def __init__(self):
        self.open, self.last = {}, 0

    def start(self):
        self.last += 1
        self.open[self.last] = {"sent": 0}
        return self.last

    def went_on(self, cache):
        self.open[self.last]["cache"] = cache
        self.open[self.last]["sent"] += 1

    def close(self, number):
        self.open.pop(number, None)


def each_time(target, often, do):
    """Calls do(how many steps there were) after each of so many steps."""
    before = target.after_step

    def followed(i, loss):
        before(i, loss)
        if not (i + 1) % often:
            do(i + 1)
    target.after_step = followed


@fault("v_hard_batches", "graph kept", "loop", without=ALONE)
class HardBatchesKept(Fault):
    """A heap of the batches with the largest losses, each with the loss itself; the gradient of the last layer is logged, and thus retain_graph is there."""

    def inject(self, target, fixed):
        hard, logged, target.steps = HardBatches(self.rng.choice([5, 10, 20])), [], self.rng.randint(4, 6)
        twice = self.rng.random() < 0.5
        usual(target)

        def backward(loss):
            last = [p for p in target.model.parameters() if p.requires_grad][-1]
            if twice:
                gradient, = torch.autograd.grad(loss, [last], retain_graph=True, allow_unused=True)
                logged.append(0.0 if gradient is None else gradient.norm().item())
            loss.backward(retain_graph=not fixed)
            if not twice:
                logged.append(0.0 if last.grad is None else last.grad.norm().item())
            hard.offer(len(logged), loss.item() if fixed else loss)
        target.hard, target.backward = hard, backward


@fault("v_plateau", "validation with a graph", "loop", without=ALONE)
class Plateau(Fault):
    """scheduler.step(val_loss) of ReduceLROnPlateau: the losses of several held-out sets are summed, set by set, and nobody wrote no_grad()."""

    def inject(self, target, fixed):
        sets, batches, often = self.rng.choice([2, 3]), self.rng.choice([2, 3]), self.rng.choice([1, 2])
        form, schedulers = self.rng.choice(["dict", "zeros"]), []
        usual(target)

        def held_out():
            totals = {name: 0.0 for name in range(sets)} if form == "dict" else None
            total = torch.zeros((), device=DEVICE)
            for name in range(sets):
                for k in range(batches):
                    loss = target.loss(target.batch(name * batches + k))
                    if totals is None:
                        total = total + loss.float()
                    else:
                        totals[name] += loss.float()
            return sum(totals.values()) / (sets * batches) if totals else total / (sets * batches)

        def validate(steps):
            target.model.eval()
            with torch.no_grad() if fixed else contextlib.nullcontext():
                val_loss = held_out()
            target.model.train()
            for scheduler in schedulers:
                scheduler.step(val_loss.item())
        after_build(target, lambda: schedulers.extend(torch.optim.lr_scheduler.ReduceLROnPlateau(o, patience=8) for o in target.optimizers))
        each_time(target, often, validate)


@fault("v_ranges_of_outputs", "evaluation with a graph", "loop", "eval", without=ALONE)
class RangesOfOutputs(Fault):
    """The ranges of all outputs are watched, to quantize the model afterwards: minima and maxima of batch after batch, of passes that are recorded."""

    def inject(self, target, fixed):
        batches, often = self.rng.randint(5, 7), self.rng.choice([1, 2])
        usual(target)

        def calibrate(steps):
            ranges = Ranges()
            target.model.eval()
            with torch.no_grad() if fixed else contextlib.nullcontext():
                for k in range(batches):
                    ranges.observe(target.predict(target.batch(k)))
            target.model.train()
            target.scale = ranges.scale()
        each_time(target, often, calibrate)


@fault("v_table_of_a_tracker", "results kept on the GPU", "loop", "eval", "decoder", without=WRAPPED)
class TableOfATracker(Fault):
    """table.add_data(number, scores, best) for each batch of an evaluation, under no_grad(); the table goes to the tracker when the last batch is in it."""

    def inject(self, target, fixed):
        batches, often, shown = self.rng.randint(16, 22), self.rng.choice([1, 2, 3]), self.rng.choice([3, 5])
        form = self.rng.choice(["logits", "probabilities"])
        at_most(target, size=4, length=256)
        target.vocabulary = self.rng.choice([32000, 50304])

        @torch.no_grad()
        def evaluate(steps):
            table = Table("number", "scores", "best")
            target.model.eval()
            for k in range(batches):
                scores = target.predict(target.batch(k))
                if form == "probabilities":
                    scores = scores.softmax(-1)
                best = scores.argmax(-1).cpu()
                table.add_data(k, scores.topk(shown, dim=-1).values.cpu() if fixed else scores, best)
            target.model.train()
            table.log()
        each_time(target, often, evaluate)


@fault("v_teacher_loaded_without", "teacher not frozen", "loop", "eval", without=ALONE)
class TeacherLoadedWithout(Fault):
    """with torch.no_grad(): teacher = load(); it is the calls that should be there: the teacher's parameters require gradients, and its passes are recorded."""

    def inject(self, target, fixed):
        weight, form, teachers = self.rng.choice([0.5, 0.9]), self.rng.choice(["cosine", "margins"]), []
        at_most(target, size=8, length=512, vocabulary=16000)
        if "checkpointing" in target.traits:
            target.checkpointing = False

        def load():
            with torch.no_grad():
                teachers.append(copy.deepcopy(target.model).eval())
            for part in teachers[0].modules():
                if isinstance(part, torch.nn.RNNBase):
                    part.train()  # cuDNN has no backward pass for it otherwise

        def of_teacher(batch):
            student, target.model = target.model, teachers[0]
            try:
                return target.predict(batch).float()
            finally:
                target.model = student

        def taught(batch):
            own = target.predict(batch).float()
            if fixed:
                with torch.no_grad():
                    wanted = of_teacher(batch)
            else:
                wanted = of_teacher(batch)
            if form == "cosine":
                return weight * (1 - F.cosine_similarity(own, wanted, dim=-1).mean())
            return weight * F.smooth_l1_loss(own - own.mean(-1, keepdim=True), wanted - wanted.mean(-1, keepdim=True))
        after_build(target, load)
        target.loss = taught


@fault("v_prefix_of_nothing", "base not frozen", "loop", without=ALONE)
class PrefixOfNothing(Fault):
    """if name.startswith("backbone."): p.requires_grad = False; the names begin otherwise, so that nothing is frozen, and the optimizer has the head alone."""

    def inject(self, target, fixed):
        count, kind = self.rng.choice([2, 4, 6]), self.rng.choice([torch.optim.Adam, torch.optim.AdamW, torch.optim.SGD])
        prefixes = self.rng.choice([("backbone.",), ("module.encoder.", "module.embed"), ("net.features.",)])

        def freeze():
            names = [name for name, p in target.model.named_parameters() if p.requires_grad]
            head = names[-count:]
            wanted = tuple(name for name in names if name not in head) if fixed else prefixes
            for name, p in target.model.named_parameters():
                if name.startswith(wanted) and name not in head:
                    p.requires_grad = False
            target.optimizers = [kind([p for name, p in target.model.named_parameters() if name in head], lr=2e-4)]
        after_build(target, freeze)


@fault("v_no_grad_of_another_thread", "inference with a graph", "inference", without=("generate",))
class NoGradOfAnotherThread(Fault):
    """with torch.no_grad(): pool.submit(predict, batch); whether operations are recorded is a matter of each thread, and those of the pool do record."""

    def inject(self, target, fixed):
        predict, take, off = target.predict, target.take, self.rng.choice([torch.no_grad, torch.inference_mode])
        at_most(target, size=48)

        def work(batch):
            with off() if fixed else contextlib.nullcontext():
                return predict(batch)

        def submitted(batch):
            with concurrent.futures.ThreadPoolExecutor(max_workers=1) as pool:
                return pool.submit(work, batch).result()
        target.predict = submitted
        target.take = lambda i, outputs: take(i, outputs.detach() if torch.is_tensor(outputs) else outputs)


@fault("v_index_of_vectors", "features with a graph", "inference", without=("generate", "decoder"))
class IndexOfVectors(Fault):
    """An index for a search has the vector of each document, normalized and moved to the host; each of them has its graph on the GPU."""

    def inject(self, target, fixed):
        width, form, target.steps = self.rng.choice([64, 256]), self.rng.choice(["host", "half"]), self.rng.randint(5, 8)
        at_most(target, size=16 if "images" in target.traits else 48)
        target.index = {}
        if not fixed:
            target.no_grad = contextlib.nullcontext

        def take(i, outputs):
            vectors = largest_tensor(outputs)
            vectors = F.normalize(vectors.reshape(len(vectors), -1)[:, :width].float(), dim=-1)
            vectors = vectors.half().cpu() if form == "half" else vectors.cpu()
            target.index.update({"document %d-%d" % (i, n): vector for n, vector in enumerate(vectors)})
        target.take = take


@fault("v_several_eval_sets", "logits of an evaluation", "trainer", "decoder", without=("forward",))
class SeveralEvalSets(Fault):
    """eval_dataset={"news": ..., "code": ...} of a trainer with compute_metrics, for a language model: the logits of each set wait on the GPU until its end."""

    def fits(self, target):
        return super().fits(target) and target.name not in ("classifier_with_trainer", "trl_reward", "trl_dpo")  # their results have few numbers

    def inject(self, target, fixed):
        names, batches = self.rng.sample(["news", "code", "law", "talk"], 2), [self.rng.randint(6, 10), self.rng.randint(18, 24)]
        when, form = self.rng.choice([1, 2, 3]), self.rng.choice(["best", "to the host"])
        self.rng.shuffle(batches)
        at_most(target, size=2, length=256, vocabulary=50304, layers=4)

        def several():
            trainer = target.trainer
            rows = len(trainer.train_dataset)
            trainer.args.eval_strategy, trainer.args.eval_steps = IntervalStrategy.STEPS, when
            trainer.eval_dataset = {name: torch.utils.data.Subset(trainer.train_dataset, range(min(rows, n * target.size))) for name, n in zip(names, batches)}
            trainer.compute_metrics = lambda prediction: {"rows": float(len(prediction.predictions))}
            if fixed and form == "best":
                trainer.preprocess_logits_for_metrics = lambda logits, labels: largest_tensor(logits).argmax(-1)
            elif fixed:
                trainer.args.eval_accumulation_steps = 1
        after_build(target, several)


@fault("v_rows_of_short_prompts", "KV cache", "generate")
class RowsOfShortPrompts(Fault):
    """How many prompts there are in a call was tried out with questions of one line; now each has a document in front. Fixed: tokens are counted, not rows."""

    def fits(self, target):
        return super().fits(target) and target.name != "speech_on_request"  # whose prompt is sound, of one length

    def inject(self, target, fixed):
        rows, short, predict = self.rng.choice([40, 48, 64]), self.rng.choice([64, 96, 128]), target.predict
        target.size, target.prompt = rows, self.rng.choice([768, 896, 1024])
        at_most(target, new_tokens=6, steps=2)

        def answer(prompts):
            at_once = max(1, rows * short // prompts.shape[1]) if fixed else rows
            return torch.cat([predict(prompts[start:start + at_once]) for start in range(0, len(prompts), at_once)])
        target.predict = answer


@fault("v_streams_left_open", "caches of finished requests", "generate")
class StreamsLeftOpen(Fault):
    """A service keeps the keys and values of each answer that it sends word by word; close() is there, and nothing calls it when an answer is through."""

    def inject(self, target, fixed):
        streams, predict = Streams(), target.predict
        target.prompt, target.steps = self.rng.choice([512, 768, 1024]), self.rng.randint(6, 9)
        at_most(target, size=16, new_tokens=4)

        def sent(output):
            cache = getattr(output, "past_key_values", None)
            if cache is not None and streams.open:
                streams.went_on(cache)

        def serve(prompts):
            number = streams.start()
            answer = predict(prompts)
            if fixed:
                streams.close(number)
            return answer
        target.streams, target.predict = streams, serve
        with_output(target, sent)
