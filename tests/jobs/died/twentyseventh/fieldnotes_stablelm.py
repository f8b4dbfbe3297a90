"""Continues the pretraining of a small StableLM on botanists' field notes, packed into blocks of 2048 tokens."""
import sys

import torch
from transformers import StableLmConfig, StableLmForCausalLM, get_cosine_schedule_with_warmup

BLOCK, VOCAB = 2048, 5000


def packed(notes, block=BLOCK):
    """Joins the notes with an end token and cuts the stream into blocks."""
    stream = torch.cat([torch.cat([note, torch.zeros(1, dtype=torch.long)]) for note in notes])
    count = len(stream) // block
    return stream[:count * block].view(count, block)


def notes(count):
    g = torch.Generator().manual_seed(33)
    lengths = torch.randint(80, 700, (count,), generator=g).tolist()
    return [torch.randint(1, VOCAB, (n,), generator=g) for n in lengths]


def main():
    implementation = "sdpa" if "--fixed" in sys.argv else "eager"
    config = StableLmConfig(vocab_size=VOCAB, hidden_size=384, intermediate_size=1024, num_hidden_layers=5, num_attention_heads=8,
                            num_key_value_heads=8, max_position_embeddings=BLOCK, use_cache=False, attn_implementation=implementation)
    model = StableLmForCausalLM(config).cuda()
    model.train()
    blocks = packed(notes(60))
    optimizer = torch.optim.AdamW(model.parameters(), lr=2e-4, betas=(0.9, 0.95), weight_decay=0.1)
    scheduler = get_cosine_schedule_with_warmup(optimizer, 2, len(blocks) // 2)
    for step in range(min(8, len(blocks) // 2)):
        batch = blocks[2 * step:2 * step + 2].cuda()
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"step {step}  loss {loss.item():.3f}  lr {scheduler.get_last_lr()[0]:.2e}")


if __name__ == "__main__":
    main()
