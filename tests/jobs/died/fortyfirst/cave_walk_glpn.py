"""Depth along a walk through a show cave: GLPN on each frame of the film, then the median depth for each second."""
import sys

import torch
import torch.nn.functional as F
from transformers import GLPNConfig, GLPNForDepthEstimation

FIXED = "--fixed" in sys.argv
HEIGHT, WIDTH = 704, 1280
FRAMES_PER_SECOND, SECONDS, AT_A_TIME = 12, 12, 4


def network():
    torch.manual_seed(2)
    config = GLPNConfig(depths=[2, 2, 2, 2], hidden_sizes=[32, 64, 128, 192], num_attention_heads=[1, 2, 4, 6], decoder_hidden_size=64, max_depth=30)
    return GLPNForDepthEstimation(config).half().cuda().eval()


def film():
    """Frames in fours, as the decoder gives them."""
    generator = torch.Generator().manual_seed(5)
    frame = torch.randint(0, 256, (3, HEIGHT // 2, WIDTH // 2), dtype=torch.uint8, generator=generator)
    for start in range(0, FRAMES_PER_SECOND * SECONDS, AT_A_TIME):
        yield torch.stack([frame.roll(start + i, -1) for i in range(AT_A_TIME)])


class Walk:
    """Depth maps in the resolution of the film."""

    def __init__(self, model):
        self.model = model
        self.maps = []

    @torch.inference_mode()
    def see(self, frames):
        pixels = frames.cuda().half() / 255
        depth = self.model(pixel_values=pixels).predicted_depth
        depth = F.interpolate(depth[:, None].float(), size=(HEIGHT, WIDTH), mode="bicubic", align_corners=False)[:, 0]
        self.maps.append(depth.half().cpu() if FIXED else depth)

    def per_second(self):
        rows = []
        for second in range(SECONDS):
            start = second * FRAMES_PER_SECOND // AT_A_TIME
            maps = torch.cat(self.maps[start:start + FRAMES_PER_SECOND // AT_A_TIME])
            rows.append(maps[:, ::16, ::16].float().flatten(1).median(1).values.mean().item())
        return rows


def main():
    walk = Walk(network())
    for frames in film():
        walk.see(frames)
    for second, depth in enumerate(walk.per_second()):
        print(f"{second:3d} s  {depth:.2f} m")


if __name__ == "__main__":
    main()
