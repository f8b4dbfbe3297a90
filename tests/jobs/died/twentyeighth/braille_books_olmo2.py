"""Continues to train an OLMo 2 on Braille books (cells as tokens) with gradient checkpointing, in bfloat16 autocast."""
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM, Olmo2Config, Olmo2ForCausalLM

CELLS = 256


def pretrained(folder):
    """Stands for the download of the checkpoint."""
    Olmo2ForCausalLM(Olmo2Config(vocab_size=CELLS, hidden_size=512, intermediate_size=1408, num_hidden_layers=10, num_attention_heads=8,
                                 num_key_value_heads=8, max_position_embeddings=1024)).save_pretrained(folder)
    return folder


def load(name):
    model = AutoModelForCausalLM.from_pretrained(name)
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    return model.to("cuda")


def pages(count, batch=8, cells=768):
    rng = torch.Generator().manual_seed(1829)
    for _ in range(count):
        yield torch.randint(0, CELLS, (batch, cells), generator=rng).to("cuda")


with tempfile.TemporaryDirectory() as folder:
    model = load(pretrained(folder))
if "--fixed" in sys.argv:
    model.train()
optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5, weight_decay=0.0)
for number, page in enumerate(pages(6)):
    with torch.autocast("cuda", dtype=torch.bfloat16):
        loss = model(input_ids=page, labels=page).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"page {number}: {loss.item():.4f}")
