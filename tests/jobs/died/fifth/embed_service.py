"""A service that embeds documents for a search page: requests of a queue, a small encoder, and answers that are remembered."""
import collections
import hashlib
import random
import sys

import torch
from transformers import BertConfig, BertModel

FIXED = "--fixed" in sys.argv


class Service:
    def __init__(self, vocabulary=8000, limit=64):
        config = BertConfig(vocab_size=vocabulary, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                            attn_implementation="eager")
        self.model = BertModel(config, add_pooling_layer=False).to("cuda", torch.float16).eval()
        self.vocabulary, self.limit = vocabulary, limit
        self.answers = collections.OrderedDict()
        self.counts = collections.Counter()

    def tokens(self, text):
        return [hash(w) % self.vocabulary for w in text.split()][:512]

    @torch.inference_mode()
    def embed(self, texts):
        rows = [torch.tensor(self.tokens(t)) for t in texts]
        ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)
        out = self.model(input_ids=ids.cuda(), attention_mask=(ids > 0).long().cuda())
        return out.last_hidden_state

    def handle(self, texts):
        """The vectors of the tokens of each text, for late interaction."""
        key = hashlib.sha256("\n".join(texts).encode()).hexdigest()
        if key in self.answers:
            self.counts["hit"] += 1
            return self.answers[key]
        self.counts["miss"] += 1
        vectors = self.embed(texts)
        self.answers[key] = vectors
        if FIXED:
            self.answers[key] = vectors = vectors.cpu()
            while len(self.answers) > self.limit:
                self.answers.popitem(last=False)
        return vectors


def requests(n, seed=6):
    draw = random.Random(seed)
    words = ["w%d" % k for k in range(5000)]
    for _ in range(n):
        length = draw.randrange(120, 256)
        yield [" ".join(draw.choices(words, k=length)) for _ in range(16)]


def main():
    service = Service()
    for number, texts in enumerate(requests(240)):
        vectors = service.handle(texts)
        if number % 40 == 0:
            print("request", number, tuple(vectors.shape), dict(service.counts))


main()
