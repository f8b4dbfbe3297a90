"""Ranks pages of insurance policies for a question of an agent; a cross-encoder over question and page."""
import sys
from dataclasses import asdict, dataclass

import torch
from torch import nn
from transformers import BertConfig, BertModel, get_linear_schedule_with_warmup


@dataclass
class RankerConfig:
    vocab_size: int = 7000
    hidden_size: int = 256
    num_hidden_layers: int = 4
    num_attention_heads: int = 8
    intermediate_size: int = 768
    max_position_embeddings: int = 1024


class Ranker(nn.Module):
    def __init__(self, cfg, attention):
        super().__init__()
        self.encoder = BertModel(BertConfig(**asdict(cfg), attn_implementation=attention), add_pooling_layer=False)
        self.dropout, self.score = nn.Dropout(0.1), nn.Linear(cfg.hidden_size, 1)

    def forward(self, ids, mask, segment):
        states = self.encoder(input_ids=ids, attention_mask=mask, token_type_ids=segment).last_hidden_state
        return self.score(self.dropout(states[:, 0])).squeeze(-1)


class QuestionPages:
    """One right page and `others` wrong ones for each question."""

    def __init__(self, cfg, questions=2, others=3):
        self.cfg, self.questions, self.pages = cfg, questions, others + 1
        self.generator = torch.Generator().manual_seed(9)

    def __iter__(self):
        n, length = self.questions * self.pages, self.cfg.max_position_embeddings
        for _ in range(8):
            ids = torch.randint(5, self.cfg.vocab_size, (n, length), generator=self.generator)
            mask = (torch.arange(length)[None] < torch.randint(700, length, (n, 1), generator=self.generator)).long()
            segment = (torch.arange(length) > 30).long().expand(n, -1)
            yield ids, mask, segment


def attention_backend():
    return "sdpa" if "--fixed" in sys.argv else "eager"


def main():
    cfg = RankerConfig()
    data = QuestionPages(cfg)
    model = Ranker(cfg, attention_backend()).cuda().train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 8)
    for step, batch in enumerate(data):
        scores = model(*(tensor.cuda() for tensor in batch)).view(data.questions, data.pages)
        loss = nn.functional.cross_entropy(scores, torch.zeros(data.questions, dtype=torch.long, device="cuda"))
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(f"{step:3d}  {loss.item():.4f}")


if __name__ == "__main__":
    main()
