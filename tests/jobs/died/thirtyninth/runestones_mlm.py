"""Masked language modelling on runic inscriptions with a vocabulary of 60000 word forms."""
import sys

import torch
import torch.nn.functional as F
from transformers import BertConfig, BertForMaskedLM, get_cosine_schedule_with_warmup

VOCAB, MASK_ID, LENGTH, BATCH = 60000, 4, 192, 16
only_masked = "--fixed" in sys.argv


class MaskingCollator:
    def __init__(self, rate=0.15, seed=9):
        self.rate, self.gen = rate, torch.Generator().manual_seed(seed)

    def __call__(self, texts):
        ids = torch.stack(texts)
        chosen = torch.rand(ids.shape, generator=self.gen) < self.rate
        labels = ids.masked_fill(~chosen, -100)
        return {
            "input_ids": ids.masked_fill(chosen, MASK_ID),
            "labels": labels,
            "positions": chosen.flatten().nonzero().squeeze(1),
        }


def corpus(n, seed=10):
    g = torch.Generator().manual_seed(seed)
    return [torch.randint(5, VOCAB, (LENGTH,), generator=g) for _ in range(n)]


def masked_lm_loss(model, batch):
    ids = batch["input_ids"].cuda()
    if only_masked:
        hidden = model.bert(ids).last_hidden_state.flatten(0, 1)
        hidden = hidden.index_select(0, batch["positions"].cuda())
        targets = batch["labels"].flatten()[batch["positions"]].cuda()
        return F.cross_entropy(model.cls(hidden), targets)
    return model(input_ids=ids, labels=batch["labels"].cuda()).loss


def main():
    config = BertConfig(vocab_size=VOCAB, hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024,
                        max_position_embeddings=256)
    model = BertForMaskedLM(config).cuda()
    model.train()
    no_decay = [p for p in model.parameters() if p.ndim < 2]
    decay = [p for p in model.parameters() if p.ndim >= 2]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": no_decay, "weight_decay": 0.0}], lr=2e-4)
    schedule = get_cosine_schedule_with_warmup(optimizer, 2, 8)
    loader = torch.utils.data.DataLoader(corpus(BATCH * 8), batch_size=BATCH, collate_fn=MaskingCollator())
    for step, batch in enumerate(loader):
        loss = masked_lm_loss(model, batch)
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(step, loss.item())


main()
