"""Unsupervised SimCSE on restaurant reviews: each review passes a BERT twice with other dropout, all other reviews of the batch are negatives."""
import sys

import torch
from torch import nn
from torch.utils.data import DataLoader
from transformers import BertConfig, BertModel

FIXED = "--fixed" in sys.argv


class Similarity(nn.Module):
    def __init__(self, temperature=0.05):
        super().__init__()
        self.temperature = temperature

    def forward(self, a, b):
        if FIXED:
            a, b = nn.functional.normalize(a, dim=-1), nn.functional.normalize(b, dim=-1)
            return a @ b.T / self.temperature
        return nn.functional.cosine_similarity(a.unsqueeze(1), b.unsqueeze(0), dim=-1) / self.temperature


class SimCSE(nn.Module):
    def __init__(self):
        super().__init__()
        config = BertConfig(vocab_size=10000, hidden_size=512, num_hidden_layers=4, num_attention_heads=8, intermediate_size=1024,
                            max_position_embeddings=64)
        self.encoder = BertModel(config, add_pooling_layer=False)
        self.projection = nn.Sequential(nn.Linear(512, 768), nn.Tanh())
        self.similarity = Similarity()

    def embed(self, ids, mask):
        return self.projection(self.encoder(input_ids=ids, attention_mask=mask).last_hidden_state[:, 0])

    def forward(self, ids, mask):
        scores = self.similarity(self.embed(ids, mask), self.embed(ids, mask))
        return nn.functional.cross_entropy(scores, torch.arange(len(ids), device=ids.device))


def collate(reviews):
    ids = nn.utils.rnn.pad_sequence(reviews, batch_first=True)
    return ids, (ids > 0).long()


def reviews(n):
    generator = torch.Generator().manual_seed(12)
    lengths = torch.randint(8, 20, (n,), generator=generator).tolist()
    return [torch.randint(1, 10000, (k,), generator=generator) for k in lengths]


def main():
    torch.manual_seed(12)
    model = SimCSE().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 0.1, 1.0, 5)
    for epoch in range(2):
        for ids, mask in DataLoader(reviews(1024), batch_size=512, collate_fn=collate, drop_last=True):
            loss = model(ids.cuda(), mask.cuda())
            loss.backward()
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
            print("epoch", epoch, "loss", loss.item())


main()
