"""Tags the names of knots, ropes and tools in a seaman's manual (ERNIE, accelerate)."""
import contextlib
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import ErnieConfig, ErnieForTokenClassification

TAGS = ("O", "B-KNOT", "I-KNOT", "B-ROPE", "I-ROPE", "B-TOOL", "I-TOOL")


def sentences(n, length, seed):
    rng = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randint(1, 12000, (n, length), generator=rng), torch.randint(len(TAGS), (n, length), generator=rng))


class TagCounter:
    def __init__(self):
        self.hits = torch.zeros(len(TAGS), dtype=torch.long)
        self.seen = torch.zeros(len(TAGS), dtype=torch.long)

    def update(self, guess, truth):
        for tag in range(len(TAGS)):
            self.seen[tag] += (truth == tag).sum()
            self.hits[tag] += ((truth == tag) & (guess == tag)).sum()

    def recall(self):
        return {name: f"{hit / max(1, seen):.2f}" for name, hit, seen in zip(TAGS, self.hits.tolist(), self.seen.tolist())}


def check(accelerator, model, loader):
    counter, total = TagCounter(), 0.0
    model.eval()
    with torch.no_grad() if "--fixed" in sys.argv else contextlib.nullcontext():
        for ids, tags in loader:
            out = model(input_ids=ids, labels=tags)
            total += out.loss.item()
            guess, truth = accelerator.gather_for_metrics((out.logits.argmax(-1), tags))
            counter.update(guess.cpu(), truth.cpu())
    model.train()
    return total / len(loader), counter.recall()


def main():
    accelerator = Accelerator()
    config = ErnieConfig(vocab_size=12000, hidden_size=320, num_hidden_layers=6, num_attention_heads=5, intermediate_size=1280,
                         max_position_embeddings=256, num_labels=len(TAGS))
    model = ErnieForTokenClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    train = DataLoader(sentences(96, 160, 1), batch_size=12, shuffle=True)
    held_out = DataLoader(sentences(288, 160, 2), batch_size=96)
    model, optimizer, train, held_out = accelerator.prepare(model, optimizer, train, held_out)
    for epoch in range(2):
        for ids, tags in train:
            loss = model(input_ids=ids, labels=tags).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print(epoch, *check(accelerator, model, held_out))


main()
