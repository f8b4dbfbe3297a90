"""Fine-tunes an encoder with Accelerate; the evaluation gathers the logits of the whole set for a metric.

https://github.com/huggingface/transformers/issues/8476
"""
import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import RobertaConfig, RobertaForMaskedLM

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args()
accelerator = Accelerator(mixed_precision="no")
model = RobertaForMaskedLM(RobertaConfig(vocab_size=30000, hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024))
train_loader = DataLoader(TensorDataset(torch.randint(5, 30000, (48, 128))), batch_size=8)
eval_loader = DataLoader(TensorDataset(torch.randint(5, 30000, (288, 128))), batch_size=16)
model, optimizer, train_loader, eval_loader = accelerator.prepare(model, torch.optim.AdamW(model.parameters(), lr=5e-5), train_loader, eval_loader)

for epoch in range(2):
    model.train()
    for ids, in train_loader:
        loss = model(input_ids=ids, labels=ids).loss
        accelerator.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
    model.eval()
    samples, references = [], []
    for ids, in eval_loader:
        with torch.no_grad():
            logits = model(input_ids=ids).logits
        if args.fixed:
            logits = logits.argmax(-1)
        samples.append(accelerator.gather_for_metrics(logits))
        references.append(accelerator.gather_for_metrics(ids))
    right = sum((s if args.fixed else s.argmax(-1)).eq(r).sum().item() for s, r in zip(samples, references))
    accelerator.print("epoch", epoch, "right", right)
