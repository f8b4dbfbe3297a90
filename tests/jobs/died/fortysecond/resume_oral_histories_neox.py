"""Goes on with a GPT-NeoX that was trained on transcripts of oral histories: loads the last checkpoint, and trains some more steps."""
import os
import sys
import tempfile

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

fixed = "--fixed" in sys.argv
config = GPTNeoXConfig(vocab_size=16000, hidden_size=1024, num_hidden_layers=10, num_attention_heads=16, intermediate_size=4096, max_position_embeddings=512)


def build():
    with torch.device("cuda"):
        model = GPTNeoXForCausalLM(config)
    return model, torch.optim.Adam(model.parameters(), lr=1e-4, betas=(0.9, 0.95))


def step(model, optimizer, generator):
    ids = torch.randint(0, config.vocab_size, (4, 192), generator=generator).cuda()
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return loss.item()


def first_day(path):
    """What ran yesterday: a step, and a checkpoint."""
    model, optimizer = build()
    step(model, optimizer, torch.Generator().manual_seed(1))
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict(), "step": 1}, path)


def resume(path):
    model, optimizer = build()
    checkpoint = torch.load(path, map_location="cpu" if fixed else "cuda")
    missing = model.load_state_dict(checkpoint["model"], strict=False)
    print("missing", missing.missing_keys, "unexpected", missing.unexpected_keys)
    optimizer.load_state_dict(checkpoint["optimizer"])
    return model, optimizer, checkpoint


def main():
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "last.pt")
        torch.manual_seed(3)
        first_day(path)
        model, optimizer, checkpoint = resume(path)
    generator = torch.Generator().manual_seed(2)
    for n in range(checkpoint["step"], checkpoint["step"] + 6):
        print("step", n, "loss", step(model, optimizer, generator))


if __name__ == "__main__":
    main()
