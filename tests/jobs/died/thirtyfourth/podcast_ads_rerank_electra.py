"""Cross-encoder (ELECTRA) that ranks adverts for a podcast episode; after each epoch we look at MRR on the dev queries."""
import sys

import torch
from transformers import ElectraConfig, ElectraForSequenceClassification, get_linear_schedule_with_warmup

device = torch.device("cuda")
rng = torch.Generator().manual_seed(77)


def fake_pairs(n, length=160):
    ids = torch.randint(5, 20000, (n, length), generator=rng)
    types = (torch.arange(length) > 100).long().expand(n, -1)
    return ids, types


class Reranker:
    def __init__(self):
        cfg = ElectraConfig(vocab_size=20000, embedding_size=128, hidden_size=256, num_hidden_layers=8, num_attention_heads=4,
                            intermediate_size=1024, num_labels=1)
        self.net = ElectraForSequenceClassification(cfg).to(device)
        self.opt = torch.optim.AdamW(self.net.parameters(), lr=5e-5)
        self.sched = get_linear_schedule_with_warmup(self.opt, 2, 20)

    def score(self, ids, types):
        return self.net(input_ids=ids.to(device), token_type_ids=types.to(device)).logits.squeeze(-1)

    def fit_epoch(self, steps):
        self.net.train()
        for _ in range(steps):
            ids, types = fake_pairs(16)
            labels = torch.randint(0, 2, (16,), generator=rng).float().to(device)
            loss = torch.nn.functional.binary_cross_entropy_with_logits(self.score(ids, types), labels)
            self.opt.zero_grad()
            loss.backward()
            self.opt.step()
            self.sched.step()
        return loss.item()

    def dev_mrr(self, queries=24, candidates=20):
        self.net.eval()
        all_scores = []
        for _ in range(queries):
            all_scores.append(self.score(*fake_pairs(candidates)))
        table = torch.stack(all_scores)
        rank = (table > table[:, :1]).sum(1) + 1
        return (1.0 / rank.float()).mean().item()


if "--fixed" in sys.argv:
    Reranker.dev_mrr = torch.no_grad()(Reranker.dev_mrr)

ranker = Reranker()
for epoch in range(2):
    print(f"epoch {epoch}: loss {ranker.fit_epoch(6):.3f}, MRR {ranker.dev_mrr():.3f}")
