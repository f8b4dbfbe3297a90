"""Mistakes of the questions that come back every week: batches of eight cards, long rows, data and checkpoints on the GPU, averages, models of other seeds."""
import copy
import gc
import heapq
import io

import torch
import torch.nn.functional as F

from amounts import after_build, light, mapped, sized
from core import DEVICE, Fault, fault
from faults_common_r import WRAPPED, at_most

ALONE = (*WRAPPED, "two optimizers", "pretrained", "peft", "reference")


def number(target, name):
    """Whether the job has a number of this name."""
    return isinstance(getattr(target, name, None), int)


def whole_weights(target, rng):
    """A job in which parameters weigh more than activations: six layers or more, and a batch of four short rows."""
    light(target, rng)
    at_most(target, vocabulary=16000)
    target.size, target.layers = 4, max(target.layers, 6)


def whole_activations(target, size, length, vocabulary=16000):
    """A job in which activations weigh more than parameters: enough rows, and none of them computed again."""
    at_most(target, length=length, vocabulary=vocabulary)
    target.size, target.micro_batches = size, 1
    if number(target, "rows"):
        target.rows = max(target.rows, 2 * size)
    if "checkpointing" in target.traits:
        target.checkpointing = False


@fault("s_batch_of_all_cards", "batch too large", "loop", "layers", without=ALONE)
class BatchOfAllCards(Fault):
    """The recipe says 8 cards with so many examples each; the one card that is there gets them all at once."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        cards, each = self.rng.choice([4, 8]), self.rng.choice([6, 8]) if "images" in target.traits else self.rng.choice([2, 3])
        whole_activations(target, cards * each, 512)
        target.steps = 3
        if fixed:
            target.size, target.micro_batches = each, cards


@fault("s_filled_to_the_limit", "padding", "loop", "tokens", "layers", without=WRAPPED)
class FilledToTheLimit(Fault):
    """The collator fills each row up to the tokenizer's limit, where the longest of a batch has a third of it."""

    def fits(self, target):
        return super().fits(target) and number(target, "length") and number(target, "size")

    def inject(self, target, fixed):
        longest, part = self.rng.choice([192, 256, 320]), self.rng.choice([3, 4])
        whole_activations(target, self.rng.choice([8, 12]), longest * part, 32000)
        target.length = longest if fixed else longest * part


@fault("s_finer_pictures", "pictures too large", "loop", "images", without=(*WRAPPED, "two optimizers"))
class FinerPictures(Fault):
    """Resize() has another number than the paper's, twice as large: more pixels should make the model better."""

    def fits(self, target):
        return super().fits(target) and number(target, "pixels") and target.pixels % 64 == 0

    def inject(self, target, fixed):
        at_most(target, size=self.rng.choice([16, 24]))
        if "checkpointing" in target.traits:
            target.checkpointing = False
        target.pixels = target.pixels // 2 if fixed else target.pixels


@fault("s_one_recording", "larger batch", "loop", "crop", without=WRAPPED)
class OneRecording(Fault):
    """Batches are made of examples of like length, and the last bucket has those that are several times as long as all others."""

    def fits(self, target):
        return super().fits(target) and number(target, "length") and number(target, "longest") and target.name != "tokens_ahead"  # which goes piece by piece

    def inject(self, target, fixed):
        last, batch, own = self.rng.choice([2, 3]), target.batch, min(target.length, target.longest // self.rng.choice([3, 4]))
        target.length, target.steps, target.micro_batches = own, last + self.rng.choice([1, 2]), 1

        def bucket(i):
            target.length = target.longest // own * own if i == last and not fixed else own
            return batch(i)
        target.batch = bucket


@fault("s_batches_of_the_test", "evaluation batch", "loop", "eval", "images", without=(*WRAPPED, "two optimizers"))
class BatchesOfTheTest(Fault):
    """DataLoader(test_set, batch_size=512), beside a training that has a few pictures in each step."""

    def fits(self, target):
        return super().fits(target) and number(target, "size")

    def inject(self, target, fixed):
        times, evaluate = self.rng.choice([64, 96]), target.evaluate
        at_most(target, size=self.rng.choice([4, 6]))
        if number(target, "rows"):
            target.rows = max(target.rows, times * target.size)
        target.evaluated = self.rng.choice([1, 2])

        def tested():
            few = target.size
            for _ in range(3 if fixed else 1):
                target.size = few if fixed else times * few
                try:
                    outputs = evaluate()
                finally:
                    target.size = few
            return outputs
        target.evaluate = tested


@fault("s_checkpointing_in_arguments", "activations", "trainer", "checkpointing", "layers", "tokens")
class CheckpointingInArguments(Fault):
    """A deep model with a trainer, whose arguments do not say gradient_checkpointing=True."""

    def fits(self, target):
        return super().fits(target) and number(target, "length") and number(target, "width")

    def inject(self, target, fixed):
        at_most(target, width=768, vocabulary=4000)
        target.layers, target.length, target.size = self.rng.choice([8, 10]), self.rng.choice([384, 512]), self.rng.choice([8, 12])
        target.trainer_arguments["gradient_accumulation_steps"], target.checkpointing = 1, fixed


@fault("s_all_in_32_bits", "no mixed precision", "loop", "layers", without=ALONE)
class AllIn32Bits(Fault):
    """The training is in 32 bits from end to end, on a card that has bfloat16."""

    def fits(self, target):
        return super().fits(target) and sized(target) and {"fp32", "autocast"} <= set(getattr(target, "precisions", ()))

    def inject(self, target, fixed):
        whole_activations(target, self.rng.choice([24, 32]) if "images" in target.traits else self.rng.choice([16, 20]), 512, 8000)
        target.precision = "autocast" if fixed else "fp32"


@fault("s_tables_to_device", "data moved to the GPU", "loop", "dataset", without=(*WRAPPED, "two optimizers", "images"))
class TablesToDevice(Fault):
    """data = [t.to(device) for t in data] in front of the loop: each batch is then cut from what is on the GPU."""

    def inject(self, target, fixed):
        amount, form = self.rng.uniform(1.5, 3.5), self.rng.choice(["list", "generator", "attribute"])
        at_most(target, size=8)

        def move():
            row = sum(t[0].numel() * t.element_size() for t in target.dataset)
            repeats = int(amount * 2 ** 30 / row) // len(target.dataset[0]) + 1
            data = [torch.zeros(repeats * len(t), *t.shape[1:], dtype=t.dtype) for t in target.dataset]
            if not fixed:
                data = list(t.to(DEVICE) for t in data) if form == "generator" else [t.to(DEVICE) for t in data]
            if form == "attribute":
                target.tables = data
            target.dataset = tuple(data)
        after_build(target, move)


@fault("s_warm_start", "loaded checkpoint", "loop", "tokens", "layers", without=ALONE)
class WarmStart(Fault):
    """The weights of an earlier training, with its averages, are read onto the GPU; what fits goes into the model, and the dict stays."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        form = self.rng.choice(["whole", "filtered"])
        whole_weights(target, self.rng)

        def start():
            file = io.BytesIO()
            earlier = {k: torch.zeros(v.shape, dtype=v.dtype) for k, v in target.model.state_dict().items()}
            torch.save({"epoch": 12, "state_dict": earlier, "ema_state_dict": {k: v.clone() for k, v in earlier.items()}, "args": {"lr": 1e-4}}, file)
            file.seek(0)
            ckpt = torch.load(file, map_location=torch.device("cpu" if fixed else DEVICE))
            known = {k: v for k, v in ckpt["state_dict"].items() if k in earlier}
            target.model.load_state_dict(known, strict=False)
            target.started_from = ckpt if form == "whole" else {"weights": known, "averages": ckpt["ema_state_dict"]}
        after_build(target, start)


@fault("s_five_best", "copies of the model kept", "loop", "layers", without=(*WRAPPED, "two optimizers", "images"))
class FiveBest(Fault):
    """The best models so far, in a heap with their scores, as deep copies on the GPU; they should wait on the host."""

    def inject(self, target, fixed):
        count, form, heap, after_step = self.rng.choice([4, 5]), self.rng.choice(["states", "modules"]), [], target.after_step
        target.steps = self.rng.randint(5, 8)
        light(target, self.rng)

        def remember(i, loss):
            after_step(i, loss)
            if fixed:
                copied = {k: v.detach().to("cpu", copy=True) for k, v in target.model.state_dict().items()}
            else:
                copied = copy.deepcopy(target.model.state_dict() if form == "states" else target.model)
            heapq.heappush(heap, (0.1 * i, i, copied))
            while len(heap) > count:
                heapq.heappop(heap)
        target.after_step = remember


@fault("s_other_seeds", "earlier runs kept", "loop", without=(*WRAPPED, "two optimizers"))
class OtherSeeds(Fault):
    """The training is repeated with other seeds; each run leaves a function that predicts, and with it its model and optimizer."""

    def inject(self, target, fixed):
        seeds, form, runs = self.rng.sample(range(100), self.rng.randint(3, 5)), self.rng.choice(["model", "all"]), {}
        light(target, self.rng)
        target.steps = 2

        def trained(seed):
            torch.manual_seed(seed)
            target.build()
            target.train()
            model, optimizers = target.model, target.optimizers

            def predict(batch):
                return model(batch)
            return {"predict": predict, "optimizers": optimizers if form == "all" else [], "score": 0.7}

        def repeat():
            for seed in seeds:
                run = trained(seed)
                runs[seed] = run["score"] if fixed else run
                target.model, target.optimizers = None, []
                del run
                gc.collect()
        target.run = repeat


@fault("s_amsgrad", "optimizer states", "loop", "tokens", "layers", without=ALONE)
class Amsgrad(Fault):
    """Adam with amsgrad=True has three states for each parameter, from the first step on; there is room for an optimizer without them."""

    def fits(self, target):
        return super().fits(target) and sized(target) and hasattr(target, "kinds")

    def inject(self, target, fixed):
        whole_weights(target, self.rng)
        target.clip, target.micro_batches = 0, 1
        amsgrad, each = self.rng.random() < 0.7, self.rng.random() < 0.5

        def choose():
            parameters = [p for p in target.model.parameters() if p.requires_grad]
            if fixed:
                target.optimizers = [torch.optim.SGD(parameters, lr=0.01, foreach=False)]
            else:
                target.optimizers = [torch.optim.Adam(parameters, lr=1e-4, amsgrad=amsgrad, foreach=False if each else None, fused=None if each else True)]
        after_build(target, choose)


@fault("s_weights_at_the_start", "second model", "loop", "tokens", "layers", without=ALONE)
class WeightsAtTheStart(Fault):
    """The model as it was at the start, and an average of it, wait on the GPU for a comparison at the end."""

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        form, others, optimize = self.rng.choice(["start and average", "two averages"]), [], target.optimize
        whole_weights(target, self.rng)

        def keep():
            for _ in range(2):
                other = copy.deepcopy(target.model).eval().requires_grad_(False)
                others.append(other.cpu() if fixed else other)

        @torch.no_grad()
        def and_average():
            optimize()
            for other in others if form == "two averages" else others[1:]:
                for mean, p in zip(other.parameters(), target.model.parameters()):
                    mean.lerp_(p.detach().to(mean.device), 0.01)
        after_build(target, keep)
        target.optimize = and_average


@fault("s_default_dtype", "double precision", "loop", "tokens", "layers", without=ALONE)
class DefaultDtype(Fault):
    """The model is made in float64, as numpy has it; tokens do not show it, and no error does."""

    def fits(self, target):
        return super().fits(target) and "fp32" in getattr(target, "precisions", ())

    def inject(self, target, fixed):
        form, target.precision = self.rng.choice(["double", "to", "each"]), "fp32"
        at_most(target, size=8, length=512, vocabulary=16000)

        def widen():
            if form == "double":
                target.model.double()
            elif form == "to":
                target.model.to(torch.float64)
            else:
                for p in target.model.parameters():
                    p.data = p.data.double()
        if not fixed:
            after_build(target, widen)


@fault("s_one_hot", "one huge temporary", "loop", "decoder", "tokens", without=WRAPPED)
class OneHot(Fault):
    """How often a token is there, or there twice in a row, by one_hot(tokens, vocabulary), whose integers have 64 bits; fixed: scatter_add_()."""

    def inject(self, target, fixed):
        target.vocabulary, form, forward = self.rng.choice([50304, 64000]), self.rng.choice(["smoothed", "repeated"]), target.loss
        at_most(target, size=8, length=512, layers=2)
        target.counts = torch.zeros(1)

        def by_index(tokens):
            weights = (tokens[:, 1:] == tokens[:, :-1]).float() if form == "repeated" else torch.ones(tokens[:, 1:].shape, device=DEVICE)
            return torch.zeros(target.vocabulary, device=DEVICE).scatter_add_(0, tokens[:, 1:].flatten(), weights.flatten())

        def by_one_hot(tokens):
            if form == "repeated":
                now, before = F.one_hot(tokens[:, 1:], target.vocabulary), F.one_hot(tokens[:, :-1], target.vocabulary)
                return (now * before).sum((0, 1))
            hot = F.one_hot(tokens, target.vocabulary)
            shares = hot.float()
            return (0.9 * shares + 0.1 / target.vocabulary).sum((0, 1))

        def counted(batch):
            loss, found = forward(batch), []
            mapped(batch, lambda t: found.append(t) if t.dtype == torch.long and t.dim() == 2 else None)
            if found:
                with torch.no_grad():
                    target.counts = by_index(found[0]) if fixed else by_one_hot(found[0])
            return loss
        target.loss = counted
