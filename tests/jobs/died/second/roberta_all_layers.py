"""Fine-tunes all of a RoBERTa for sentence pairs; batches are small, so that it "should fit".

After https://github.com/pytorch/pytorch/issues/9439 and
https://techonboom.com/how-to-fix-cuda-out-of-memory-errors-when-fine-tuning-llms-on-pytorch
"""
import argparse

import torch
from transformers import RobertaConfig, RobertaForSequenceClassification, get_linear_schedule_with_warmup


def pairs(steps, batch, length):
    for _ in range(steps):
        ids = torch.randint(10, 50000, (batch, length))
        yield {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": torch.randint(3, (batch,))}


def parameters(model, layers):
    """Those of the head and of the last LAYERS layers, or all."""
    if layers < 0:
        return list(model.parameters())
    model.requires_grad_(False)
    for part in [model.classifier, *model.roberta.encoder.layer[len(model.roberta.encoder.layer) - layers:]]:
        part.requires_grad_(True)
    return [p for p in model.parameters() if p.requires_grad]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--length", type=int, default=64)
    parser.add_argument("--layers", type=int, default=-1)
    args = parser.parse_args()
    torch.manual_seed(1)
    config = RobertaConfig(vocab_size=50265, hidden_size=768, num_hidden_layers=10, num_attention_heads=12, intermediate_size=3072, num_labels=3,
                           max_position_embeddings=514)
    with torch.device("cuda"):
        model = RobertaForSequenceClassification(config)
    optimizer = torch.optim.AdamW(parameters(model, 3 if args.fixed else args.layers), lr=2e-5, weight_decay=0.01)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 8)
    model.train()
    for step, batch in enumerate(pairs(8, args.batch, args.length)):
        batch = {k: v.cuda() for k, v in batch.items()}
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())


if __name__ == "__main__":
    main()
