"""Few-shot intents: first-order MAML over a small BERT, five inner steps on the support set, one query loss per task."""
import argparse

import torch
import torch.nn.functional as F
from torch.func import functional_call
from transformers import BertConfig, BertForSequenceClassification

ap = argparse.ArgumentParser()
ap.add_argument("--fixed", action="store_true")
ap.add_argument("--inner-steps", type=int, default=5)
ap.add_argument("--inner-lr", type=float, default=1e-2)
ap.add_argument("--tasks", type=int, default=4)
ap.add_argument("--ways", type=int, default=5)
args = ap.parse_args()

cfg = BertConfig(vocab_size=8000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024, num_labels=args.ways,
                 max_position_embeddings=64)
net = BertForSequenceClassification._from_config(cfg, attn_implementation="eager").to("cuda")
meta = torch.optim.Adam(net.parameters(), lr=1e-4)
rng = torch.Generator().manual_seed(8)


def episode(shots=5, queries=10, length=32):
    def draw(per_way):
        n = per_way * args.ways
        return torch.randint(4, 8000, (n, length), generator=rng).cuda(), torch.arange(args.ways).repeat(per_way).cuda()
    return draw(shots), draw(queries)


def task_loss(weights, ids, labels):
    return F.cross_entropy(functional_call(net, weights, kwargs={"input_ids": ids}).logits, labels)


def adapt(ids, labels):
    """Weights after the inner loop; the meta gradient is that of the query loss at these weights."""
    weights = dict(net.named_parameters())
    for _ in range(args.inner_steps):
        loss = task_loss(weights, ids, labels)
        grads = torch.autograd.grad(loss, list(weights.values()), create_graph=not args.fixed, allow_unused=True)
        weights = {k: w if g is None else w - args.inner_lr * g for (k, w), g in zip(weights.items(), grads)}
    return weights


net.train()
for iteration in range(4):
    meta.zero_grad()
    total = 0.0
    for _ in range(args.tasks):
        support, query = episode()
        loss = task_loss(adapt(*support), *query) / args.tasks
        loss.backward()
        total += loss.item()
    torch.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
    meta.step()
    print("iteration", iteration, "query loss", total)
