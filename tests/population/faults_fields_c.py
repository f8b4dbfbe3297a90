"""Faults as threads about out-of-memory errors tell them, field by field: scans, attributions, attention maps, optical flow, faces, prompts, tables,
latents, perceptual losses, transport, pools, experts, messages, views."""
import collections

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from amounts import after_build, mapped, peak, rows, side, sized
from core import DEVICE, Fault, fault
from faults_batch import repeated
from faults_fields_b import WRAPPED


class Between(Fault):
    """Calls self.work(share) once, without gradients, after a step that is drawn."""
    shares = 0.6, 1.2

    def inject(self, target, fixed):
        share, after_step, self.when, self.fixed = self.rng.uniform(*self.shares), target.after_step, self.rng.randint(1, 2), fixed
        target.steps = self.when + 2
        self.prepare(target)

        @torch.no_grad()
        def between(i, loss):
            after_step(i, loss)
            if i == self.when:
                self.work(target, share)
        target.after_step = between

    def prepare(self, target):
        pass

    def work(self, target, share):
        raise NotImplementedError


@fault("stitched_volume", "result assembled on the GPU", "steps")
class StitchedVolume(Between):
    """Windows of a scan are added into a volume of scores, and counted in another, on the GPU; the fixed form has both on the host.

    MONAI's threads about sliding_window_inference: device="cpu" for what is stitched, the GPU for the windows.
    """

    def prepare(self, target):
        self.classes, self.windows, self.form = self.rng.choice([4, 14, 25]), self.rng.choice([6, 10]), self.rng.choice(["counted", "list"])

    def work(self, target, share):
        where = "cpu" if self.fixed else DEVICE
        depth = max(self.windows, rows(share, 64 * 64 * (self.classes + (self.form == "counted"))))
        head = torch.nn.Conv3d(1, self.classes, 1).to(DEVICE)
        each = depth // self.windows
        if self.form == "list":
            parts = [head(torch.zeros(1, 1, each, 64, 64, device=DEVICE)).to(where) for _ in range(self.windows)]
            target.organs = len(parts)
            return
        scores, counts = torch.zeros(1, self.classes, depth, 64, 64, device=where), torch.zeros(1, 1, depth, 64, 64, device=where)
        for k in range(self.windows):
            part = slice(k * each, (k + 1) * each)
            scores[:, :, part] += head(torch.zeros(1, 1, each, 64, 64, device=DEVICE)).to(where)
            counts[:, :, part] += 1
        scores /= counts
        target.organs = len(scores)


@fault("attributions_at_once", "attribution batch", "loop", "images", without=("two optimizers", *WRAPPED))
class AttributionsAtOnce(Fault):
    """All steps between a baseline and an image are one batch, whose gradients are taken; the fixed form takes the steps one after the other.

    Captum's threads about IntegratedGradients: n_steps times the memory, until internal_batch_size is given.
    """

    def fits(self, target):
        return super().fits(target) and sized(target)

    def inject(self, target, fixed):
        steps, when, after_step = self.rng.choice([8, 12, 16]), self.rng.randint(1, 2), target.after_step
        target.steps = when + 2

        def slopes(batch):
            inputs = mapped(batch, lambda t: t.detach().clone().requires_grad_() if t.is_floating_point() and t.dim() == 4 else t)
            found = []
            mapped(inputs, lambda t: found.append(t) if t.requires_grad else None)
            return [] if not found else [g.abs().mean().item() for g in torch.autograd.grad(target.loss(inputs), found, allow_unused=True) if g is not None]

        def explain(i, loss):
            after_step(i, loss)
            if i != when:
                return
            target.model.eval()
            batch = target.batch(0)
            if fixed:
                target.slopes = [slopes(batch) for _ in range(steps)]
            else:
                target.slopes = slopes(repeated(batch, steps))
            target.model.train()
        target.after_step = explain


@fault("attention_store", "results kept on the GPU", "steps")
class AttentionStore(Between):
    """A controller stores the attention maps of every layer and of every step of denoising; the fixed form stores their mean.

    Threads of diffusers and of prompt-to-prompt about maps that are kept for pictures of them.
    """
    shares = 0.8, 1.6

    def prepare(self, target):
        self.denoising, self.layers, self.words = self.rng.choice([6, 10]), self.rng.choice([3, 5]), 77
        self.form = self.rng.choice(["by place", "by step"])

    def work(self, target, share):
        pixels = max(64, rows(share, self.denoising * self.layers * self.words))
        q, k = torch.nn.Linear(32, 32).to(DEVICE), torch.nn.Linear(32, 32).to(DEVICE)
        store, mean = collections.defaultdict(list), {}
        for step in range(self.denoising):
            for layer in range(self.layers):
                maps = F.softmax(q(torch.zeros(pixels, 32, device=DEVICE)) @ k(torch.zeros(self.words, 32, device=DEVICE)).T, dim=-1)
                if self.fixed:
                    mean[layer] = maps.mean(0) + mean.get(layer, 0)
                else:
                    store["layer %d" % layer if self.form == "by place" else "step %d" % step].append(maps)
        target.maps = {name: len(maps) for name, maps in store.items()}


@fault("scores_of_generation", "results kept on the GPU", "generate")
class ScoresOfGeneration(Fault):
    """generate() is asked for the scores of each step, and of all layers' states sometimes, of which nobody looks at more than the tokens.

    Threads of transformers about return_dict_in_generate with output_scores or output_hidden_states.
    """

    def fits(self, target):
        return super().fits(target) and target.name != "decode_by_hand"

    def inject(self, target, fixed):
        predict, form = target.predict, self.rng.choice(["scores", "scores", "logits and scores"])
        target.new_tokens, target.prompt, target.size = self.rng.choice([32, 48]), 64, max(target.size, 32)
        if fixed:
            return
        target.generate_arguments = {**target.generate_arguments, "return_dict_in_generate": True, "output_scores": True, "output_logits": "logits" in form}
        target.predict = lambda prompts: predict(prompts).sequences


@fault("history_with_graph", "growing tensor with a graph", "loop", without=WRAPPED)
class HistoryWithGraph(Fault):
    """An optimizer of positions appends each step's move to its history, with the graph that made it, so that no earlier history is freed.

    A thread of TorchSim about L-BFGS with a model of conservative forces: three calls of detach() mended it.
    """

    def inject(self, target, fixed):
        share, after_step, atoms = self.rng.uniform(0.1, 0.2), target.after_step, self.rng.choice([256, 1024])
        target.steps, state = self.rng.randint(9, 13), {}

        def relax(i, loss):
            after_step(i, loss)
            if not state:
                wide = rows(share, atoms)
                state.update(positions=torch.zeros(atoms, wide, device=DEVICE, requires_grad=True), history=torch.zeros(0, atoms, wide, device=DEVICE))
            positions = state["positions"]
            forces = torch.autograd.grad((positions ** 2).sum(), positions, create_graph=True)[0]
            move = (positions - 0.1 * forces + 0.01 * (state["history"] * state["history"]).sum(0)).unsqueeze(0)
            state["history"] = torch.cat([state["history"], move.detach() if fixed else move])[-2:]
        target.after_step = relax


@fault("correlation_of_all_pairs", "whole sequence at once", "forward", without=WRAPPED)
class CorrelationOfAllPairs(Fault):
    """Optical flow correlates every pixel of one frame with every pixel of the next, and pools that; the fixed form takes rows, and makes them again.

    RAFT's threads: the volume grows with the fourth power of the resolution; the alternative computes what is looked up.
    """

    def inject(self, target, fixed):
        share, forward, levels, sizes = self.rng.uniform(0.3, 0.6), target.loss, self.rng.choice([2, 3]), {}

        def looked_up(one, other):
            volume, total = one @ other.T / 8, 0
            for _ in range(levels):
                total = total + volume.square().mean()
                volume = F.avg_pool1d(volume.unsqueeze(1), 2).squeeze(1)
            return total

        def with_flow(batch):
            loss = forward(batch)
            if not sizes:
                sizes["pixels"] = side(share) // 64 * 64 + 64
            one, other = (torch.zeros(sizes["pixels"], 64, device=DEVICE, requires_grad=True) for _ in range(2))
            if fixed:
                found = sum(checkpoint(looked_up, part, other, use_reentrant=False) for part in one.chunk(16)) / 16
            else:
                found = looked_up(one, other)
            return loss + 0.01 * found
        target.loss = with_flow


@fault("margin_over_identities", "scores of all positions", "loop", "images", without=("two optimizers", *WRAPPED))
class MarginOverIdentities(Fault):
    """A margin is added to the right one of very many identities: cosines, angles, a mask and scores of all of them; the fixed form samples some.

    Threads of insightface and AdaFace about hundred thousands of identities; partial FC is the answer there.
    """

    def inject(self, target, fixed):
        share, forward, form, held = self.rng.uniform(0.3, 0.5), target.loss, self.rng.choice(["one_hot", "where"]), {}
        size = self.rng.choice([256, 512])

        def with_margin(batch):
            loss = forward(batch)
            if not held:
                held["number"] = rows(share, size) // 10 * 10 + 10
            number = held["number"] // 10 if fixed else held["number"]
            features = torch.zeros(size, 16, device=DEVICE, requires_grad=True)
            cosine = F.normalize(features) @ torch.zeros(16, number, device=DEVICE)
            sine = (1 - cosine.square()).clamp(min=0).sqrt()
            moved = cosine * 0.88 - sine * 0.48
            labels = torch.zeros(size, dtype=torch.long, device=DEVICE)
            if form == "one_hot":
                right = torch.zeros_like(cosine).scatter_(1, labels[:, None], 1.0)
                scores = 64 * (right * moved + (1 - right) * cosine)
            else:
                scores = 64 * torch.where(torch.arange(number, device=DEVICE) == labels[:, None], moved, cosine)
            return loss + 0.01 * F.cross_entropy(scores, labels)
        target.loss = with_margin


@fault("likelihoods_of_prompts", "scores of a whole prompt", "steps")
class LikelihoodsOfPrompts(Between):
    """The likelihood of each token of long prompts: all positions' logits, in 32 bits, and their log_softmax; the fixed form goes by parts.

    vLLM's tracking issue about prompt_logprobs, and lm-eval-harness on top of it.
    """

    def prepare(self, target):
        self.vocabulary, self.form = self.rng.choice([32000, 50257, 128256]), self.rng.choice(["log_softmax", "logsumexp and sort"])

    def work(self, target, share):
        positions = max(64, rows(share / 2, self.vocabulary))
        head = torch.nn.Linear(64, self.vocabulary, bias=False).to(DEVICE, torch.bfloat16)
        hidden = torch.zeros(positions, 64, dtype=torch.bfloat16, device=DEVICE)
        tokens = torch.zeros(positions, 1, dtype=torch.long, device=DEVICE)

        def likelihoods(states, told):
            logits = head(states).float()
            if self.form == "log_softmax":
                return logits.log_softmax(-1).gather(1, told)
            return logits.gather(1, told) - logits.sort(dim=-1, descending=True)[0][:, :1]
        if self.fixed:
            found = [likelihoods(a, b).cpu() for a, b in zip(hidden.chunk(32), tokens.chunk(32))]
        else:
            found = [likelihoods(hidden, tokens).cpu()]
        target.likelihood = len(found)


@fault("dense_gradient_of_a_table", "gradient of a whole table", "forward", without=("two optimizers", *WRAPPED))
class DenseGradientOfATable(Fault):
    """Few rows of a very large table are used, and the gradient has all of them; with sparse=True it has the rows.

    PyTorch's threads about nn.Embedding with a vocabulary of hundred thousands or millions.
    """

    def inject(self, target, fixed):
        share, forward, optimize, held = self.rng.uniform(0.8, 1.5), target.loss, target.optimize, {}
        width, used = self.rng.choice([64, 128]), self.rng.choice([4096, 16384])

        def build():
            reserve = torch.cuda.memory_allocated() + (128 << 20)
            table = torch.nn.Embedding(max(1000, int(share * reserve * 2 / (4 * width))), width, sparse=fixed, device=DEVICE)
            held.update(table=table, optimizer=torch.optim.SGD(table.parameters(), lr=0.1))
        after_build(target, build)

        def with_table(batch):
            found = held["table"](torch.zeros(used, dtype=torch.long, device=DEVICE))
            return forward(batch) + 0.01 * found.square().mean()
        target.loss = with_table

        def with_its_optimizer():
            optimize()
            held["optimizer"].step()
            held["optimizer"].zero_grad()
        target.optimize = with_its_optimizer


@fault("encoders_stay", "idle model", "steps")
class EncodersStay(Fault):
    """Encoders make the latents of the whole set before the training, and stay on the GPU for all of it.

    Threads of cloneofsimo's lora, of dreambooth and of diffusers: let the text encoder and the VAE go once everything is encoded.
    """

    def inject(self, target, fixed):
        share, step, form = self.rng.uniform(0.8, 1.4), target.step, self.rng.choice(["attribute", "closure", "pipeline"])
        layers, held = self.rng.choice([6, 12]), {}

        def encoder(parts, width):
            body = [m for _ in range(parts) for m in (torch.nn.Linear(width, width), torch.nn.GELU())]
            return torch.nn.Sequential(torch.nn.Linear(48, width), *body).to(DEVICE).eval().requires_grad_(False)

        def after_first(i):
            loss = step(i)
            if i == 0:
                width = max(64, int((share * peak() / (4 * layers)) ** 0.5))
                model = encoder(layers, width)
                with torch.no_grad():
                    target.latents = [model(torch.zeros(4, 48, device=DEVICE)).cpu() for _ in range(4)]
                if not fixed:
                    if form == "attribute":
                        target.encoder = model
                    elif form == "closure":
                        held["encode"] = lambda x: model(x)
                    else:
                        held["pipeline"] = {"vae": model, "scheduler": None}
            return loss
        target.step = after_first
        target.steps = self.rng.randint(3, 5)


@fault("perceptual_target_with_graph", "reference with a graph", "forward", without=("two optimizers", "reference", *WRAPPED))
class PerceptualTargetWithGraph(Fault):
    """Features of the wanted image are computed with a graph by a network whose parameters want gradients; they need none.

    Threads of DeblurGAN and of the fast_neural_style example about VGG losses without requires_grad=False.
    """

    def inject(self, target, fixed):
        share, forward, held = self.rng.uniform(1.2, 2.0), target.loss, {}
        levels = self.rng.choice([2, 3])

        def vgg():
            layers, cin = [], 3
            for k in range(levels):
                layers += [torch.nn.Conv2d(cin, 32 << k, 3, padding=1), torch.nn.ReLU()]
                layers += [torch.nn.Conv2d(32 << k, 32 << k, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)]
                cin = 32 << k
            return torch.nn.Sequential(*layers).to(DEVICE).eval()

        def with_perception(batch):
            loss = forward(batch)
            if not held:
                held["vgg"] = vgg().requires_grad_(not fixed)
                held["rows"] = max(1, rows(share, 4 * 32 * 64 * 64 * 2))
            with torch.set_grad_enabled(not fixed):
                wanted = held["vgg"](torch.zeros(held["rows"], 3, 64, 64, device=DEVICE))
            made = held["vgg"](torch.zeros(1, 3, 64, 64, device=DEVICE, requires_grad=True))
            return loss + 0.01 * (made.mean() - wanted.mean()).square()
        target.loss = with_perception


@fault("transport_with_graph", "iterations recorded", "forward", without=WRAPPED)
class TransportWithGraph(Fault):
    """Assignments by Sinkhorn's iterations, all of which autograd records, though the loss takes the result as given.

    Threads of POT and of SuperGlue: more iterations, more memory; the answer is to detach them.
    """

    def inject(self, target, fixed):
        share, forward, iterations, sizes = self.rng.uniform(0.06, 0.12), target.loss, self.rng.choice([5, 8, 10]), {}

        def assigned(scores):
            plan = (scores / 0.05).exp()
            for _ in range(iterations):
                plan = plan / plan.sum(0, keepdim=True)
                plan = plan / plan.sum(1, keepdim=True)
            return plan

        def with_transport(batch):
            loss = forward(batch)
            if not sizes:
                sizes["side"] = side(share)
            scores = torch.zeros(sizes["side"], 1, device=DEVICE, requires_grad=True) * torch.ones(1, sizes["side"], device=DEVICE)
            with torch.set_grad_enabled(not fixed):
                plan = assigned(scores.detach() if fixed else scores)
            return loss - 0.01 * (plan * scores).mean()
        target.loss = with_transport


@fault("gradient_embeddings_of_a_pool", "result assembled on the GPU", "steps")
class GradientEmbeddings(Between):
    """A pool's gradient embeddings, features times classes for each sample, are collected on the GPU to choose from; the fixed form has them on the host.

    A request to scikit-activeml, and threads of BADGE itself: the embedding of the pool, samples times classes times features, is what does not fit.
    """

    def prepare(self, target):
        self.classes, self.features, self.batches = self.rng.choice([20, 100]), self.rng.choice([64, 128]), self.rng.choice([8, 12])
        self.form = self.rng.choice(["rows", "list"])

    def work(self, target, share):
        number = max(self.batches, rows(share, self.classes * self.features)) // self.batches * self.batches
        where, each = "cpu" if self.fixed else DEVICE, number // self.batches
        pool, parts = torch.zeros(number if self.form == "rows" else 0, self.classes * self.features, device=where), []
        body, head = torch.nn.Linear(32, self.features).to(DEVICE), torch.nn.Linear(self.features, self.classes).to(DEVICE)
        for k in range(self.batches):
            features = body(torch.zeros(each, 32, device=DEVICE))
            wrong = head(features).softmax(-1) - 1 / self.classes
            embedding = (wrong[:, :, None] * features[:, None]).flatten(1).to(where)
            if self.form == "rows":
                pool[k * each:(k + 1) * each] = embedding
            else:
                parts.append(embedding)
        target.asked = len(pool) + len(parts)


@fault("dispatch_mask", "one huge temporary", "forward", without=WRAPPED)
class DispatchMask(Fault):
    """Tokens go to experts through a mask of tokens times experts times places; the fixed form gathers rows by index.

    As it is told of GShard's einsum form of a mixture of experts, in fairscale's and Tutel's threads.
    """

    def inject(self, target, fixed):
        share, forward, experts, sizes = self.rng.uniform(0.5, 0.9), target.loss, self.rng.choice([8, 16]), {}
        weight = {}

        def with_experts(batch):
            loss = forward(batch)
            if not sizes:
                sizes["tokens"] = side(share) // experts * experts + experts
                weight["experts"] = torch.zeros(experts, 32, 32, device=DEVICE)
            tokens = sizes["tokens"]
            places, x = tokens // experts, torch.zeros(tokens, 32, device=DEVICE, requires_grad=True)
            expert, place = torch.arange(tokens, device=DEVICE) % experts, torch.arange(tokens, device=DEVICE) // experts
            if fixed:
                given = x.new_zeros(experts, places, 32).index_put((expert, place), x)
                back = (given @ weight["experts"])[expert, place]
            else:
                mask = x.new_zeros(tokens, experts * places).scatter_(1, (expert * places + place)[:, None], 1.0).view(tokens, experts, places)
                back = torch.einsum("tep,epd->td", mask, torch.einsum("tep,td->epd", mask, x) @ weight["experts"])
            return loss + 0.01 * back.square().mean()
        target.loss = with_experts


@fault("messages_of_all_edges", "whole sequence at once", "forward", without=WRAPPED)
class MessagesOfAllEdges(Fault):
    """Both ends' features are gathered for every edge of a graph, and go through a small network; the fixed form takes some edges at a time.

    Threads of PyTorch Geometric about messages that are materialised for each edge.
    """

    def inject(self, target, fixed):
        share, forward, width, sizes = self.rng.uniform(0.12, 0.25), target.loss, self.rng.choice([32, 64]), {}
        net = torch.nn.Sequential(torch.nn.Linear(2 * width, width), torch.nn.ReLU(), torch.nn.Linear(width, width))

        def messages(nodes, start, end):
            return net(torch.cat([nodes[start], nodes[end]], dim=-1)).square().mean()

        def with_graph(batch):
            loss = forward(batch)
            if not sizes:
                net.to(DEVICE)
                sizes["edges"] = rows(share, 2 * width)
            nodes = torch.zeros(1024, width, device=DEVICE, requires_grad=True)
            start = torch.zeros(sizes["edges"], dtype=torch.long, device=DEVICE)
            if fixed:
                found = sum(checkpoint(messages, nodes, s, s, use_reentrant=False) for s in start.chunk(16)) / 16
            else:
                found = messages(nodes, start, start)
            return loss + 0.01 * found
        target.loss = with_graph


@fault("views_kept", "result assembled on the GPU", "steps")
class ViewsKept(Between):
    """Scores of each scale and of each mirror image, in full resolution, are listed before their mean is taken; the fixed form adds them up.

    Threads about tests with several scales and flips in segmentation, where some code sums and some stacks.
    """
    shares = 0.9, 1.6

    def prepare(self, target):
        self.classes, self.scales, self.form = self.rng.choice([19, 21, 150]), self.rng.choice([3, 5]), self.rng.choice(["stack", "list"])

    def work(self, target, share):
        head, wide = torch.nn.Conv2d(8, self.classes, 1).to(DEVICE), 512
        high = max(32, rows(share, self.classes * wide * 2 * self.scales))
        views, total = [], None
        for k in range(2 * self.scales):
            scores = F.interpolate(head(torch.zeros(1, 8, high // 4, wide // 4, device=DEVICE)), size=(high, wide), mode="bilinear")
            if self.fixed:
                total = scores if total is None else total.add_(scores)
            else:
                views.append(scores)
            del scores
        if not self.fixed:
            total = torch.stack(views).mean(0) if self.form == "stack" else sum(views[1:], views[0])
        target.classes_seen = total.shape[1]
