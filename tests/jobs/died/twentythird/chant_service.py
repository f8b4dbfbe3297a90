"""Service behind the chant archive: a request brings a few clips, the answer is the nearest mode; clips that were asked before come from the memo."""
import hashlib
import logging
import sys

import torch
from transformers import Wav2Vec2Config, Wav2Vec2Model

FIXED = "--fixed" in sys.argv
log = logging.getLogger("chant")
logging.basicConfig(level=logging.INFO, format="%(name)s %(message)s")


class Fingerprints:
    def __init__(self, device="cuda"):
        torch.manual_seed(4)
        self.device = device
        config = Wav2Vec2Config(hidden_size=384, num_hidden_layers=10, num_attention_heads=6, intermediate_size=1024, conv_dim=(128,) * 7,
                                num_conv_pos_embeddings=64, num_conv_pos_embedding_groups=16)
        self.model = Wav2Vec2Model(config).to(device).eval()
        self.modes = torch.randn(8, 384).to(device)
        self.memo = {}

    @staticmethod
    def key(clip):
        return hashlib.sha1(clip[::97].numpy().tobytes()).hexdigest()

    @torch.inference_mode()
    def layers(self, clips):
        """All layers of each clip: another layer turned out best for each kind of chant."""
        keys = [self.key(c) for c in clips]
        new = [i for i, k in enumerate(keys) if k not in self.memo]
        if new:
            batch = torch.stack([clips[i] for i in new]).to(self.device)
            states = torch.stack(self.model(batch, output_hidden_states=True).hidden_states, 1)
            for row, i in enumerate(new):
                entry = states[row]
                self.memo[keys[i]] = entry.mean(1) if FIXED else entry
        return [self.memo[k] for k in keys]

    @torch.inference_mode()
    def answer(self, clips, layer=7):
        found = []
        for states in self.layers(clips):
            vector = states[layer]
            vector = vector if vector.dim() == 1 else vector.mean(0)
            found.append(torch.cosine_similarity(vector[None], self.modes).argmax().item())
        return found


def requests(count):
    g = torch.Generator().manual_seed(1100)
    for _ in range(count):
        yield [torch.randn(64000, generator=g) for _ in range(6)]


def main():
    service = Fingerprints()
    for number, clips in enumerate(requests(48)):
        modes = service.answer(clips)
        if number % 12 == 0:
            log.info("request %d: modes %s, memo of %d clips", number, modes, len(service.memo))


if __name__ == "__main__":
    main()
