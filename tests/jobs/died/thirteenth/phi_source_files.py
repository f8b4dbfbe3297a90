"""Fine-tunes a small Phi on source files of 2048 tokens, in bf16 autocast."""
import sys
from types import SimpleNamespace

import torch
from transformers import PhiConfig, PhiForCausalLM

args = SimpleNamespace(length=2048, batch=1, steps=3, lr=1e-4, attention="sdpa" if "--fixed" in sys.argv else "eager")


def load():
    config = PhiConfig(vocab_size=4000, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=8,
                       max_position_embeddings=4096, attn_implementation=args.attention)
    return PhiForCausalLM(config).to("cuda")


def files():
    generator = torch.Generator().manual_seed(8)
    for _ in range(args.steps):
        ids = torch.randint(0, 4000, (args.batch, args.length), generator=generator)
        yield {"input_ids": ids.to("cuda"), "labels": ids.to("cuda")}


def step(model, optimizer, batch):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(**batch, use_cache=False).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def main():
    model = load()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args.lr)
    for k, batch in enumerate(files()):
        print("file", k, "loss", step(model, optimizer, batch))


if __name__ == "__main__":
    main()
