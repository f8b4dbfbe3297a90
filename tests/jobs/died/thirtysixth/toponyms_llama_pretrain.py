"""Pretrains a small Llama on gazetteers of five scripts; the vocabulary is that of a large multilingual tokenizer. With a z-loss, as in PaLM."""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import LlamaConfig, LlamaModel

PIECES = 96_000
CHUNK = 256 if "--fixed" in sys.argv else None


class ToponymLM(torch.nn.Module):
    def __init__(self):
        super().__init__()
        config = LlamaConfig(vocab_size=PIECES, hidden_size=256, intermediate_size=704, num_hidden_layers=6, num_attention_heads=4,
                             num_key_value_heads=2, max_position_embeddings=512, use_cache=False)
        self.decoder = LlamaModel(config)
        self.head = torch.nn.Linear(256, PIECES, bias=False)
        self.head.weight = self.decoder.embed_tokens.weight

    def objective(self, states, labels, z_weight=1e-4):
        logits = self.head(states).float()
        nll = -logits.log_softmax(-1).gather(-1, labels[:, None]).squeeze(-1)
        z = logits.logsumexp(-1).pow(2)
        return (nll + z_weight * z).sum()

    def forward(self, ids):
        states = self.decoder(input_ids=ids).last_hidden_state[:, :-1].reshape(-1, 256)
        labels = ids[:, 1:].reshape(-1)
        if CHUNK is None:
            return self.objective(states, labels) / len(labels)
        total = 0.0
        for s, y in zip(states.split(CHUNK), labels.split(CHUNK)):
            total = total + checkpoint(self.objective, s, y, use_reentrant=False)
        return total / len(labels)


def gazetteer(batches, size=8, length=320):
    g = torch.Generator().manual_seed(64)
    for _ in range(batches):
        yield torch.randint(0, PIECES, (size, length), generator=g)


def main():
    model = ToponymLM().cuda()
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    optimizer = torch.optim.AdamW([{"params": decay, "weight_decay": 0.1}, {"params": rest, "weight_decay": 0.0}], lr=6e-4, betas=(0.9, 0.95))
    for step, ids in enumerate(gazetteer(6)):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            loss = model(ids.cuda())
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        print(f"step {step} loss {loss.item():.3f}")


main()
