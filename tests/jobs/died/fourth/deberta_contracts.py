"""Finds clauses in contracts: token classification with a DeBERTa v3 under Accelerate, one window of a contract per row."""
import sys

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, Dataset
from transformers import DebertaV2Config, DebertaV2ForTokenClassification

MAX_LENGTH = 384 if "--fixed" in sys.argv else 1280
CLAUSES = ["O", "B-TERM", "I-TERM", "B-PARTY", "I-PARTY", "B-LAW", "I-LAW"]


class Windows(Dataset):
    """Contracts, cut into windows of MAX_LENGTH tokens."""

    def __init__(self, contracts=12, tokens=5120):
        texts = torch.randint(4, 12000, (contracts, tokens))
        tags = torch.randint(0, len(CLAUSES), (contracts, tokens))
        self.windows = list(zip(texts.flatten().split(MAX_LENGTH), tags.flatten().split(MAX_LENGTH)))

    def __len__(self):
        return len(self.windows)

    def __getitem__(self, k):
        ids, tags = self.windows[k]
        missing = MAX_LENGTH - len(ids)
        return {
            "input_ids": torch.nn.functional.pad(ids, (0, missing)),
            "attention_mask": torch.nn.functional.pad(torch.ones_like(ids), (0, missing)),
            "labels": torch.nn.functional.pad(tags, (0, missing), value=-100),
        }


def create_model():
    config = DebertaV2Config(vocab_size=12000, hidden_size=256, num_hidden_layers=6, num_attention_heads=4, intermediate_size=1024,
                             relative_attention=True,
                             position_buckets=128, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type=["p2c", "c2p"],
                             max_relative_positions=-1, max_position_embeddings=1536, type_vocab_size=0, num_labels=len(CLAUSES))
    return DebertaV2ForTokenClassification(config)


def main():
    set_seed(21)
    accelerator = Accelerator(mixed_precision="bf16")
    model = create_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    loader = DataLoader(Windows(), batch_size=4, shuffle=True)
    model, optimizer, loader = accelerator.prepare(model, optimizer, loader)
    model.train()
    for step, batch in enumerate(loader):
        if step == 6:
            break
        loss = model(**batch).loss
        accelerator.backward(loss)
        accelerator.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        accelerator.print("step", step, "loss", loss.item())


main()
