"""Goes on with the training of a language model on lighthouse novels after the cluster's time limit."""
import os
import sys
import tempfile

import torch
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
CONFIG = dict(vocab_size=12000, hidden_size=768, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=12, num_key_value_heads=12,
              max_position_embeddings=512, tie_word_embeddings=True)


def fresh():
    model = LlamaForCausalLM(LlamaConfig(**CONFIG)).to("cuda")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4)
    return model, optimizer, torch.optim.lr_scheduler.StepLR(optimizer, 100)


def train(model, optimizer, scheduler, start, stop):
    model.train()
    for step in range(start, stop):
        ids = torch.randint(0, 12000, (4, 128), generator=torch.Generator().manual_seed(step)).cuda()
        loss = model(input_ids=ids, labels=ids).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        scheduler.step()
        print("step", step, "loss", loss.item())


def first_job(path):
    model, optimizer, scheduler = fresh()
    train(model, optimizer, scheduler, 0, 3)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "scheduler": scheduler.state_dict(), "step": 3}, path)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "last.pt")
    first_job(path)
    torch.cuda.empty_cache()

    # second job
    model, optimizer, scheduler = fresh()
    checkpoint = torch.load(path, map_location="cpu" if FIXED else "cuda")
    model.load_state_dict(checkpoint["model"])
    optimizer.load_state_dict(checkpoint["optimizer"])
    scheduler.load_state_dict(checkpoint["scheduler"])
    train(model, optimizer, scheduler, checkpoint["step"], checkpoint["step"] + 4)
