"""Classifies patents of 2048 tokens with a BERT whose positions were extended; attn_implementation="eager" had been set for an attention plot."""
import sys

import torch
from transformers import BertConfig, BertForSequenceClassification, get_linear_schedule_with_warmup

implementation = "sdpa" if "--fixed" in sys.argv else "eager"
config = BertConfig(hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=2048, max_position_embeddings=2048, num_labels=9,
                    attn_implementation=implementation)
model = BertForSequenceClassification(config)
model.cuda()
model.train()
decay = [p for p in model.parameters() if p.ndim > 1]
rest = [p for p in model.parameters() if p.ndim <= 1]
optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.01}, {"params": rest, "weight_decay": 0.0}], lr=3e-5)
scheduler = get_linear_schedule_with_warmup(optimizer, 10, 100)

for step in range(5):
    batch = {"input_ids": torch.randint(1000, 30000, (4, 2048)), "attention_mask": torch.ones(4, 2048, dtype=torch.long),
             "labels": torch.randint(0, 9, (4,))}
    batch = {k: v.cuda() for k, v in batch.items()}
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(**batch).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    scheduler.step()
    optimizer.zero_grad(set_to_none=True)
    print(f"step {step}: {loss.item():.4f}")
