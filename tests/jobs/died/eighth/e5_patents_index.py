"""Builds an index of patents with a small E5-like encoder: mean-pooled, normalised embeddings of every abstract."""
import argparse
import contextlib

import torch
import torch.nn.functional as F
from transformers import XLMRobertaConfig, XLMRobertaModel


def options():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--abstracts", type=int, default=256)
    parser.add_argument("--batch", type=int, default=16)
    return parser.parse_args()


class Encoder:
    def __init__(self, quiet):
        config = XLMRobertaConfig(vocab_size=10000, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                                  max_position_embeddings=516)
        self.model = XLMRobertaModel(config, add_pooling_layer=False).to("cuda")
        self.model.eval()
        self.quiet = quiet

    def encode(self, ids):
        with torch.inference_mode() if self.quiet else contextlib.nullcontext():
            mask = torch.ones_like(ids)
            states = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            mean = (states * mask.unsqueeze(-1)).sum(1) / mask.sum(1, keepdim=True)
            return F.normalize(mean, dim=-1)


def main():
    opts = options()
    encoder = Encoder(opts.fixed)
    corpus = torch.randint(4, 10000, (opts.abstracts, 256), generator=torch.Generator().manual_seed(3))
    index = []
    for ids in corpus.split(opts.batch):
        index.append(encoder.encode(ids.to("cuda")))
    index = torch.cat(index)
    queries = encoder.encode(corpus[:4].to("cuda"))
    print(tuple((queries @ index.T).topk(5).indices.shape))


main()
