"""Coreference in long articles: mentions are spans of a BERT's states, and a small network scores each mention with its antecedents."""
import sys

import torch
import torch.nn as nn
from transformers import BertConfig, BertModel

FIXED = "--fixed" in sys.argv
MAX_ANTECEDENTS = 50


class CorefModel(nn.Module):
    def __init__(self, dim=256):
        super().__init__()
        config = BertConfig(vocab_size=8000, hidden_size=dim, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024)
        self.bert = BertModel(config, add_pooling_layer=False)
        self.span = nn.Linear(2 * dim, dim)
        self.distance = nn.Embedding(10, 32)
        self.pair_scorer = nn.Sequential(nn.Linear(3 * dim + 32, 150), nn.ReLU(), nn.Dropout(0.2), nn.Linear(150, 1))

    def mentions(self, segments, starts, ends):
        tokens = self.bert(input_ids=segments).last_hidden_state.flatten(0, 1)
        return torch.tanh(self.span(torch.cat([tokens[starts], tokens[ends]], -1)))

    def score(self, spans, antecedents, offset):
        """Scores of spans (m, d) with their antecedents (m, k, d)."""
        anaphors = spans[:, None, :].expand_as(antecedents)
        bucket = offset.clamp(1, 512).float().log2().long()
        pair = torch.cat([anaphors, antecedents, anaphors * antecedents, self.distance(bucket)], -1)
        return self.pair_scorer(pair).squeeze(-1)

    def forward(self, segments, starts, ends):
        spans = self.mentions(segments, starts, ends)
        order = torch.arange(len(spans), device=spans.device)
        if FIXED:
            index = (order[:, None] - torch.arange(1, MAX_ANTECEDENTS + 1, device=spans.device)).clamp_min(0)
            scores = self.score(spans, spans[index], order[:, None] - index)
        else:
            everyone = spans[None].expand(len(spans), -1, -1)
            offset = order[:, None] - order[None, :]
            scores = self.score(spans, everyone, offset).masked_fill(offset <= 0, -1e4)
        return torch.cat([scores.new_zeros(len(spans), 1), scores], 1)


def article(generator, words=8 * 320, spans=760):
    ids = torch.randint(5, 8000, (8, 320), generator=generator)
    starts = torch.randint(0, words - 8, (spans,), generator=generator).sort().values
    ends = starts + torch.randint(0, 8, (spans,), generator=generator)
    gold = torch.randint(0, MAX_ANTECEDENTS, (spans,), generator=generator)
    return ids, starts, ends, gold


generator = torch.Generator().manual_seed(31)
model = CorefModel().cuda()
optimizer = torch.optim.AdamW([{"params": model.bert.parameters(), "lr": 1e-5},
                               {"params": [p for n, p in model.named_parameters() if not n.startswith("bert")], "lr": 3e-4}])
for step in range(6):
    ids, starts, ends, gold = (t.cuda() for t in article(generator))
    loss = nn.functional.cross_entropy(model(ids, starts, ends), gold)
    optimizer.zero_grad()
    loss.backward()
    nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    print("article", step, "loss", loss.item())
