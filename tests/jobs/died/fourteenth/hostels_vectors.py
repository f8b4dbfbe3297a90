"""Makes a vector of each review of a hostel with an MPNet-like encoder, for a map of the reviews."""
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import RobertaConfig, RobertaModel

FIXED = "--fixed" in sys.argv


class Encoder:
    def __init__(self):
        config = RobertaConfig(vocab_size=10000, hidden_size=384, num_hidden_layers=6, num_attention_heads=6, intermediate_size=1536,
                               max_position_embeddings=300)
        self.model = RobertaModel(config, add_pooling_layer=False).to("cuda").eval()

    def pool(self, states, mask):
        mask = mask.unsqueeze(-1).to(states.dtype)
        return (states * mask).sum(1) / mask.sum(1).clamp(min=1)

    @torch.no_grad()
    def encode(self, loader):
        states, masks, vectors = [], [], []
        for ids, mask in loader:
            ids, mask = ids.to("cuda"), mask.to("cuda")
            out = self.model(input_ids=ids, attention_mask=mask).last_hidden_state
            if FIXED:
                vectors.append(self.pool(out, mask).cpu())
            else:
                states.append(out)
                masks.append(mask)
        if not FIXED:
            vectors = [self.pool(s, m).cpu() for s, m in zip(states, masks)]
        return torch.cat(vectors)


def reviews(count=1920, length=160):
    generator = torch.Generator().manual_seed(6)
    ids = torch.randint(3, 10000, (count, length), generator=generator)
    mask = torch.ones_like(ids)
    mask[:, 120:] = 0
    return DataLoader(TensorDataset(ids, mask), batch_size=32)


def main():
    vectors = Encoder().encode(reviews())
    centred = vectors - vectors.mean(0)
    print("vectors", tuple(centred.shape), "norm of the first", centred[0].norm().item())


if __name__ == "__main__":
    main()
