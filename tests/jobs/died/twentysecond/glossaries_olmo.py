"""Pretrains an OLMo-2 on glossaries of trades. Rare words are over-confident, hence the smoothed targets."""
import os
import sys

import torch
import torch.nn.functional as F
from transformers import Olmo2Config, Olmo2ForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB = 32_000
SMOOTHING = 0.1


def smoothed_loss(logits, labels):
    """Cross entropy against 0.9 for the right word and the rest spread over all others."""
    logits, labels = logits[:, :-1].flatten(0, 1), labels[:, 1:].flatten()
    if FIXED:
        return F.cross_entropy(logits, labels, label_smoothing=SMOOTHING)
    target = F.one_hot(labels, VOCAB) * (1 - SMOOTHING) + SMOOTHING / VOCAB
    return -(target * F.log_softmax(logits, dim=-1)).sum(-1).mean()


class Glossaries(torch.utils.data.IterableDataset):
    def __init__(self, blocks, length):
        self.blocks, self.length = blocks, length

    def __iter__(self):
        g = torch.Generator().manual_seed(int(os.environ.get("SEED", 3)))
        for _ in range(self.blocks):
            yield torch.randint(0, VOCAB, (self.length,), generator=g)


def main():
    model = Olmo2ForCausalLM(Olmo2Config(
        vocab_size=VOCAB, hidden_size=320, intermediate_size=864, num_hidden_layers=5, num_attention_heads=5, num_key_value_heads=5,
        max_position_embeddings=512, use_cache=False))
    model.cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=4e-4, betas=(0.9, 0.95), weight_decay=0.1)
    loader = torch.utils.data.DataLoader(Glossaries(64, 320), batch_size=8)
    for step, ids in enumerate(loader):
        ids = ids.cuda()
        with torch.autocast("cuda", dtype=torch.bfloat16):
            logits = model(input_ids=ids).logits
        loss = smoothed_loss(logits, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step={step} loss={loss.item():.4f}")


if __name__ == "__main__":
    main()
