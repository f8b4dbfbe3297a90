"""Which fragments belong to one scroll: DINOv2 features of both sides of each fragment, compared on the CPU."""
import sys

import torch
import torch.nn.functional as F
from transformers import Dinov2Config, Dinov2Model

FIXED = "--fixed" in sys.argv


class Fragments:
    """Pictures of fragments, the written side and the back."""

    def __init__(self, n):
        self.n, self.generator = n, torch.Generator().manual_seed(1947)

    def __iter__(self):
        for i in range(self.n):
            yield f"4Q{i:03d}", torch.randint(0, 256, (2, 3, 224, 224), generator=self.generator, dtype=torch.uint8)


def in_half():
    """The weights as they are published, in float16."""
    torch.manual_seed(0)
    config = Dinov2Config(hidden_size=1280, num_hidden_layers=28, num_attention_heads=20, image_size=224, patch_size=14)
    torch.set_default_dtype(torch.float16)
    with torch.device("cuda"):
        model = Dinov2Model(config)
    torch.set_default_dtype(torch.float32)
    return model.eval()


def prepare(pictures, dtype):
    mean, std = torch.tensor([0.485, 0.456, 0.406]), torch.tensor([0.229, 0.224, 0.225])
    x = (pictures.float() / 255 - mean[:, None, None]) / std[:, None, None]
    return x.to("cuda", dtype)


@torch.inference_mode()
def describe(model, pictures):
    x = prepare(pictures, next(model.parameters()).dtype)
    tokens = model(pixel_values=x).last_hidden_state
    return F.normalize(tokens[:, 0].float(), dim=-1).flatten().cpu()


def main():
    model = in_half()
    if not FIXED:
        model = model.float()  # "expected scalar type Half but found Float"
    names, features = [], []
    for name, pictures in Fragments(24):
        names.append(name)
        features.append(describe(model, pictures))
    alike = torch.stack(features) @ torch.stack(features).T
    alike.fill_diagonal_(-1)
    for i in range(0, len(names), 6):
        j = int(alike[i].argmax())
        print(names[i], "is most like", names[j])


if __name__ == "__main__":
    main()
