"""Encodes podcasts with a Whisper-like encoder and keeps each segment's last hidden states for a later alignment, where they are."""
import argparse

import torch
from transformers import WhisperConfig
from transformers.models.whisper.modeling_whisper import WhisperEncoder

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--segments", type=int, default=96)
parser.add_argument("--batch", type=int, default=8)
args = parser.parse_args()

config = WhisperConfig(d_model=512, encoder_layers=8, encoder_attention_heads=8, encoder_ffn_dim=2048)
encoder = WhisperEncoder(config).half().cuda().eval()


def batches():
    for first in range(0, args.segments, args.batch):
        yield first, torch.zeros(args.batch, 80, 3000)


@torch.inference_mode()
def encode_all():
    aligned = {}
    for first, mel in batches():
        states = encoder(mel.half().cuda()).last_hidden_state.float()
        for k, state in enumerate(states):
            aligned[first + k] = state.cpu() if args.fixed else state
    return aligned


segments = encode_all()
print(len(segments), "segments", sum(s.numel() for s in segments.values()) * 4 >> 20, "MiB")
