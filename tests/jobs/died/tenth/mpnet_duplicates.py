"""Trains MPNet on pairs of questions, and then looks for duplicates in a whole forum."""
import sys
from contextlib import nullcontext

import torch
import torch.nn.functional as F
from torch.utils.data import DataLoader
from transformers import MPNetConfig, MPNetModel

FIXED = "--fixed" in sys.argv


class Encoder(torch.nn.Module):
    """The mean of the tokens' states, of length one."""

    def __init__(self):
        super().__init__()
        config = MPNetConfig(vocab_size=9000, hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536)
        self.body = MPNetModel(config, add_pooling_layer=False)

    def forward(self, ids):
        mask = (ids != 1).long()
        states = self.body(input_ids=ids, attention_mask=mask).last_hidden_state
        mean = (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
        return F.normalize(mean, dim=-1)


def questions(n, seed):
    generator = torch.Generator().manual_seed(seed)
    ids = torch.randint(2, 9000, (n, 96), generator=generator)
    for k in range(n):
        ids[k, 60 + k % 36:] = 1
    return ids


def train(encoder, steps=4, pairs=6):
    optimizer = torch.optim.AdamW(encoder.parameters(), lr=2e-5)
    encoder.train()
    for step in range(steps):
        one, two = questions(pairs, step).to("cuda"), questions(pairs, 100 + step).to("cuda")
        scores = 20 * encoder(one) @ encoder(two).T
        loss = F.cross_entropy(scores, torch.arange(pairs, device="cuda"))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", loss.item())


def duplicates(encoder, forum):
    encoder.eval()
    vectors = []
    with torch.no_grad() if FIXED else nullcontext():
        for ids in DataLoader(forum, batch_size=64):
            vectors.append(encoder(ids.to("cuda")).detach().cpu())
    vectors = torch.cat(vectors)
    scores = vectors @ vectors.T
    scores.fill_diagonal_(-1)
    return scores.max(1).indices


def main():
    encoder = Encoder().to("cuda")
    train(encoder)
    print("searched among", len(duplicates(encoder, questions(512, 77))), "questions")


main()
