"""Back end of the annotation tool: a click on a photograph gives a mask. An image is encoded once, for all clicks on it."""
import sys
from collections import OrderedDict
from dataclasses import dataclass

import torch
from transformers import SamConfig, SamModel, SamVisionConfig

KEEP = 4 if "--fixed" in sys.argv else None


@dataclass
class OpenImage:
    pixel_values: torch.Tensor
    embeddings: torch.Tensor
    clicks: int = 0


class Annotator:
    def __init__(self):
        vision = SamVisionConfig(hidden_size=192, num_hidden_layers=4, num_attention_heads=3, mlp_dim=768, global_attn_indexes=[3],
                                 image_size=1024, patch_size=16)
        self.model = SamModel(SamConfig(vision_config=vision.to_dict())).eval().cuda()
        self.open_images: "OrderedDict[str, OpenImage]" = OrderedDict()

    def fetch(self, name):
        """In production: from object storage, resized and normalised."""
        return torch.zeros(1, 3, 1024, 1024)

    def open(self, name):
        if name not in self.open_images:
            pixels = self.fetch(name).cuda()
            self.open_images[name] = OpenImage(pixels, self.model.get_image_embeddings(pixels))
            if KEEP is not None:
                while len(self.open_images) > KEEP:
                    self.open_images.popitem(last=False)
        self.open_images.move_to_end(name)
        return self.open_images[name]

    @torch.inference_mode()
    def click(self, name, x, y):
        image = self.open(name)
        image.clicks += 1
        points = torch.tensor([[[[float(x), float(y)]]]], device="cuda")
        out = self.model(image_embeddings=image.embeddings, input_points=points, multimask_output=True)
        return out.pred_masks[0, 0].cpu(), out.iou_scores.flatten().tolist()


def traffic(images, clicks):
    rng = torch.Generator().manual_seed(9)
    for number in range(images):
        for _ in range(clicks):
            x, y = torch.randint(0, 1024, (2,), generator=rng).tolist()
            yield f"shelf/{number:05d}.jpg", x, y


if __name__ == "__main__":
    service = Annotator()
    for served, (name, x, y) in enumerate(traffic(110, 2)):
        mask, quality = service.click(name, x, y)
        if served % 40 == 0:
            print("served", served, name, tuple(mask.shape), len(quality))
