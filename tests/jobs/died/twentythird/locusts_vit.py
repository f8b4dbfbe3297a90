"""Fine-tunes a ViT to tell solitary from gregarious locusts, and follows the rank of the representations layer by layer (for the thesis)."""
import sys
from collections import defaultdict

import torch
from transformers import ViTConfig, ViTForImageClassification

FIXED = "--fixed" in sys.argv


class Representations:
    """Listens to the blocks of the encoder; report() says how spread out each layer is."""

    def __init__(self, blocks):
        self.seen = defaultdict(list)
        self.handles = [b.register_forward_hook(self.listener(i)) for i, b in enumerate(blocks)]

    def listener(self, index):
        def listen(module, args, output):
            tokens = output[0] if isinstance(output, tuple) else output
            if FIXED:
                tokens = tokens[:, 0].detach().cpu()
            self.seen[index].append(tokens)
        return listen

    def report(self):
        lines = []
        for index, batches in self.seen.items():
            cls = torch.cat([(b if b.dim() == 2 else b[:, 0]).detach().cpu().float() for b in batches])
            lines.append(f"layer {index}: {cls.std(0).mean().item():.3f} over {len(cls)} insects")
        self.seen.clear()
        return "\n".join(lines)


def build():
    config = ViTConfig(image_size=192, patch_size=16, hidden_size=288, num_hidden_layers=9, num_attention_heads=6,
                       intermediate_size=1152, num_labels=2)
    return ViTForImageClassification(config).to("cuda")


def blocks_of(model):
    """The list of encoder blocks, whatever this version of transformers calls it."""
    lists = [m for m in model.modules() if isinstance(m, torch.nn.ModuleList) and len(m) == model.config.num_hidden_layers]
    return lists[0]


def insects(n, batch, seed):
    g = torch.Generator().manual_seed(seed)
    for _ in range(n):
        yield torch.rand(batch, 3, 192, 192, generator=g), torch.randint(0, 2, (batch,), generator=g)


def main():
    torch.manual_seed(13)
    model = build()
    spread = Representations(blocks_of(model))
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-5)
    for epoch in range(1):
        model.train()
        for step, (image, phase) in enumerate(insects(40, 12, epoch)):
            out = model(pixel_values=image.to("cuda"), labels=phase.to("cuda"))
            optimizer.zero_grad()
            out.loss.backward()
            optimizer.step()
            if step % 10 == 0:
                print(epoch, step, out.loss.item())
        print(spread.report())


if __name__ == "__main__":
    main()
