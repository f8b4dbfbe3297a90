"""Named entities in a catalogue of machine parts (maker, thread, material, norm). Batches are built by a budget of tokens."""
import sys
from typing import Iterator, List

import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Sampler
from transformers import BertConfig, BertForTokenClassification

FIXED = "--fixed" in sys.argv
LABELS = 19


def make_catalogue(n: int = 1800, seed: int = 11) -> List[dict]:
    g = torch.Generator().manual_seed(seed)
    lengths = torch.randint(18, 62, (n,), generator=g).tolist()
    lengths[1013] = 940  # the mounting instructions of a gearbox, which someone pasted into the field of the description
    return [{"input_ids": torch.randint(5, 9000, (l,), generator=g), "labels": torch.randint(0, LABELS, (l,), generator=g)} for l in lengths]


class TokenBudgetSampler(Sampler[List[int]]):
    """Fills a batch with neighbours in the catalogue until the budget is used up."""

    def __init__(self, lengths: List[int], budget: int):
        self.lengths, self.budget = lengths, budget

    def _cost(self, members: List[int]) -> int:
        sizes = [self.lengths[i] for i in members]
        return max(sizes) * len(sizes) if FIXED else sum(sizes)

    def __iter__(self) -> Iterator[List[int]]:
        members: List[int] = []
        for index in range(len(self.lengths)):
            if members and self._cost(members + [index]) > self.budget:
                yield members
                members = []
            members.append(index)
        yield members


def collate(rows: List[dict]) -> dict:
    ids = pad_sequence([r["input_ids"] for r in rows], batch_first=True, padding_value=0)
    labels = pad_sequence([r["labels"] for r in rows], batch_first=True, padding_value=-100)
    return {"input_ids": ids, "attention_mask": (ids != 0).long(), "labels": labels}


def main() -> None:
    torch.manual_seed(0)
    catalogue = make_catalogue()
    sampler = TokenBudgetSampler([len(row["input_ids"]) for row in catalogue], budget=4096)
    loader = DataLoader(catalogue, batch_sampler=sampler, collate_fn=collate)
    config = BertConfig(vocab_size=9000, hidden_size=192, num_hidden_layers=3, num_attention_heads=6, intermediate_size=768,
                        max_position_embeddings=1024, num_labels=LABELS)
    tagger = BertForTokenClassification(config).cuda().train()
    optimizer = torch.optim.AdamW(tagger.parameters(), lr=5e-5, weight_decay=0.01)
    for step, batch in enumerate(loader):
        loss = tagger(**{k: v.cuda() for k, v in batch.items()}).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        if step % 4 == 0:
            print("step", step, "loss", loss.item())


main()
