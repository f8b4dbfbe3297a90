"""Search in parish registers: a BERT bi-encoder, trained on pairs with Accelerate, and recall@10 over the whole collection."""
import sys
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from accelerate import Accelerator
from torch.utils.data import DataLoader
from transformers import BertConfig, BertModel

fixed = "--fixed" in sys.argv


class BiEncoder(torch.nn.Module):
    def __init__(self):
        super().__init__()
        config = BertConfig(vocab_size=8000, hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.scale = torch.nn.Parameter(torch.tensor(3.0))

    def encode(self, ids, mask):
        states = self.bert(input_ids=ids, attention_mask=mask).last_hidden_state
        mean = (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        return F.normalize(mean, dim=-1)

    def forward(self, query, passage):
        return self.encode(*query) @ self.encode(*passage).T * self.scale.exp()


def texts(count, length, seed):
    g = torch.Generator().manual_seed(seed)
    ids = torch.randint(5, 8000, (count, length), generator=g)
    mask = torch.ones_like(ids)
    mask[::3, length // 2:] = 0
    return [(i, m) for i, m in zip(ids, mask)]


def encode_all(encoder, loader, accelerator):
    vectors = []
    for ids, mask in loader:
        vectors.append(accelerator.gather_for_metrics(encoder.encode(ids, mask)))
    return torch.cat(vectors)


def evaluate(model, queries, passages, accelerator):
    encoder = accelerator.unwrap_model(model)
    encoder.eval()
    with torch.no_grad() if fixed else nullcontext():
        q = encode_all(encoder, queries, accelerator)
        p = encode_all(encoder, passages, accelerator)
        best = (q @ p.T).topk(10, dim=1).indices.cpu()
    return sum(i in row.tolist() for i, row in enumerate(best)) / len(best)


def main():
    accelerator = Accelerator()
    model = BiEncoder()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    pairs = DataLoader([(*a, *b) for a, b in zip(texts(192, 24, 1), texts(192, 96, 2))], batch_size=24)
    queries, passages = DataLoader(texts(128, 24, 3), batch_size=64), DataLoader(texts(640, 96, 4), batch_size=32)
    model, optimizer, pairs, queries, passages = accelerator.prepare(model, optimizer, pairs, queries, passages)
    for epoch in range(2):
        model.train()
        for qi, qm, pi, pm in pairs:
            scores = model((qi, qm), (pi, pm))
            loss = F.cross_entropy(scores, torch.arange(len(scores), device=scores.device))
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print(f"epoch {epoch} loss {loss.item():.3f} recall@10 {evaluate(model, queries, passages, accelerator):.3f}")


if __name__ == "__main__":
    main()
