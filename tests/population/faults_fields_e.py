"""Faults as threads about out-of-memory errors tell them, field by field: logits in 32 bits, smoothed targets, distances of distributions, scores at full
resolution, late interaction, dense experts, dense graphs, concatenations, masks of packed rows, confusion, covariance, samples, beams, conversations."""
import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint

from amounts import rows, side
from core import DEVICE, Fault, fault
from faults_fields_b import WRAPPED
from faults_fields_c import Between
from faults_fields_d import in_parts
from faults_temporaries import Term


class OfTransformers(Fault):
    """A causal language model of transformers in a loop by hand, whose loss may be written anew."""

    def fits(self, target):
        from jobs_transformers import FromConfig
        return super().fits(target) and isinstance(target, FromConfig) and "reference" not in target.traits

    def wide(self, target):
        target.checkpointing, target.layers = False, min(target.layers, 3)
        target.vocabulary, target.length, target.size = self.rng.choice([48000, 64000, 96000]), min(target.length, 1024), min(target.size, 4)

    def hidden(self, target, tokens):
        with target.autocast():
            return target.model.base_model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state

    def parts_of_loss(self, target, hidden, tokens, do):
        """The sum of do(logits, tokens) over parts of the positions, each of which is computed again in the backward pass."""
        head = target.model.get_output_embeddings()

        def one(h, wanted):
            with target.autocast():
                return do(head(h), wanted)
        parts = zip(hidden[:, :-1].flatten(0, 1).chunk(16), tokens[:, 1:].flatten().chunk(16))
        return sum(checkpoint(one, h, wanted, use_reentrant=False) for h, wanted in parts)


@fault("logits_in_fp32", "logits", "decoder", "loop")
class LogitsInFp32(OfTransformers):
    """The loss as it stood in transformers for years: all logits to fp32, shifted by a copy, and then the cross-entropy.

    Threads about Llama 3 and Gemma, whose vocabularies made a spike of it; the fixed form goes over parts of the positions.
    """

    def inject(self, target, fixed):
        self.wide(target)

        def part(logits, wanted):
            return F.cross_entropy(logits.float(), wanted, reduction="sum")

        def loss(tokens):
            if fixed:
                return self.parts_of_loss(target, self.hidden(target, tokens), tokens, part) / tokens.numel()
            with target.autocast():
                logits = target.model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits.float()
            shifted, wanted = logits[..., :-1, :].contiguous(), tokens[..., 1:].contiguous()
            return F.cross_entropy(shifted.view(-1, shifted.shape[-1]), wanted.view(-1))
        target.loss = loss


@fault("log_softmax_of_everything", "logits", "decoder", "loop")
class LogSoftmaxOfEverything(OfTransformers):
    """A policy's loss: logits by a temperature, log_softmax over the vocabulary at every position, and of that the tokens that were told.

    Threads of TRL, verl and slime about log-probabilities; the fixed form goes over parts of the positions.
    """

    def inject(self, target, fixed):
        self.wide(target)
        temperature, entropy = self.rng.choice([0.7, 0.9, 1.2]), self.rng.random() < 0.5

        def told(logits, wanted):
            logs = torch.log_softmax(logits.float() / temperature, dim=-1)
            ratio = logs.gather(-1, wanted[..., None]).squeeze(-1)
            loss = -(ratio - ratio.detach()).exp().sum()
            return loss + 0.01 * (logs.exp() * logs).sum() if entropy else loss

        def loss(tokens):
            if fixed:
                return self.parts_of_loss(target, self.hidden(target, tokens), tokens, told) / tokens.numel()
            with target.autocast():
                logits = target.model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).logits[:, :-1]
            return told(logits, tokens[:, 1:]) / tokens.numel()
        target.loss = loss


@fault("smoothed_targets", "scores of all positions", "forward", without=WRAPPED)
class SmoothedTargets(Term):
    """Label smoothing by a distribution over the whole vocabulary for each position, where cross_entropy() has an argument for it."""

    def prepare(self):
        self.vocabulary, self.form = self.rng.choice([8000, 32000, 64000]), self.rng.choice(["full", "kl"])

    def measure(self):
        self.head = torch.nn.Linear(64, self.vocabulary, bias=False).to(DEVICE)
        return rows(self.share / 2, self.vocabulary)

    def whole(self, hidden, wanted):
        logits = self.head(hidden)
        smooth = torch.full_like(logits, 0.1 / self.vocabulary).scatter_(1, wanted[:, None], 0.9)
        logs = logits.log_softmax(-1)
        return F.kl_div(logs, smooth, reduction="batchmean") if self.form == "kl" else -(smooth * logs).sum(-1).mean()

    def part(self, hidden, wanted):
        return F.cross_entropy(self.head(hidden), wanted, label_smoothing=0.1)

    def term(self, fixed):
        hidden, wanted = self.features(self.sizes, 64), torch.zeros(self.sizes, dtype=torch.long, device=DEVICE)
        return in_parts(self.part, 16, hidden, wanted) if fixed else self.whole(hidden, wanted)


@fault("distance_over_vocabulary", "scores of all positions", "forward", without=WRAPPED)
class DistanceOverVocabulary(Term):
    """A divergence of two distributions over the whole vocabulary, at all positions at once, by way of their middle; the fixed form takes some positions at a time.

    Threads about distillation losses, generalized Jensen-Shannon ones among them.
    """

    def prepare(self):
        self.vocabulary, self.form = self.rng.choice([16000, 32000, 64000]), self.rng.choice(["middle", "reverse"])

    def measure(self):
        self.student, self.teacher = (torch.nn.Linear(64, self.vocabulary, bias=False).to(DEVICE) for _ in range(2))
        return rows(self.share / 4, self.vocabulary)

    def distance(self, hidden):
        with torch.no_grad():
            wanted = self.teacher(hidden).log_softmax(-1)
        told = self.student(hidden).log_softmax(-1)
        if self.form == "reverse":
            return (told.exp() * (told - wanted)).sum(-1).mean()
        middle = torch.logsumexp(torch.stack([told, wanted]), dim=0) - 0.6931
        return 0.5 * (F.kl_div(middle, told, log_target=True, reduction="batchmean") + F.kl_div(middle, wanted, log_target=True, reduction="batchmean"))

    def term(self, fixed):
        hidden = self.features(self.sizes, 64)
        return in_parts(self.distance, 16, hidden) if fixed else self.distance(hidden)


@fault("scores_at_full_resolution", "scores of all positions", "forward", without=WRAPPED)
class ScoresAtFullResolution(Term):
    """The scores of 150 classes are enlarged to the image's size before the loss, for the whole batch; the fixed form does so image by image.

    Threads about SegFormer and UPerNet on ADE20K.
    """

    def prepare(self):
        self.classes, self.form = self.rng.choice([19, 80, 150]), self.rng.choice(["interpolate", "softmax"])

    def measure(self):
        self.head = torch.nn.Conv2d(16, self.classes, 1).to(DEVICE)
        return max(16, rows(self.share / 2, self.classes * 128 * 128))

    def enlarged(self, features):
        scores = F.interpolate(self.head(features), scale_factor=4, mode="bilinear", align_corners=False)
        wanted = torch.zeros(len(scores), *scores.shape[2:], dtype=torch.long, device=DEVICE)
        if self.form == "softmax":
            return -scores.softmax(1)[:, 0].clamp(min=1e-6).log().mean()
        return F.cross_entropy(scores, wanted)

    def term(self, fixed):
        features = self.features(self.sizes, 16, 32, 32)
        return in_parts(self.enlarged, 16, features) if fixed else self.enlarged(features)


@fault("every_token_with_every_token", "whole sequence at once", "forward", without=WRAPPED)
class EveryTokenWithEveryToken(Term):
    """The products of each question's tokens with those of every passage of the batch, of which the largest count; the fixed form takes question after question.

    Threads about late interaction with large batches.
    """

    def prepare(self):
        self.asked, self.told, self.form = self.rng.choice([16, 32]), self.rng.choice([128, 180]), self.rng.choice(["einsum", "matmul"])

    def measure(self):
        return max(16, side(self.share / (self.asked * self.told)))

    def best(self, questions, passages):
        if self.form == "einsum":
            products = torch.einsum("aqd,bpd->abqp", questions, passages)
        else:
            products = questions[:, None] @ passages[None].transpose(-1, -2)
        return F.softmax(products, dim=-1).amax(-1).sum(-1).mean()

    def term(self, fixed):
        questions, passages = self.features(self.sizes, self.asked, 32), self.features(self.sizes, self.told, 32)
        if fixed:
            return sum(checkpoint(self.best, q, passages, use_reentrant=False) for q in questions.chunk(16)) / 16
        return self.best(questions, passages)


@fault("all_experts_for_all_tokens", "whole sequence at once", "forward", without=WRAPPED)
class AllExpertsForAllTokens(Term):
    """Each expert computes every token, and the router's weights, most of them zero, come after; the fixed form sends each expert its tokens.

    Threads about mixtures of experts that were written with einsum.
    """

    def prepare(self):
        self.experts, self.wide = self.rng.choice([8, 16, 32]), self.rng.choice([128, 256])

    def measure(self):
        self.up = torch.zeros(self.experts, 64, self.wide, device=DEVICE, requires_grad=True)
        self.down = torch.zeros(self.experts, self.wide, 64, device=DEVICE, requires_grad=True)
        return max(self.experts * 4, rows(self.share, 2 * self.experts * self.wide))

    def term(self, fixed):
        tokens, weights = self.features(self.sizes, 64), self.features(self.sizes, self.experts)
        if fixed:
            each = tokens.unflatten(0, (self.experts, -1)) if self.sizes % self.experts == 0 else tokens[:self.sizes // self.experts * self.experts].unflatten(0, (self.experts, -1))
            return torch.bmm(F.gelu(torch.bmm(each, self.up)), self.down).mean()
        hidden = F.gelu(torch.einsum("nd,edh->enh", tokens, self.up))
        return torch.einsum("enh,ehd,ne->nd", hidden, self.down, weights.softmax(-1)).mean()


@fault("dense_adjacency", "one huge temporary", "forward", without=WRAPPED)
class DenseAdjacency(Term):
    """A graph's adjacency, of some edges for each node, as a dense matrix that is normalised; the fixed form adds over edges."""

    def prepare(self):
        self.degree, self.form = self.rng.choice([4, 8]), self.rng.choice(["normalised", "self"])

    def measure(self):
        return side(self.share / 2)

    def term(self, fixed):
        n, x = self.sizes, self.features(self.sizes, self.width)
        end = torch.arange(n, device=DEVICE).repeat_interleave(self.degree)
        start = (end * 7 + 1) % n
        if fixed:
            return torch.zeros_like(x).index_add(0, end, x[start] / self.degree).mean()
        dense = torch.zeros(n, n, device=DEVICE)
        dense[end, start] = 1.0
        if self.form == "self":
            dense = dense + torch.eye(n, device=DEVICE)
        degree = dense.sum(1).clamp(min=1).rsqrt()
        return (degree[:, None] * dense * degree[None] @ x).mean()


@fault("everything_concatenated_again", "concatenations saved", "forward", without=WRAPPED)
class EverythingConcatenatedAgain(Term):
    """Each layer of a dense block takes all outputs before it, in a new tensor that is saved; the fixed form makes each concatenation again.

    torchvision's memory_efficient=True, and the report that it came from.
    """
    shares = 0.8, 1.4

    def prepare(self):
        self.growth, self.depth = self.rng.choice([16, 32]), self.rng.choice([8, 12])

    def measure(self):
        self.layers = torch.nn.ModuleList(torch.nn.Sequential(torch.nn.BatchNorm2d((k + 1) * self.growth), torch.nn.ReLU(), torch.nn.Conv2d((k + 1) * self.growth, self.growth, 1))
                                          for k in range(self.depth)).to(DEVICE)
        return max(4, rows(self.share, self.growth * 64 * 64 * self.depth * (self.depth + 1) // 2 * 3))

    def term(self, fixed):
        found = [self.features(self.sizes, self.growth, 64, 64)]
        for layer in self.layers:
            def more(*every, layer=layer):
                return layer(torch.cat(every, dim=1))
            found.append(checkpoint(more, *found, use_reentrant=False) if fixed else more(*found))
        return found[-1].mean()


@fault("mask_of_packed_rows", "mask of all pairs", "forward", without=WRAPPED)
class MaskOfPackedRows(Term):
    """Which token may see which, for packed rows, as numbers of fp32 for each row and head; the fixed form has attention for each document.

    Threads of transformers and axolotl about packing with masks of four dimensions.
    """

    def prepare(self):
        self.heads, self.documents, self.form = self.rng.choice([4, 8]), 16, self.rng.choice(["expanded", "added"])

    def measure(self):
        return max(64, side(self.share / (3 * self.heads)) // 64 * 64)

    def term(self, fixed):
        n, q = self.sizes, self.features(1, self.heads, self.sizes, 32)
        if fixed:
            parts = q.unflatten(2, (self.documents, -1)).transpose(1, 2).flatten(0, 1)
            return F.scaled_dot_product_attention(parts, parts, parts, is_causal=True).mean()
        document = torch.arange(n, device=DEVICE) // (n // self.documents)
        seen = (document[:, None] == document[None]) & torch.ones(n, n, dtype=torch.bool, device=DEVICE).tril()
        mask = torch.zeros(1, self.heads, n, n, device=DEVICE).masked_fill(~seen, torch.finfo(torch.float32).min)
        if self.form == "added":
            mask = mask + torch.zeros(self.heads, 1, 1, device=DEVICE)
        return F.scaled_dot_product_attention(q, q, q, attn_mask=mask).mean()


@fault("confusion_by_products", "temporary in an evaluation", "steps")
class ConfusionByProducts(Between):
    """A confusion matrix as the product of one-hot predictions and labels of all pixels; the fixed form counts them.

    Threads about metrics of segmentation.
    """
    shares = 0.8, 1.4

    def prepare(self, target):
        self.classes, self.form = self.rng.choice([21, 59, 150]), self.rng.choice(["one_hot", "eye"])

    def work(self, target, share):
        pixels = rows(share, self.classes * 3)
        told, wanted = torch.zeros(pixels, dtype=torch.long, device=DEVICE), torch.zeros(pixels, dtype=torch.long, device=DEVICE)
        if self.fixed:
            found = torch.zeros(self.classes ** 2, dtype=torch.long, device=DEVICE).index_add_(0, told * self.classes + wanted, torch.ones_like(told))
        elif self.form == "one_hot":
            found = F.one_hot(told, self.classes).float().T @ F.one_hot(wanted, self.classes).float()
        else:
            kinds = torch.eye(self.classes, device=DEVICE)
            found = torch.einsum("nc,nd->cd", kinds[told], kinds[wanted])
        target.confusion = found.sum().item()


@fault("covariance_of_rows", "temporary in an evaluation", "steps")
class CovarianceOfRows(Between):
    """torch.cov() takes rows for variables: with an example in each row, the matrix is examples times examples; the fixed form has the transposed features.

    Threads about scores of features, of anomalies and of generated images.
    """

    def prepare(self, target):
        self.width, self.form = self.rng.choice([64, 256]), self.rng.choice(["cov", "corrcoef"])

    def work(self, target, share):
        features = torch.zeros(side(share / 2), self.width, device=DEVICE)
        features = features.T if self.fixed else features
        target.spread = (torch.cov(features) if self.form == "cov" else torch.corrcoef(features)).mean().item()


@fault("samples_while_training", "generation in training", "decoder", "loop")
class SamplesWhileTraining(OfTransformers):
    """Between steps all prompts of a small set are continued by generate() at once, to be looked at; the fixed form takes a few at a time."""

    def inject(self, target, fixed):
        when, after_step, tokens, state = self.rng.randint(1, 2), target.after_step, 6, {}
        prompt, share, target.steps = self.rng.choice([256, 512]), self.rng.uniform(1.2, 2.0), when + 2
        target.layers, target.vocabulary = max(3, min(target.layers, 4)), min(target.vocabulary, 8000)

        def count(config):
            heads = getattr(config, "num_key_value_heads", config.num_attention_heads)
            width = getattr(config, "head_dim", None) or config.hidden_size // config.num_attention_heads
            return max(16, rows(share, 2 * config.num_hidden_layers * heads * width * prompt, target.model.dtype.itemsize))

        def look(i, loss):
            after_step(i, loss)
            if i != when:
                return
            state.setdefault("number", min(count(target.model.config), 4096))
            target.model.eval()
            prompts = torch.zeros(state["number"], prompt, dtype=torch.long)
            for part in prompts.chunk(16 if fixed else 1):
                part = part.to(DEVICE)
                with torch.no_grad(), target.autocast():
                    target.samples = target.model.generate(part, attention_mask=torch.ones_like(part), max_new_tokens=tokens, min_new_tokens=tokens, pad_token_id=0,
                                                           use_cache=True, do_sample=False).cpu()
            target.model.train()
        target.after_step = look


@fault("many_beams", "KV cache", "generate")
class ManyBeams(Fault):
    """num_beams for every prompt at once, as a recipe has it; the fixed form searches for a part of the prompts at a time."""

    def fits(self, target):
        return super().fits(target) and hasattr(target, "generate_arguments") and target.name != "decode_by_hand"

    def inject(self, target, fixed):
        parts, predict = self.rng.choice([4, 8]), target.predict
        target.generate_arguments = {**target.generate_arguments, "num_beams": self.rng.choice([4, 6]), "do_sample": False}
        target.new_tokens, target.size = min(target.new_tokens, 6), max(8, min(target.size, 16))
        if fixed:
            target.predict = lambda prompts: torch.cat([predict(part) for part in prompts.chunk(parts)])


@fault("hidden_states_of_generate", "results kept on the GPU", "generate")
class HiddenStatesOfGenerate(Fault):
    """generate() returns the hidden states of every layer and token, which an analysis keeps for all prompts; the fixed form has the last one of each on the host."""

    def fits(self, target):
        return super().fits(target) and hasattr(target, "generate_arguments") and target.name != "decode_by_hand"

    def inject(self, target, fixed):
        predict, kept, form = target.predict, [], self.rng.choice(["outputs", "stacked"])
        target.generate_arguments = {**target.generate_arguments, "output_hidden_states": True, "return_dict_in_generate": True}
        target.steps, target.new_tokens, target.size = self.rng.randint(7, 10), min(target.new_tokens, 6), min(target.size, 16)

        def analysed(prompts):
            told = predict(prompts)
            if fixed:
                kept.append(told.hidden_states[-1][-1][:, -1].cpu())
            elif form == "outputs":
                kept.append(told.hidden_states)
            else:
                kept.append([torch.stack(layers) for layers in told.hidden_states])
            return told.sequences
        target.predict = analysed


@fault("conversation_grows", "conversation that grows", "generate")
class ConversationGrows(Fault):
    """Each turn's prompt is all that was said before; the fixed form keeps the end of it.

    Threads about chats that die after some turns.
    """

    def fits(self, target):
        return super().fits(target) and hasattr(target, "generate_arguments")

    def inject(self, target, fixed):
        batch, history, target.steps = target.batch, {}, self.rng.randint(6, 9)
        target.new_tokens, target.size, target.prompt = min(target.new_tokens, 6), min(target.size, 32), min(target.prompt, 256)

        def turn(i):
            said = batch(i).cpu()
            history["said"] = torch.cat([history["said"], said], dim=1) if history else said
            if fixed:
                history["said"] = history["said"][:, -2 * target.prompt:]
            return history["said"].to(DEVICE)
        target.batch = turn


@fault("cache_for_the_longest", "static KV cache", "generate")
class CacheForTheLongest(Fault):
    """A static cache of the model's longest length for each sequence, of which a small part is used."""

    def fits(self, target):
        return super().fits(target) and hasattr(target, "generate_arguments") and target.name != "decode_by_hand"

    def inject(self, target, fixed):
        from transformers import StaticCache
        predict, arguments, times = target.predict, target.generate_arguments, self.rng.choice([6, 8, 12])
        target.size, target.new_tokens = min(target.size, 32), min(target.new_tokens, 6)

        def cached(prompts):
            used = prompts.shape[1] + target.new_tokens
            cache = StaticCache(config=target.model.config, max_cache_len=used * (1 if fixed else times))
            target.generate_arguments = {**arguments, "past_key_values": cache, "disable_compile": True}
            try:
                return predict(prompts)
            finally:
                target.generate_arguments = arguments
        target.predict = cached
