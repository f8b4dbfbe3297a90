"""Continued pretraining of a small Mistral on surveyors' diaries, with an evaluation every four steps."""
import argparse

import torch
from transformers import MistralConfig, MistralForCausalLM


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--fixed", action="store_true")
    p.add_argument("--steps", type=int, default=10)
    p.add_argument("--eval_every", type=int, default=4)
    p.add_argument("--seq_len", type=int, default=1024)
    p.add_argument("--bs", type=int, default=8)
    p.add_argument("--lr", type=float, default=3e-4)
    return p.parse_args()


def diaries(args, seed):
    gen = torch.Generator().manual_seed(seed)
    while True:
        yield torch.randint(3, 4000, (args.bs, args.seq_len), generator=gen).cuda()


def evaluate(model, args, rounds=3):
    model.eval()
    held_out, losses = diaries(args, seed=1000), []
    with torch.no_grad():
        for _ in range(rounds):
            ids = next(held_out)
            losses.append(model(input_ids=ids, labels=ids).loss.item())
    return sum(losses) / rounds


def main(args):
    torch.manual_seed(0)
    config = MistralConfig(vocab_size=4000, hidden_size=384, intermediate_size=1152, num_hidden_layers=10, num_attention_heads=6,
                           num_key_value_heads=2, max_position_embeddings=2048, sliding_window=None, use_cache=False)
    model = MistralForCausalLM(config).cuda()
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    decay = [p for p in model.parameters() if p.dim() > 1]
    rest = [p for p in model.parameters() if p.dim() <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=args.lr)
    batches = diaries(args, seed=1)
    model.train()
    for step in range(1, args.steps + 1):
        ids = next(batches)
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        line = f"step {step} loss {loss.item():.3f}"
        if step % args.eval_every == 0:
            line += f" held out {evaluate(model, args):.3f}"
            if args.fixed:
                model.train()
        print(line, flush=True)


if __name__ == "__main__":
    main(parse())
