"""Aligns choir recordings with their libretto: token probabilities of a Whisper model first, then a dynamic time warping on the CPU."""
import sys

import torch
from torch.nn import functional as F
from transformers import WhisperConfig, WhisperForConditionalGeneration

FIXED = "--fixed" in sys.argv


class Aligner:
    def __init__(self):
        config = WhisperConfig(vocab_size=10000, d_model=256, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4,
                               decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=1024, num_mel_bins=80,
                               max_source_positions=500, max_target_positions=128,
                               pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=1)
        self.model = WhisperForConditionalGeneration(config).to("cuda").eval()
        self.probabilities = []

    @torch.inference_mode()
    def add(self, features, tokens):
        logits = self.model(input_features=features.to("cuda"), decoder_input_ids=tokens.to("cuda")).logits
        probabilities = F.log_softmax(logits, dim=-1)
        if FIXED:
            probabilities = probabilities.gather(-1, tokens.to("cuda").clamp(max=9999).unsqueeze(-1)).squeeze(-1).cpu()
        self.probabilities.append(probabilities)

    def cost(self, tokens):
        """The cost of each token of the libretto in each recording."""
        rows = []
        for probabilities, line in zip(self.probabilities, tokens):
            if probabilities.dim() == 3:
                probabilities = probabilities.cpu().gather(-1, line.unsqueeze(-1)).squeeze(-1)
            rows.append(-probabilities.mean(0))
        return torch.stack(rows)


def warp(cost):
    n, m = cost.shape
    table = [[0.0] * (m + 1) for _ in range(n + 1)]
    values = cost.tolist()
    for i in range(1, n + 1):
        for j in range(1, m + 1):
            table[i][j] = values[i - 1][j - 1] + min(table[i - 1][j], table[i][j - 1], table[i - 1][j - 1])
    return table[n][m]


def main():
    generator = torch.Generator().manual_seed(3)
    aligner, libretto = Aligner(), []
    for recording in range(20):
        features = torch.zeros(4, 80, 1000)
        tokens = torch.randint(3, 10000, (4, 96), generator=generator)
        libretto.append(tokens)
        aligner.add(features, tokens)
    print("cost of the best path", warp(aligner.cost(libretto)))


main()
