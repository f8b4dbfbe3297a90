"""Tags names in news with a small BERT under Accelerate and prints the F1 on the training sentences after each epoch."""
import sys
from dataclasses import dataclass

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertForTokenClassification, get_linear_schedule_with_warmup

FIXED = "--fixed" in sys.argv


@dataclass
class Settings:
    vocabulary: int = 12000
    tags: int = 9
    length: int = 192
    batch: int = 16
    sentences: int = 320
    epochs: int = 2
    lr: float = 3e-5


def loader(s):
    ids = torch.randint(1, s.vocabulary, (s.sentences, s.length))
    labels = torch.randint(0, s.tags, (s.sentences, s.length))
    mask = torch.ones_like(ids)
    return DataLoader(TensorDataset(ids, mask, labels), batch_size=s.batch, shuffle=True)


def macro_f1(predicted, truth, tags):
    scores = []
    for t in range(tags):
        hit = ((predicted == t) & (truth == t)).sum().item()
        both = (predicted == t).sum().item() + (truth == t).sum().item()
        scores.append(2 * hit / max(both, 1))
    return sum(scores) / tags


def main():
    s = Settings()
    accelerator = Accelerator()
    config = BertConfig(vocab_size=s.vocabulary, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                        num_labels=s.tags, output_hidden_states=True)
    model = BertForTokenClassification(config)
    optimizer = torch.optim.AdamW(model.parameters(), lr=s.lr)
    schedule = get_linear_schedule_with_warmup(optimizer, 4, s.epochs * s.sentences // s.batch)
    model, optimizer, train, schedule = accelerator.prepare(model, optimizer, loader(s), schedule)
    for epoch in range(s.epochs):
        model.train()
        outputs, truth = [], []
        for ids, mask, labels in train:
            out = model(input_ids=ids, attention_mask=mask, labels=labels)
            accelerator.backward(out.loss)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
            outputs.append(out.logits.detach().argmax(-1).cpu() if FIXED else out)
            truth.append(labels.cpu())
        predicted = torch.cat(outputs if FIXED else [o.logits.argmax(-1).cpu() for o in outputs])
        accelerator.print(epoch, "f1", macro_f1(predicted, torch.cat(truth), s.tags))


main()
