"""Trains a late-interaction retriever: queries against scanned pages, each page a few hundred patch embeddings."""
import sys

import torch
from torch import nn
from torch.nn import functional as F
from transformers import BertConfig, BertModel, ViTConfig, ViTModel

FIXED = "--fixed" in sys.argv


class Retriever(nn.Module):
    def __init__(self, dim=128):
        super().__init__()
        self.text = BertModel(BertConfig(vocab_size=3000, hidden_size=256, num_hidden_layers=3, num_attention_heads=4, intermediate_size=512),
                              add_pooling_layer=False)
        self.page = ViTModel(ViTConfig(hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=512, image_size=256,
                                       patch_size=16), add_pooling_layer=False)
        self.to_text, self.to_page = nn.Linear(256, dim), nn.Linear(256, dim)

    def forward(self, ids, pixels):
        queries = F.normalize(self.to_text(self.text(input_ids=ids).last_hidden_state), dim=-1)
        pages = F.normalize(self.to_page(self.page(pixel_values=pixels).last_hidden_state), dim=-1)
        return queries, pages


def maxsim(queries, pages):
    """The score of each query with each page: for each token the best patch, summed over the tokens."""
    if FIXED:
        return torch.einsum("qnd,pmd->qpnm", queries, pages).amax(dim=3).sum(dim=2)
    product = queries[:, None, :, None, :] * pages[None, :, None, :, :]
    return product.sum(dim=-1).amax(dim=3).sum(dim=2)


def loss_of(queries, pages, temperature=0.02):
    scores = maxsim(queries, pages) / temperature
    target = torch.arange(len(scores), device=scores.device)
    return F.cross_entropy(scores, target)


def batches(n, size):
    for _ in range(n):
        yield torch.randint(1, 3000, (size, 16)), torch.zeros(size, 3, 256, 256)


def main():
    model = Retriever().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for step, (ids, pixels) in enumerate(batches(4, 20)):
        queries, pages = model(ids.cuda(), pixels.cuda())
        loss = loss_of(queries, pages)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        print(step, loss.item())


main()
