"""A two-layer student learns the states of a larger HuBERT on recordings of sworn testimony (in the manner of DistilHuBERT), with Accelerate."""
import sys

import torch
from accelerate import Accelerator
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
from transformers import HubertConfig, HubertModel

FIXED = "--fixed" in sys.argv


def hubert(layers):
    return HubertModel(HubertConfig(
        hidden_size=384, num_hidden_layers=layers, num_attention_heads=6, intermediate_size=1536, conv_dim=(96,) * 7,
        num_conv_pos_embeddings=32, num_conv_pos_embedding_groups=8, apply_spec_augment=False, layerdrop=0.0))


class Distiller(nn.Module):
    """The student and one prediction head for each of the teacher's layers that it should foretell."""

    targets = (4, 8, 12)

    def __init__(self):
        super().__init__()
        self.student = hubert(2)
        self.heads = nn.ModuleList(nn.Linear(384, 384) for _ in self.targets)

    def forward(self, wave):
        states = self.student(wave).last_hidden_state
        return [head(states) for head in self.heads]


def distance(guess, state):
    cosine = nn.functional.cosine_similarity(guess, state, dim=-1)
    return nn.functional.l1_loss(guess, state) - nn.functional.logsigmoid(cosine).mean()


accelerator = Accelerator()
teacher = hubert(12).to(accelerator.device).eval()
distiller = Distiller()
optimizer = torch.optim.AdamW(distiller.parameters(), lr=2e-4)
waves = torch.randn(6 * 12, 64_000, generator=torch.Generator().manual_seed(21))
loader = DataLoader(TensorDataset(waves), batch_size=12)
distiller, optimizer, loader = accelerator.prepare(distiller, optimizer, loader)

distiller.train()
for n, (wave,) in enumerate(loader):
    with torch.set_grad_enabled(not FIXED):
        states = teacher(wave, output_hidden_states=True).hidden_states
    guesses = distiller(wave)
    loss = sum(distance(g, states[layer]) for g, layer in zip(guesses, Distiller.targets))
    accelerator.backward(loss)
    accelerator.clip_grad_norm_(distiller.parameters(), 1.0)
    optimizer.step()
    optimizer.zero_grad()
    accelerator.print("batch", n, "loss", loss.item())
