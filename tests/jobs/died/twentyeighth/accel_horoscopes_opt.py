import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, TensorDataset
from transformers import OPTConfig, OPTForCausalLM, get_linear_schedule_with_warmup

fixed = "--fixed" in sys.argv
args = {"batch": 12 if fixed else 96, "accumulate": 8 if fixed else 1, "max_len": 192, "lr": 2e-4, "epochs": 2}


def build_model():
    cfg = OPTConfig(vocab_size=3000, hidden_size=384, word_embed_proj_dim=384, num_hidden_layers=8, num_attention_heads=6, ffn_dim=1536,
                    max_position_embeddings=256)
    return OPTForCausalLM(cfg)


def build_loader():
    g = torch.Generator().manual_seed(1912)
    signs = torch.randint(4, 3000, (384, args["max_len"]), generator=g)
    return DataLoader(TensorDataset(signs), batch_size=args["batch"], shuffle=True, drop_last=True)


def main():
    accelerator = Accelerator(gradient_accumulation_steps=args["accumulate"])
    model, loader = build_model(), build_loader()
    optimizer = torch.optim.AdamW(model.parameters(), lr=args["lr"])
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, args["epochs"] * len(loader))
    model, optimizer, loader, scheduler = accelerator.prepare(model, optimizer, loader, scheduler)
    model.train()
    for epoch in range(args["epochs"]):
        for (ids,) in loader:
            with accelerator.accumulate(model):
                loss = model(input_ids=ids, labels=ids).loss
                accelerator.backward(loss)
                if accelerator.sync_gradients:
                    accelerator.clip_grad_norm_(model.parameters(), 1.0)
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
        accelerator.print("epoch", epoch, "loss", loss.item())


main()
