"""Flags hazardous goods in shipping manifests: a Llama backbone with a head for sequences, padded to the longest of each batch."""
import sys

import torch
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForSequenceClassification, get_linear_schedule_with_warmup

PAD, VOCAB = 0, 9000
MAX_TOKENS = 256 if "--fixed" in sys.argv else None  # manifests are short, no need to cut them


def load_manifests(n=384):
    g = torch.Generator().manual_seed(40)
    lengths = torch.randint(40, 200, (n,), generator=g).tolist()
    lengths[233] = 1700  # a car carrier, with every single chassis number
    return [{"tokens": torch.randint(1, VOCAB, (k,), generator=g), "hazard": int(k % 3)} for k in lengths]


def collate(items):
    rows = [item["tokens"][:MAX_TOKENS] for item in items]
    ids = torch.nn.utils.rnn.pad_sequence(rows, batch_first=True, padding_value=PAD)
    return {"input_ids": ids, "attention_mask": (ids != PAD).long(), "labels": torch.tensor([item["hazard"] for item in items])}


class HazardTrainer:
    def __init__(self, device="cuda"):
        config = LlamaConfig(vocab_size=VOCAB, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6,
                             max_position_embeddings=4096, pad_token_id=PAD, num_labels=3, use_cache=False)
        self.device = device
        self.model = LlamaForSequenceClassification(config).to(device)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=5e-5, weight_decay=0.01)

    def fit(self, loader):
        schedule = get_linear_schedule_with_warmup(self.optimizer, 2, len(loader))
        self.model.train()
        for i, batch in enumerate(loader):
            batch = {k: v.to(self.device, non_blocking=True) for k, v in batch.items()}
            loss = self.model(**batch).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            schedule.step()
            self.optimizer.zero_grad(set_to_none=True)
            print(f"[{i + 1}/{len(loader)}] loss={loss.item():.3f} width={batch['input_ids'].shape[1]}")


if __name__ == "__main__":
    HazardTrainer().fit(DataLoader(load_manifests(), batch_size=24, collate_fn=collate))
