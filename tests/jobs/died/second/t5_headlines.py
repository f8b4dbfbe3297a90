"""Headlines for news articles with T5, a plain loop; every few steps the loss on held-out articles, in larger batches.

After https://github.com/pytorch/pytorch/issues/958 and https://blog.csdn.net/qq_61888524/article/details/120814456
"""
import argparse

import torch
from transformers import T5Config, T5ForConditionalGeneration

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--train-batch", type=int, default=8)
parser.add_argument("--valid-batch", type=int, default=32)
parser.add_argument("--source", type=int, default=384)
parser.add_argument("--target", type=int, default=48)
args = parser.parse_args()

config = T5Config(vocab_size=32128, d_model=512, d_kv=64, d_ff=1536, num_layers=6, num_heads=8, dropout_rate=0.1, decoder_start_token_id=0)
model = T5ForConditionalGeneration(config).to("cuda")
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)


def articles(n, batch_size):
    for _ in range(n):
        source = torch.randint(5, 32000, (batch_size, args.source))
        yield {"input_ids": source, "attention_mask": torch.ones_like(source),
               "labels": torch.randint(5, 32000, (batch_size, args.target))}


def to_gpu(batch):
    return {k: v.to("cuda") for k, v in batch.items()}


def evaluate():
    model.eval()
    losses = []
    for batch in articles(3, args.valid_batch):
        losses.append(model(**to_gpu(batch)).loss.item())
    model.train()
    return sum(losses) / len(losses)


if args.fixed:
    evaluate = torch.no_grad()(evaluate)

model.train()
for step, batch in enumerate(articles(8, args.train_batch), 1):
    loss = model(**to_gpu(batch)).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    print(step, loss.item())
    if step % 4 == 0:
        print("validation", evaluate())
