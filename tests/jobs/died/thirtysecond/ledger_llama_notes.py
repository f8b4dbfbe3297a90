"""Continues the training of a small Llama on notes to annual accounts."""
import sys
import tempfile
import torch
from torch.optim.lr_scheduler import LambdaLR
from transformers import LlamaConfig, LlamaForCausalLM


def download(folder):
    config = LlamaConfig(vocab_size=6000, hidden_size=512, intermediate_size=1408, num_hidden_layers=10, num_attention_heads=8,
                         num_key_value_heads=8, max_position_embeddings=1024)
    LlamaForCausalLM(config).save_pretrained(folder)


def load_model(folder):
    model = LlamaForCausalLM.from_pretrained(folder)
    model.config.use_cache = False
    model.gradient_checkpointing_enable()
    if "--fixed" in sys.argv:
        model.train()
    return model.to("cuda")


def notes(count, gen):
    for _ in range(count):
        yield torch.randint(0, 6000, (8, 512), generator=gen)


def train(model, steps=6, accumulate=2):
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-5)
    scheduler = LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / 3))
    for i, ids in enumerate(notes(steps * accumulate, torch.Generator().manual_seed(31))):
        ids = ids.to("cuda")
        loss = model(input_ids=ids, labels=ids).loss / accumulate
        loss.backward()
        if (i + 1) % accumulate == 0:
            torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            scheduler.step()
            optimizer.zero_grad()
            print("step", (i + 1) // accumulate, loss.item() * accumulate)


with tempfile.TemporaryDirectory() as folder:
    download(folder)
    model = load_model(folder)
train(model)
