"""An index of the calls in bat roosts: HuBERT turns each slowed-down clip into a vector, and the nearest ones of a new clip are looked up."""
import sys

import torch
import torch.nn.functional as F
from transformers import HubertConfig, HubertModel

FIXED = "--fixed" in sys.argv
RATE = 16000


class CallIndex:
    """Vectors of clips, with their names."""

    def __init__(self):
        torch.manual_seed(0)
        config = HubertConfig(hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536, conv_dim=(256,) * 7)
        self.model = HubertModel(config).to("cuda")
        self.model.eval()
        self.vectors, self.names = [], []

    def embed(self, clips):
        states = self.model(clips.to("cuda")).last_hidden_state
        return F.normalize(states.mean(dim=1), dim=-1).cpu()

    def encode(self, clips):
        if FIXED:
            with torch.no_grad():
                return self.embed(clips)
        return self.embed(clips)

    def add(self, names, clips):
        self.vectors.append(self.encode(clips))
        self.names.extend(names)

    def nearest(self, clip, k=3):
        scores = torch.cat(self.vectors) @ self.encode(clip)[0]
        return [self.names[i] for i in scores.topk(k).indices.tolist()]


def clips(n, seconds, seed):
    return torch.randn(n, seconds * RATE, generator=torch.Generator().manual_seed(seed))


def main():
    index = CallIndex()
    for night in range(10):
        names = [f"night{night:02d}/clip{i}" for i in range(6)]
        index.add(names, clips(6, 4, night))
        print("night", night, "indexed,", len(index.names), "clips")
    print("nearest:", index.nearest(clips(1, 4, 999)))


if __name__ == "__main__":
    main()
