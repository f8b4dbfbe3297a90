"""Trains BERT and logs the entropy of its attention maps.

https://github.com/huggingface/transformers/issues/9387
"""
import argparse

import torch
from transformers import BertConfig, BertForTokenClassification

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
config = BertConfig(hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=2048, num_labels=9, max_position_embeddings=1024,
                    attn_implementation="sdpa" if args.fixed else "eager")
model = BertForTokenClassification(config).cuda()
optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
model.train()
for step in range(5):
    ids, labels = torch.randint(0, 30000, (8, 1024), device="cuda"), torch.randint(0, 9, (8, 1024), device="cuda")
    out = model(input_ids=ids, labels=labels, output_attentions=not args.fixed)
    optimizer.zero_grad()
    out.loss.backward()
    optimizer.step()
    line = "step %d loss %.3f" % (step, out.loss.item())
    if out.attentions:
        entropy = [-(a.detach()[0] * (a.detach()[0] + 1e-9).log()).sum(-1).mean().item() for a in out.attentions]
        line += " entropy %.2f" % (sum(entropy) / len(entropy))
    print(line)
