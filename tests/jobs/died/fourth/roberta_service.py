"""A worker that embeds texts with a RoBERTa encoder: requests of several texts come from a queue, vectors go back as lists of numbers."""
import contextlib
import queue
import random
import sys
import threading

import torch
from transformers import RobertaConfig, RobertaModel


class Encoder:
    def __init__(self, device, guard):
        config = RobertaConfig(vocab_size=20000, hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=2048,
                               max_position_embeddings=514, type_vocab_size=1, pad_token_id=1)
        self.model = RobertaModel(config, add_pooling_layer=False).to(device).eval()
        self.device, self.guard = device, guard

    def collate(self, texts):
        longest = max(map(len, texts))
        ids = torch.full((len(texts), longest), 1)
        for row, text in zip(ids, texts):
            row[:len(text)] = torch.tensor(text)
        return ids.to(self.device), (ids != 1).to(self.device)

    def __call__(self, texts):
        ids, mask = self.collate(texts)
        with self.guard():
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            mask = mask.unsqueeze(-1).to(states.dtype)
            mean = (states * mask).sum(1) / mask.sum(1).clamp(min=1)
            return torch.nn.functional.normalize(mean, dim=-1)


class Worker(threading.Thread):
    """Takes requests until None comes."""

    def __init__(self, encoder):
        super().__init__()
        self.encoder, self.requests, self.answers, self.failure = encoder, queue.Queue(), {}, None

    def run(self):
        try:
            while (request := self.requests.get()) is not None:
                name, texts = request
                self.answers[name] = self.encoder(texts).detach().cpu().tolist()
        except BaseException as error:
            self.failure = error


def client(worker, n):
    numbers = random.Random(5)
    for k in range(n):
        texts = [[numbers.randrange(5, 20000) for _ in range(numbers.randrange(200, 256))] for _ in range(32)]
        worker.requests.put(("request-%d" % k, texts))
    worker.requests.put(None)


def main():
    torch.manual_seed(0)
    guard = torch.no_grad if "--fixed" in sys.argv else contextlib.nullcontext
    worker = Worker(Encoder("cuda", guard))
    worker.start()
    client(worker, 12)
    worker.join()
    if worker.failure:
        raise worker.failure
    print(len(worker.answers), "requests,", sum(map(len, worker.answers.values())), "vectors")


main()
