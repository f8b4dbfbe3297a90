"""Fab: classifies wafer maps with a ViT and watches the activations of all layers for drift between lots."""
import sys

import torch
from transformers import ViTConfig, ViTForImageClassification

FIXED = "--fixed" in sys.argv


class ActivationProbe:
    """Per layer: mean and spread of the outputs, for the drift dashboard."""

    def __init__(self, model, kind="ViTLayer"):
        self.activations, self.handles = {}, []
        for name, module in model.named_modules():
            if type(module).__name__ == kind:
                self.handles.append(module.register_forward_hook(self.make_hook(name)))

    def make_hook(self, name):
        def hook(module, inputs, output):
            act = (output[0] if isinstance(output, tuple) else output).detach()
            if FIXED:
                act = torch.stack([act.mean(), act.std()]).cpu()
            self.activations.setdefault(name, []).append(act)
        return hook

    def report(self):
        out = {}
        for name, acts in self.activations.items():
            if FIXED:
                out[name] = torch.stack(acts).mean(0).tolist()
            else:
                out[name] = [sum(a.mean().item() for a in acts) / len(acts), sum(a.std().item() for a in acts) / len(acts)]
        return out


def lots(n, batch=32):
    g = torch.Generator().manual_seed(3)
    for _ in range(n):
        yield torch.rand(batch, 1, 224, 224, generator=g), torch.randint(0, 9, (batch,), generator=g)


def main():
    model = ViTForImageClassification(ViTConfig(image_size=224, patch_size=16, num_channels=1, hidden_size=256, num_hidden_layers=8,
                                                num_attention_heads=4, intermediate_size=768, num_labels=9)).cuda()
    probe = ActivationProbe(model)
    if not probe.handles:
        raise SystemExit("no layers to watch")
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-4, weight_decay=0.05)
    model.train()
    for i, (maps, label) in enumerate(lots(28)):
        loss = model(pixel_values=maps.cuda(), labels=label.cuda()).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if i % 7 == 0:
            print("lot", i, "loss", loss.item())
    for name, (mean, std) in probe.report().items():
        print(name, f"{mean:.3f} {std:.3f}")


main()
