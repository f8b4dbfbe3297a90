"""Live transcripts for a call centre: 48 calls are encoded in step, 640 ms at a time, with keys and values of what was said before."""
import sys

import torch
import torch.nn as nn
import torch.nn.functional as F

LEFT_CONTEXT = 80 if "--fixed" in sys.argv else None
FRAMES, DIM, HEADS, DEPTH = 16, 256, 4, 6


class StreamingLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm_attention, self.norm_conv, self.norm_ff = nn.LayerNorm(DIM), nn.LayerNorm(DIM), nn.LayerNorm(DIM)
        self.q, self.kv, self.o = nn.Linear(DIM, DIM), nn.Linear(DIM, 2 * DIM), nn.Linear(DIM, DIM)
        self.conv = nn.Conv1d(DIM, DIM, 7, padding=3, groups=DIM)
        self.ff = nn.Sequential(nn.Linear(DIM, 4 * DIM), nn.SiLU(), nn.Linear(4 * DIM, DIM))

    def forward(self, x, memory):
        calls, frames, _ = x.shape
        h = self.norm_attention(x)
        q = self.q(h).view(calls, frames, HEADS, -1).transpose(1, 2)
        kv = self.kv(h).view(calls, frames, 2, HEADS, -1).permute(2, 0, 3, 1, 4)
        memory = kv if memory is None else torch.cat([memory, kv], dim=3)
        if LEFT_CONTEXT:
            memory = memory[:, :, :, -LEFT_CONTEXT:]
        heard = F.scaled_dot_product_attention(q, memory[0], memory[1])
        x = x + self.o(heard.transpose(1, 2).reshape(calls, frames, DIM))
        x = x + self.conv(self.norm_conv(x).transpose(1, 2)).transpose(1, 2)
        return x + self.ff(self.norm_ff(x)), memory


class StreamingEncoder(nn.Module):
    def __init__(self, tokens=512):
        super().__init__()
        self.subsample = nn.Conv1d(80, DIM, 4, stride=4)
        self.layers = nn.ModuleList([StreamingLayer() for _ in range(DEPTH)])
        self.ctc = nn.Linear(DIM, tokens)

    def forward(self, mel, memories):
        x, kept = self.subsample(mel).transpose(1, 2), []
        for layer, memory in zip(self.layers, memories):
            x, memory = layer(x, memory)
            kept.append(memory)
        return self.ctc(x), kept


class Transcriber:
    """Holds the state of all calls and appends the best tokens to their transcripts."""

    def __init__(self, encoder, calls):
        self.encoder, self.memories = encoder.cuda().eval(), [None] * DEPTH
        self.transcripts = [[] for _ in range(calls)]

    @torch.inference_mode()
    def feed(self, mel):
        scores, self.memories = self.encoder(mel.cuda(), self.memories)
        for transcript, tokens in zip(self.transcripts, scores.argmax(-1).tolist()):
            transcript.extend(tokens)


def microphones(calls, chunks):
    generator = torch.Generator().manual_seed(12)
    for _ in range(chunks):
        yield torch.randn(calls, 80, 4 * FRAMES, generator=generator)


transcriber = Transcriber(StreamingEncoder(), calls=48)
for second, mel in enumerate(microphones(48, 150)):
    transcriber.feed(mel)
    if second % 30 == 29:
        print(f"{(second + 1) * 0.64:.0f} s: {sum(map(len, transcriber.transcripts))} tokens")
