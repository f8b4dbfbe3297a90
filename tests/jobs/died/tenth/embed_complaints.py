"""Embeds a year of complaints with a small BERT, for a search by meaning: the vector of the first token, normalised at the end."""
import sys

import numpy
import torch
from torch.utils.data import DataLoader, Dataset
from transformers import BertConfig, BertModel

FIXED = "--fixed" in sys.argv


class Complaints(Dataset):
    def __init__(self, n, length=160):
        self.n, self.length = n, length

    def __len__(self):
        return self.n

    def __getitem__(self, k):
        ids = torch.full((self.length,), 1 + k % 9000)
        ids[80 + k % 80:] = 0
        return ids


class Embedder:
    def __init__(self, hidden=384, layers=6):
        config = BertConfig(vocab_size=9001, hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=6, intermediate_size=4 * hidden)
        self.model = BertModel(config, add_pooling_layer=False).to("cuda").eval()

    def first_token(self, ids):
        ids = ids.to("cuda")
        states = self.model(input_ids=ids, attention_mask=(ids > 0).long()).last_hidden_state
        return states[:, 0]

    @torch.no_grad()
    def encode(self, data, batch=64):
        vectors = []
        for n, ids in enumerate(DataLoader(data, batch_size=batch)):
            vector = self.first_token(ids)
            vectors.append(vector.cpu() if FIXED else vector)
            if n % 10 == 0:
                print("batch", n)
        vectors = torch.cat(vectors)
        return torch.nn.functional.normalize(vectors, dim=-1).cpu().numpy()


def nearest(index, query, k=5):
    return numpy.argsort(-(index @ query))[:k]


def main():
    index = Embedder().encode(Complaints(2560))
    print(index.shape, index.dtype, len(nearest(index, index[0])))


main()
