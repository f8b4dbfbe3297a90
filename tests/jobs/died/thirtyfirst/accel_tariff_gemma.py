"""Customs broker: Gemma learns tariff codes from goods descriptions (Accelerate, gradient checkpointing)."""
import argparse

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import GemmaConfig, GemmaForCausalLM

VOCAB, LENGTH = 4000, 512


def declarations(n, seed):
    ids = torch.randint(0, VOCAB, (n, LENGTH), generator=torch.Generator().manual_seed(seed))
    return TensorDataset(ids)


def evaluate(accelerator, model, loader):
    model.eval()
    losses = []
    with torch.no_grad():
        for (ids,) in loader:
            loss = model(input_ids=ids, labels=ids).loss
            losses.append(accelerator.gather_for_metrics(loss.repeat(len(ids))).cpu())
    return torch.cat(losses).mean().item()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--train_batch", type=int, default=8)
    parser.add_argument("--eval_batch", type=int, default=4)
    parser.add_argument("--eval_every", type=int, default=4)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()

    accelerator = Accelerator()
    config = GemmaConfig(vocab_size=VOCAB, hidden_size=384, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=6,
                         num_key_value_heads=2, head_dim=64, use_cache=False)
    model = GemmaForCausalLM(config)
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    train = DataLoader(declarations(args.train_batch * 9, 1), batch_size=args.train_batch, shuffle=True)
    test = DataLoader(declarations(args.eval_batch * 3, 2), batch_size=args.eval_batch)
    model, optimizer, train, test = accelerator.prepare(model, optimizer, train, test)

    model.train()
    for step, (ids,) in enumerate(train, 1):
        if args.fixed:
            model.train()
        loss = model(input_ids=ids, labels=ids).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print(f"step {step} loss {loss.item():.4f}")
        if step % args.eval_every == 0:
            accelerator.print("eval", evaluate(accelerator, model, test))


if __name__ == "__main__":
    main()
