"""Translates menus with a T5, with label smoothing."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F
from transformers import T5Config, T5ForConditionalGeneration

VOCAB = 26000


class LabelSmoothingLoss(nn.Module):
    def __init__(self, classes, smoothing=0.1, ignore=-100):
        super().__init__()
        self.classes, self.smoothing, self.ignore = classes, smoothing, ignore

    def forward(self, logits, target):
        if "--fixed" in sys.argv:
            return F.cross_entropy(logits.flatten(0, 1), target.flatten(), ignore_index=self.ignore, label_smoothing=self.smoothing)
        keep = target != self.ignore
        true = F.one_hot(target.clamp(min=0), self.classes)
        smooth = true * (1.0 - self.smoothing) + self.smoothing / self.classes
        loss = -(smooth * logits.log_softmax(-1)).sum(-1)
        return (loss * keep).sum() / keep.sum()


class Menus:
    def __init__(self, batch=32, source=96, target=96, steps=8):
        self.g = torch.Generator().manual_seed(1)
        self.shape, self.steps = (batch, source, target), steps

    def __iter__(self):
        batch, source, target = self.shape
        for _ in range(self.steps):
            labels = torch.randint(2, VOCAB, (batch, target), generator=self.g)
            labels[:, target - 12:] = -100
            yield {"input_ids": torch.randint(2, VOCAB, (batch, source), generator=self.g), "labels": labels}


def main():
    model = T5ForConditionalGeneration(T5Config(vocab_size=VOCAB, d_model=192, d_kv=48, d_ff=512, num_layers=3, num_heads=4,
                                                decoder_start_token_id=0, pad_token_id=0)).cuda()
    criterion = LabelSmoothingLoss(VOCAB)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for i, batch in enumerate(Menus()):
        batch = {k: v.cuda() for k, v in batch.items()}
        decoder_input = model._shift_right(batch["labels"])
        logits = model(input_ids=batch["input_ids"], decoder_input_ids=decoder_input, use_cache=False).logits
        loss = criterion(logits, batch["labels"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(i, loss.item())


main()
