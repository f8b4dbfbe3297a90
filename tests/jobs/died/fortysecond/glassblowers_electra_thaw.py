"""Classifies glassblowers' workshop notes with ELECTRA, thawed in stages: first the head, then the upper half, then everything."""
import sys

import torch
from torch.utils.data import DataLoader, TensorDataset
from transformers import ElectraConfig, ElectraForSequenceClassification

FIXED = "--fixed" in sys.argv
KINDS = ["recipe", "furnace log", "order", "letter", "inventory"]


def notes(n=96, length=40):
    g = torch.Generator().manual_seed(1600)
    return TensorDataset(torch.randint(5, 30522, (n, length), generator=g), torch.randint(0, len(KINDS), (n,), generator=g))


class Phase:
    """A part of the training, with what is trained in it, and how fast."""

    def __init__(self, name, lr, layers):
        self.name, self.lr, self.layers = name, lr, layers
        self.optimizer = None

    def begin(self, model):
        model.requires_grad_(False)
        chosen = [model.classifier]
        chosen += list(model.electra.encoder.layer[len(model.electra.encoder.layer) - self.layers:]) if self.layers else []
        if self.layers == len(model.electra.encoder.layer):
            chosen.append(model.electra.embeddings)
        for module in chosen:
            module.requires_grad_(True)
        self.optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=self.lr)

    def end(self):
        if FIXED:
            self.optimizer = None


def run_phase(model, loader, phase, losses):
    phase.begin(model)
    for ids, kinds in loader:
        loss = model(input_ids=ids.cuda(), labels=kinds.cuda()).loss
        loss.backward()
        phase.optimizer.step()
        phase.optimizer.zero_grad()
        losses.append(loss.item())
    for group in phase.optimizer.param_groups:
        print(f"{phase.name}: lr {group['lr']:.0e}, {sum(p.numel() for p in group['params']) / 1e6:.1f} million weights, loss {losses[-1]:.3f}")
    phase.end()


def main():
    torch.manual_seed(2)
    model = ElectraForSequenceClassification(ElectraConfig(embedding_size=768, hidden_size=768, intermediate_size=3072, num_hidden_layers=16,
                                                           num_attention_heads=12, num_labels=len(KINDS))).cuda().train()
    loader = DataLoader(notes(), batch_size=12, shuffle=True)
    phases = [Phase("head", 1e-3, 0), Phase("upper layers", 1e-4, 12), Phase("all but little", 5e-5, 15), Phase("everything", 2e-5, 16)]
    losses = []
    for phase in phases:
        run_phase(model, loader, phase, losses)
    print("mean of the last losses", sum(losses[-8:]) / 8)


if __name__ == "__main__":
    main()
