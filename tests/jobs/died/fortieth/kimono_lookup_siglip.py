"""Finds the kimono of a photograph in the shop's stock, patch by patch (late interaction over SigLIP's patches)."""
import logging
import sys

import torch
from transformers import SiglipVisionConfig, SiglipVisionModel

logging.basicConfig(level=logging.INFO, format="%(message)s")
log = logging.getLogger("kimono")


class PatchEncoder:
    def __init__(self):
        config = SiglipVisionConfig(hidden_size=512, intermediate_size=2048, num_hidden_layers=6, num_attention_heads=8, image_size=224,
                                    patch_size=14)
        self.model = SiglipVisionModel(config).to("cuda").eval()

    @torch.inference_mode()
    def __call__(self, pixels):
        states = self.model(pixel_values=pixels.to("cuda")).last_hidden_state
        return torch.nn.functional.normalize(states, dim=-1)


class Stock:
    """Remembers the patches of each article so that a question need not encode them again."""

    def __init__(self, encoder):
        self.encoder = encoder
        self.memory = {}

    def patches(self, articles, photos):
        new = [i for i, a in enumerate(articles) if a not in self.memory]
        if new:
            states = self.encoder(photos[new])
            if "--fixed" in sys.argv:
                states = states.half().cpu()
            for i, s in zip(new, states.unbind()):
                self.memory[articles[i]] = s
        return [self.memory[a] for a in articles]

    def ask(self, question, articles, photos):
        wanted = self.encoder(question)[0]
        scores = []
        for patches in self.patches(articles, photos):
            similar = wanted @ patches.to("cuda", torch.float32).T
            scores.append(similar.amax(1).sum())
        return articles[int(torch.stack(scores).cpu().argmax()) % len(articles)]


def photographs(n, seed):
    return torch.rand(n, 3, 224, 224, generator=torch.Generator().manual_seed(seed))


if __name__ == "__main__":
    stock = Stock(PatchEncoder())
    for shelf in range(60):
        articles = [f"K{shelf:03d}-{k:02d}" for k in range(28)]
        best = stock.ask(photographs(1, 10_000 + shelf), articles, photographs(28, shelf))
        if shelf % 10 == 0:
            log.info("shelf %d: best %s, %d articles known", shelf, best, len(stock.memory))
