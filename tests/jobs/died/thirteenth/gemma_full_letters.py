"""Full fine-tuning of a small Gemma on a family's letters: few tokens a step, many parameters."""
import sys

import torch
from transformers import Adafactor, GemmaConfig, GemmaForCausalLM

FIXED = "--fixed" in sys.argv


def make_model():
    config = GemmaConfig(vocab_size=16000, hidden_size=768, intermediate_size=3072, num_hidden_layers=10, num_attention_heads=12,
                         num_key_value_heads=4, head_dim=64, max_position_embeddings=512)
    with torch.device("cuda"):
        model = GemmaForCausalLM(config)
    model.gradient_checkpointing_enable()
    model.config.use_cache = False
    return model


def make_optimizer(model):
    if FIXED:
        return Adafactor(model.parameters(), lr=1e-4, scale_parameter=False, relative_step=False, warmup_init=False)
    return torch.optim.AdamW(model.parameters(), lr=1e-4, weight_decay=0.0, foreach=False)


def letters(n):
    generator = torch.Generator().manual_seed(5)
    for _ in range(n):
        yield torch.randint(1, 16000, (1, 192), generator=generator)


def main():
    model = make_model()
    model.train()
    optimizer = make_optimizer(model)
    n = sum(p.numel() for p in model.parameters())
    print("parameters: %.0f million" % (n / 1e6))
    for step, ids in enumerate(letters(6)):
        ids = ids.cuda()
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print("letter", step, "loss", loss.item())


main()
