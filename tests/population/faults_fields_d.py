"""Faults as threads about out-of-memory errors tell them, field by field: patches, positions, masks, spectra, beams, labels, triplets, stereo, edges,
splats, catalogues, rollouts, rasters, displacements, similarity, biases."""
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from amounts import after_build, peak, rows, side
from core import DEVICE, Fault, fault
from faults_fields_b import WRAPPED
from faults_fields_c import Between
from faults_generation import OwnGeneration
from faults_temporaries import Term


def in_parts(do, number, *tensors):
    """The mean of do() over parts of the tensors, each of which is computed again in the backward pass."""
    return sum(checkpoint(do, *part, use_reentrant=False) for part in zip(*(t.chunk(number) for t in tensors))) / number


@fault("patches_unfolded", "one huge temporary", "forward", without=WRAPPED)
class PatchesUnfolded(Term):
    """The neighbours of every pixel are unfolded, and compared with it; the fixed form shifts the image, one neighbour after the other.

    A thread of PyTorch about squared differences of unfold(), and those of losses of census and of structure.
    """

    def prepare(self):
        self.channels, self.window, self.form = self.rng.choice([3, 16]), self.rng.choice([5, 7]), self.rng.choice(["unfold", "windows"])
        self.wide = self.rng.choice([256, 512])

    def measure(self):
        return max(16, rows(self.share / 2, self.channels * self.window ** 2 * self.wide))

    def term(self, fixed):
        x, k = self.features(1, self.channels, self.sizes, self.wide), self.window
        if fixed:
            def shifted(image, dy, dx):
                return (image.roll((dy, dx), (2, 3)) - image).abs().mean()
            return sum(checkpoint(shifted, x, dy, dx, use_reentrant=False) for dy in range(k) for dx in range(k)) / k ** 2
        if self.form == "unfold":
            near = F.unfold(x, k, padding=k // 2).view(self.channels, k * k, -1)
            return (near - x.view(self.channels, 1, -1)).abs().mean()
        near = F.pad(x, (k // 2,) * 4).unfold(2, k, 1).unfold(3, k, 1)
        return (near - x[..., None, None]).abs().mean()


@fault("vectors_of_all_distances", "one huge temporary", "forward", without=WRAPPED)
class VectorsOfAllDistances(Term):
    """A learned vector for each pair of positions, length times length times width, where products with the table can be gathered.

    Threads about relative positions as Shaw's paper has them, and the music transformer's answer.
    """

    def prepare(self):
        self.width, self.form = self.rng.choice([32, 64]), self.rng.choice(["einsum", "bmm"])

    def measure(self):
        return max(16, side(self.share / self.width))

    def term(self, fixed):
        n = self.sizes
        q, table = self.features(n, self.width), self.features(2 * n - 1, self.width)
        place = torch.arange(n, device=DEVICE)
        apart = place[:, None] - place[None] + n - 1
        if fixed:
            return (q @ table.T).gather(1, apart).mean()
        vectors = F.embedding(apart, table)
        scores = torch.einsum("id,ijd->ij", q, vectors) if self.form == "einsum" else (vectors @ q.unsqueeze(2)).squeeze(2)
        return scores.mean()


@fault("repeated_heads_cached", "own KV cache", "steps")
class RepeatedHeadsCached(OwnGeneration):
    """Keys and values are repeated for every head of the queries before they go into the cache; the fixed form repeats what it reads.

    Threads about grouped queries in codes of one's own: repeat_interleave() came before the cache.
    """

    def prepare(self, target):
        self.tokens, self.groups = self.rng.choice([12, 20]), self.rng.choice([4, 8])
        self.heads = max(1, self.heads // 4)

    def generate(self, fixed):
        chunk = max(1, self.positions(self.share) // self.tokens // self.groups)
        cache = [[None, None] for _ in range(self.layers)]
        for _ in range(self.tokens):
            for layer in cache:
                for n in range(2):
                    new = torch.empty(1, self.heads, chunk, self.width, dtype=self.dtype, device=DEVICE)
                    if not fixed:
                        new = new.repeat_interleave(self.groups, dim=1)
                    layer[n] = new if layer[n] is None else torch.cat([layer[n], new], dim=2)
                    del new


@fault("masks_pasted", "result assembled on the GPU", "steps")
class MasksPasted(Between):
    """Small masks of all instances are enlarged to the photograph in fp32, and compared with a threshold; the fixed form takes a few at a time.

    Threads of mmdetection about _do_paste_mask and of yolact about a thousand instances.
    """
    shares = 1.0, 1.7

    def prepare(self, target):
        self.form, self.wide = self.rng.choice(["interpolate", "grid"]), self.rng.choice([1024, 1920])

    def pasted(self, masks):
        high = self.wide * 3 // 4
        if self.form == "interpolate":
            return F.interpolate(masks, size=(high, self.wide), mode="bilinear") > 0.5
        return F.grid_sample(masks, torch.zeros(len(masks), high, self.wide, 2, device=DEVICE), align_corners=False) > 0.5

    def work(self, target, share):
        number = max(8, rows(share / (1 if self.form == "interpolate" else 3), self.wide ** 2 * 3 // 4))
        masks = torch.nn.Conv2d(8, 1, 1).to(DEVICE)(torch.zeros(number, 8, 28, 28, device=DEVICE)).sigmoid()
        if self.fixed:
            found = [self.pasted(part).cpu().any() for part in masks.split(max(1, number // 16))]
        else:
            found = self.pasted(masks)
        target.instances = len(found)


@fault("spectra_of_whole_recordings", "whole sequence at once", "forward", without=WRAPPED)
class SpectraOfWholeRecordings(Term):
    """Losses of spectra of several windows over whole recordings; the fixed form takes seconds, and makes their frames again.

    Threads about multi-resolution STFT losses of vocoders, which are trained on segments for this reason.
    """
    shares = 1.0, 1.6

    def prepare(self):
        self.windows, self.basis = self.rng.choice([(512,), (256, 512), (256, 512, 1024)]), {}

    def measure(self):
        for w in self.windows:
            self.basis[w] = torch.zeros(w, w, device=DEVICE), torch.zeros(w, device=DEVICE)
        return max(1 << 16, rows(self.share, 28 * len(self.windows)) // (1 << 14) * (1 << 14))

    def spectra(self, sound):
        total = 0
        for w, (basis, window) in self.basis.items():
            real, imaginary = (sound.unfold(-1, w, w // 4) * window @ basis).chunk(2, dim=-1)
            total = total + (real.square() + imaginary.square() + 1e-7).sqrt().log().abs().mean()
        return total

    def term(self, fixed):
        sound = self.features(self.sizes)
        return in_parts(self.spectra, 16, sound) if fixed else self.spectra(sound)


@fault("scores_of_beams", "results kept on the GPU", "steps")
class ScoresOfBeams(Between):
    """A search of one's own keeps the log-probabilities of the whole vocabulary of each beam and step, for a later look; the fixed form those of the tokens.

    Threads of fairseq and of OpenNMT about searches that return everything.
    """
    shares = 0.8, 1.5

    def prepare(self, target):
        self.vocabulary, self.tokens, self.form = self.rng.choice([32000, 50257]), self.rng.choice([12, 20]), self.rng.choice(["list", "hypotheses"])

    def work(self, target, share):
        beams = max(4, rows(share, self.vocabulary * self.tokens))
        head, scores, hypotheses = torch.nn.Linear(64, self.vocabulary, bias=False).to(DEVICE), [], {}
        for t in range(self.tokens):
            told = head(torch.zeros(beams, 64, device=DEVICE)).log_softmax(-1)
            best = told.topk(2, dim=-1)
            if self.fixed:
                scores.append(best.values)
            elif self.form == "list":
                scores.append(told)
            else:
                hypotheses[t] = {"tokens": best.indices, "log_probs": told}
            del told
        target.searched = len(scores) + len(hypotheses)


@fault("transitions_of_all_places", "whole sequence at once", "forward", without=WRAPPED)
class TransitionsOfAllPlaces(Term):
    """The scores of every pair of labels at every place of a chain, before the recursion over places; the fixed form makes those of a place, twice.

    Threads about conditional random fields with many labels.
    """

    def prepare(self):
        self.labels, self.length = self.rng.choice([32, 64]), self.rng.choice([12, 20])

    def measure(self):
        return rows(self.share / 2, self.length * self.labels ** 2)

    def term(self, fixed):
        emissions, transitions = self.features(self.sizes, self.length, self.labels), self.features(self.labels, self.labels)

        def onward(alpha, here):
            return torch.logsumexp(alpha[:, :, None] + transitions + here[:, None], dim=1)
        if not fixed:
            potentials = emissions[:, :, None] + transitions
        alpha = emissions[:, 0]
        for t in range(1, self.length):
            if fixed:
                alpha = checkpoint(onward, alpha, emissions[:, t], use_reentrant=False)
            else:
                alpha = torch.logsumexp(alpha[:, :, None] + potentials[:, t], dim=1)
        return alpha.logsumexp(-1).mean()


@fault("all_triplets", "one huge temporary", "forward", without=WRAPPED)
class AllTriplets(Term):
    """A margin for each anchor, each positive and each negative of a batch: its number to the third power; the fixed form takes some anchors at a time.

    Threads about batch-all triplet losses.
    """

    def prepare(self):
        self.margin, self.form = self.rng.choice([0.2, 0.5]), self.rng.choice(["relu", "softplus"])

    def measure(self):
        return max(32, int((self.share * peak() / 8) ** (1 / 3)))

    def triplets(self, some, every):
        apart = 2 - 2 * F.normalize(some) @ F.normalize(every).T
        over = apart[:, :, None] - apart[:, None] + self.margin
        return (over.relu() if self.form == "relu" else F.softplus(over)).mean()

    def term(self, fixed):
        x = self.features(self.sizes, 64)
        if fixed:
            return sum(checkpoint(self.triplets, part, x, use_reentrant=False) for part in x.chunk(16)) / 16
        return self.triplets(x, x)


@fault("cost_volume", "whole sequence at once", "forward", without=WRAPPED)
class CostVolume(Term):
    """The features of both views of a stereo pair side by side for every disparity, as one volume; the fixed form makes one disparity after the other, twice.

    Threads of PSMNet and of its kin about cards that are too small for its volume.
    """

    def prepare(self):
        self.channels, self.disparities, self.form = self.rng.choice([16, 32]), self.rng.choice([24, 48]), self.rng.choice(["concatenated", "difference"])

    def measure(self):
        self.kernel = torch.zeros(2 * self.channels, 1, device=DEVICE, requires_grad=True)
        return max(16, rows(self.share / 2, 2 * self.channels * self.disparities * 256))

    def cost(self, left, right):
        return torch.cat([(left - right).abs(), left * right] if self.form == "difference" else [left, right])

    def term(self, fixed):
        left, right = self.features(self.channels, self.sizes, 256), self.features(self.channels, self.sizes, 256)

        def matched(a, b, d):
            return torch.einsum("chw,co->ohw", self.cost(a, b.roll(d, 2)), self.kernel).relu().mean()
        if fixed:
            return sum(checkpoint(matched, left, right, d, use_reentrant=False) for d in range(self.disparities)) / self.disparities
        volume = torch.stack([self.cost(left, right.roll(d, 2)) for d in range(self.disparities)], dim=1)
        return torch.einsum("cdhw,co->odhw", volume, self.kernel).relu().mean()


@fault("matrix_for_each_edge", "whole sequence at once", "forward", without=WRAPPED)
class MatrixForEachEdge(Term):
    """A network gives a matrix for each edge of a graph, which its message goes through; the fixed form takes some edges at a time.

    Threads of PyTorch Geometric about NNConv: edges times inputs times outputs.
    """

    def prepare(self):
        self.width = self.rng.choice([32, 48, 64])

    def measure(self):
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, self.width ** 2)).to(DEVICE)
        return max(64, rows(self.share, self.width ** 2))

    def messages(self, told, sources):
        return torch.bmm(sources.unsqueeze(1), self.net(told).view(-1, self.width, self.width)).square().mean()

    def term(self, fixed):
        nodes, told = self.features(256, self.width), torch.zeros(self.sizes, 8, device=DEVICE)
        sources = nodes[torch.zeros(self.sizes, dtype=torch.long, device=DEVICE)]
        return in_parts(self.messages, 16, told, sources) if fixed else self.messages(told, sources)


@fault("splats_and_pixels", "whole sequence at once", "forward", without=WRAPPED)
class SplatsAndPixels(Term):
    """Every blob's weight at every pixel, in plain PyTorch; the fixed form renders some pixels at a time, and again in the backward pass.

    Threads about splatting without its kernels.
    """

    def prepare(self):
        self.blobs, self.form = self.rng.choice([512, 2048]), self.rng.choice(["product", "sum"])

    def measure(self):
        return max(64, rows(self.share / 6, self.blobs))

    def rendered(self, pixels, means, scales, colours):
        apart = (pixels[:, None] - means[None]) / scales
        alpha = 0.9 * torch.exp(-0.5 * apart.square().sum(-1))
        weight = alpha * torch.log1p(-alpha).cumsum(1).exp() if self.form == "product" else alpha / (alpha.sum(1, keepdim=True) + 1e-6)
        return (weight @ colours).square().mean()

    def term(self, fixed):
        blobs = self.features(self.blobs, 2), self.features(self.blobs, 1) + 1.0, self.features(self.blobs, 3)
        pixels = torch.zeros(self.sizes, 2, device=DEVICE)
        if fixed:
            return sum(checkpoint(self.rendered, part, *blobs, use_reentrant=False) for part in pixels.chunk(16)) / 16
        return self.rendered(pixels, *blobs)


@fault("scores_of_catalogue", "result assembled on the GPU", "steps")
class ScoresOfCatalogue(Between):
    """Every user's score of every item, of which the best few count; the fixed form takes some users at a time.

    Threads of RecBole and of LightGCN about full ranking on evaluation.
    """
    shares = 0.5, 1.0

    def prepare(self, target):
        self.items, self.form = self.rng.choice([20000, 50000, 100000]), self.rng.choice(["mask", "plain"])

    def best(self, users, items):
        scores = users @ items.T
        if self.form == "mask":
            scores = scores.masked_fill(torch.zeros(1, self.items, dtype=torch.bool, device=DEVICE), float("-inf"))
        return scores.topk(20, dim=1).indices

    def work(self, target, share):
        users = torch.zeros(max(32, rows(share, self.items)), 32, device=DEVICE)
        items = torch.zeros(self.items, 32, device=DEVICE)
        found = [self.best(part, items).cpu() for part in users.chunk(16)] if self.fixed else self.best(users, items)
        target.ranked = len(found)


@fault("rollout_storage", "room for a rollout", "steps")
class RolloutStorage(Fault):
    """Room for all frames of all environments until the next update, in fp32 on the GPU; the fixed form has bytes on the host.

    Threads of CleanRL and of pytorch-a2c-ppo-acktr about more environments or longer rollouts.
    """

    def inject(self, target, fixed):
        share, step, form = self.rng.uniform(0.5, 1.0), target.step, self.rng.choice(["tensor", "dict"])
        environments, place = self.rng.choice([8, 16]), {}
        target.steps = self.rng.randint(4, 6)

        def make():
            moves = max(8, rows(share, environments * 4 * 84 * 84))
            options = {"dtype": torch.uint8} if fixed else {"device": DEVICE}
            frames = torch.zeros(moves, environments, 4, 84, 84, **options)
            if form == "tensor":
                target.frames = frames
            else:
                target.storage = {"obs": frames, "rewards": torch.zeros(moves, environments, device=DEVICE)}
            place["frames"] = frames

        def step_after_play(i):
            loss = step(i)
            if i == 0:
                make()
            place["frames"][i % len(place["frames"])] = 0
            return loss
        target.step = step_after_play


@fault("tiles_stacked", "inputs of an evaluation", "steps")
class TilesStacked(Between):
    """All overlapping tiles of a map are cut out and stacked before the model sees the first one; the fixed form cuts one row of tiles at a time.

    Threads of TorchGeo and of others about prediction on whole scenes.
    """
    shares = 1.0, 1.6

    def prepare(self, target):
        self.bands, self.tile, self.form = self.rng.choice([3, 13]), self.rng.choice([128, 256]), self.rng.choice(["stack", "unfold"])

    def work(self, target, share):
        net = torch.nn.Conv2d(self.bands, 4, 3, 2, 1).to(DEVICE)
        number, tile, step = max(16, rows(share, self.bands * self.tile ** 2)) // 8 * 8, self.tile, self.tile // 2
        high, wide = step * (number // 8 + 1), step * 9
        scene = torch.zeros(self.bands, high, wide, device=DEVICE)

        def row(y):
            return scene[:, y:y + tile].unfold(2, tile, step).transpose(0, 1).transpose(2, 1).transpose(1, 2)
        if self.fixed:
            found = [net(row(y)).amax().cpu() for y in range(0, high - tile + 1, step)]
        else:
            if self.form == "stack":
                tiles = torch.stack([scene[:, y:y + tile, x:x + tile] for y in range(0, high - tile + 1, step) for x in range(0, wide - tile + 1, step)])
            else:
                tiles = scene.unfold(1, tile, step).unfold(2, tile, step).permute(1, 2, 0, 3, 4).reshape(-1, self.bands, tile, tile)
            found = [net(part).amax().cpu() for part in tiles.split(8)]
        target.scored = len(found)


@fault("similarity_maps", "whole sequence at once", "forward", without=WRAPPED)
class SimilarityMaps(Term):
    """Structural similarity of whole photographs: a dozen maps of each are saved for backward; the fixed form has one photograph at a time, twice.

    Threads of pytorch-msssim about large images.
    """

    def prepare(self):
        self.window, self.pixels = self.rng.choice([7, 11]), self.rng.choice([128, 256])

    def measure(self):
        return max(16, rows(self.share / 8, 3 * self.pixels ** 2))

    def similarity(self, x, y):
        def mean(t):
            return F.avg_pool2d(t, self.window, 1)
        mx, my = mean(x), mean(y)
        vx, vy, vxy = mean(x * x) - mx * mx, mean(y * y) - my * my, mean(x * y) - mx * my
        maps = (2 * mx * my + 1e-4) * (2 * vxy + 9e-4) / ((mx * mx + my * my + 1e-4) * (vx + vy + 9e-4))
        return 1 - maps.mean()

    def term(self, fixed):
        made, wanted = self.features(self.sizes, 3, self.pixels, self.pixels), torch.zeros(self.sizes, 3, self.pixels, self.pixels, device=DEVICE)
        return in_parts(self.similarity, 16, made, wanted) if fixed else self.similarity(made, wanted)


@fault("bias_of_every_layer", "buffers of every layer", "steps", without=WRAPPED)
class BiasOfEveryLayer(Fault):
    """Each layer has a buffer of its own with the same bias of all pairs of positions; the fixed form has one for all.

    Threads about ALiBi and about the masks of GPT-2's and GPT-J's attention, as buffers of the largest length in each layer.
    """

    def inject(self, target, fixed):
        share, heads, length = self.rng.uniform(1.5, 3.0), self.rng.choice([8, 16]), self.rng.choice([1024, 2048])

        def build():
            reserve = torch.cuda.memory_allocated() + (128 << 20)
            number = min(200, max(3, int(share * reserve / (4 * heads * length * length))))
            place = torch.arange(length, device=DEVICE)
            target.biases = torch.nn.ModuleList(torch.nn.Module() for _ in range(number))
            for k, layer in enumerate(target.biases):
                if fixed and k:
                    layer.register_buffer("bias", target.biases[0].bias)
                else:
                    slopes = torch.ones(heads, 1, 1, device=DEVICE)
                    layer.register_buffer("bias", slopes * (place[None] - place[:, None]).float())
        after_build(target, build)
