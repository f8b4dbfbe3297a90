"""From neumes to modern notation with a T5, trained from scratch; sequences are short."""
import sys

import torch
from transformers import Adafactor, T5Config, T5ForConditionalGeneration

torch.manual_seed(1025)


def build():
    return T5ForConditionalGeneration(T5Config(vocab_size=4000, d_model=640, d_kv=64, num_heads=10, d_ff=2560, num_layers=8, num_decoder_layers=8,
                                               dropout_rate=0.1, decoder_start_token_id=0, pad_token_id=0, eos_token_id=1))


def optimizer_for(model):
    if "--fixed" in sys.argv:
        return Adafactor(model.parameters(), lr=1e-3, scale_parameter=False, relative_step=False, warmup_init=False)
    return torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.01)


def chants(steps, batch=6):
    for _ in range(steps):
        yield torch.randint(2, 4000, (batch, 40)), torch.randint(2, 4000, (batch, 48))


def main():
    model = build().to("cuda")
    optimizer = optimizer_for(model)
    print("parameters", sum(p.numel() for p in model.parameters()) // 10 ** 6, "M")
    for step, (neumes, notes) in enumerate(chants(6)):
        loss = model(input_ids=neumes.to("cuda"), labels=notes.to("cuda")).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print(step, loss.item())
    model.eval()
    with torch.no_grad():
        out = model.generate(torch.randint(2, 4000, (2, 40)).to("cuda"), max_new_tokens=12)
    print("transcribed", tuple(out.shape))


main()
