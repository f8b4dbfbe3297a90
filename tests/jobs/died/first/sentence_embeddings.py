"""Embeds a corpus with a transformer for a search index; keeps the token states for late interaction (as ColBERT does).

https://github.com/kkirchheim/pytorch-ood/issues/93
"""
import sys

import torch
from transformers import DistilBertConfig, DistilBertModel

KEEP_ON_HOST = "--fixed" in sys.argv


def main():
    encoder = DistilBertModel(DistilBertConfig(dim=512, n_layers=6, n_heads=8, hidden_dim=2048)).cuda().eval()
    corpus = torch.randint(5, 30000, (1600, 256))
    index = []
    with torch.no_grad():
        for start in range(0, len(corpus), 64):
            batch = corpus[start:start + 64].cuda()
            states = encoder(input_ids=batch).last_hidden_state
            states = torch.nn.functional.normalize(states, dim=-1)
            index.append(states.cpu() if KEEP_ON_HOST else states)
    print("passages", sum(len(part) for part in index))


if __name__ == "__main__":
    main()
