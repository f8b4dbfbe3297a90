"""Trains a bi-encoder for help pages (two BERT towers) under Accelerate; vectors of earlier batches serve as negatives beside those of the batch."""
import sys

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import BertConfig, BertModel

LIMIT = 2048 if "--fixed" in sys.argv else None


class Tower(nn.Module):
    def __init__(self, out=1024):
        super().__init__()
        self.bert = BertModel(BertConfig(vocab_size=8000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                                         max_position_embeddings=64), add_pooling_layer=False)
        self.head = nn.Linear(256, out)

    def forward(self, ids):
        return F.normalize(self.head(self.bert(input_ids=ids).last_hidden_state.mean(1)), dim=-1)


class BiEncoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.questions, self.pages = Tower(), Tower()
        self.bank = None

    def remember(self, pages):
        pages = pages.detach()
        self.bank = pages if self.bank is None else torch.cat([self.bank, pages])
        if LIMIT:
            self.bank = self.bank[-LIMIT:]

    def forward(self, questions, pages):
        q, p = self.questions(questions), self.pages(pages)
        candidates = p if self.bank is None else torch.cat([p, self.bank])
        loss = F.cross_entropy(q @ candidates.T / 0.05, torch.arange(len(q), device=q.device))
        self.remember(p)
        return loss


def main():
    torch.manual_seed(5)
    accelerator = Accelerator()
    model = BiEncoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    data = TensorDataset(torch.randint(0, 8000, (512 * 60, 12)), torch.randint(0, 8000, (512 * 60, 12)))
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(data, batch_size=512, shuffle=True))
    for step, (questions, pages) in enumerate(loader):
        loss = model(questions, pages)
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        if step % 10 == 0:
            accelerator.print("step", step, "loss", loss.item(), "negatives", len(accelerator.unwrap_model(model).bank))


main()
