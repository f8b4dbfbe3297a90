"""Scores transcripts of telephone calls for fraud. A new model is published each night; the service reloads without a pause."""
import sys
import time

import torch
from transformers import MPNetConfig, MPNetForSequenceClassification

SHAPE = dict(vocab_size=30000, hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=2048, num_labels=2)


class Registry:
    """The models by version; the newest answers."""

    def __init__(self, device):
        self.device = device
        self.models = {}
        self.current = None

    def publish(self, version):
        model = MPNetForSequenceClassification(MPNetConfig(**SHAPE)).eval()
        if "--fixed" in sys.argv:
            self.models.clear()
        self.models[version] = model.to(self.device)
        self.current = version

    def __call__(self, ids):
        return self.models[self.current](input_ids=ids).logits


class Service:
    def __init__(self):
        self.registry = Registry("cuda")
        self.answered = 0

    @torch.inference_mode()
    def score(self, calls):
        ids = torch.nn.utils.rnn.pad_sequence(calls, batch_first=True, padding_value=1)
        out = self.registry(ids.to("cuda")).softmax(-1)[:, 1]
        self.answered += len(calls)
        return out.cpu().tolist()


def traffic(generator, requests=5):
    for _ in range(requests):
        yield [torch.randint(2, 30000, (int(n),), generator=generator) for n in torch.randint(40, 240, (16,), generator=generator)]


service = Service()
generator = torch.Generator().manual_seed(9)
for night in range(9):
    service.registry.publish(f"2024-03-{night + 1:02d}")
    start = time.time()
    for calls in traffic(generator):
        service.score(calls)
    print(service.registry.current, "answered", service.answered, f"{time.time() - start:.1f} s")
