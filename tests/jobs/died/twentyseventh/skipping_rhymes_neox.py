"""Skipping-rope rhymes: a short tuning of a small GPT-NeoX, then many candidates for each first line, of which children choose."""
import sys

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

FIXED = "--fixed" in sys.argv
CANDIDATES = 48


def tuned():
    config = GPTNeoXConfig(vocab_size=3000, hidden_size=512, num_hidden_layers=8, num_attention_heads=8, intermediate_size=1024,
                           max_position_embeddings=512, bos_token_id=0, eos_token_id=None, pad_token_id=1)
    model = GPTNeoXForCausalLM(config).to("cuda")
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)
    for i in range(6):
        ids = torch.randint(2, 3000, (4, 64), generator=torch.Generator().manual_seed(i)).to("cuda")
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("tuning", i, loss.item())
    return model.eval()


def candidates(model, lines, per_line):
    """All the candidates of all the lines, as one tensor on the CPU."""
    return model.generate(input_ids=lines.to("cuda"), attention_mask=torch.ones_like(lines).to("cuda"), do_sample=True, top_k=40,
                          temperature=1.1, max_new_tokens=80, num_return_sequences=per_line).cpu()


def main():
    model = tuned()
    lines = torch.randint(2, 3000, (8, 72), generator=torch.Generator().manual_seed(99))
    if FIXED:
        parts = [candidates(model, lines, CANDIDATES // 6) for _ in range(6)]
        rhymes = torch.cat(parts)
    else:
        rhymes = candidates(model, lines, CANDIDATES)
    print("rhymes", len(rhymes), "of at most", rhymes.shape[1], "tokens")


main()
