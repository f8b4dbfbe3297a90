"""Makes embeddings of all pictures of a catalogue with a SigLIP vision tower and writes them into one file.
"""
import os
import sys
import tempfile

import torch
from transformers import SiglipVisionConfig, SiglipVisionModel

FIXED = "--fixed" in sys.argv


def build():
    config = SiglipVisionConfig(hidden_size=384, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=6, image_size=224, patch_size=16)
    model = SiglipVisionModel(config)
    model.eval()
    return model.cuda()


def normalised(pixels, mean=0.5, deviation=0.5):
    return (pixels - mean) / deviation


def pictures(n, size):
    """Batches of pictures, with the numbers of their articles."""
    for k in range(n):
        pixels = torch.zeros(size, 3, 224, 224)
        pixels[:, k % 3] = k / n
        yield range(k * size, (k + 1) * size), normalised(pixels)


def embed(model, pixels):
    out = model(pixel_values=pixels.to("cuda"))
    return torch.nn.functional.normalize(out.pooler_output, dim=-1)


def catalogue(model, batches):
    numbers, vectors = [], []
    for n, (articles, pixels) in enumerate(batches):
        if FIXED:
            with torch.inference_mode():
                vectors.append(embed(model, pixels).cpu())
        else:
            vectors.append(embed(model, pixels))
        numbers.extend(articles)
        if n % 5 == 0:
            print("batch", n, "articles", len(numbers))
    return numbers, torch.cat(vectors)


def main():
    model = build()
    numbers, vectors = catalogue(model, pictures(24, 8))
    with tempfile.TemporaryDirectory() as directory:
        path = os.path.join(directory, "catalogue.pt")
        torch.save({"articles": numbers, "vectors": vectors.detach().cpu()}, path)
        print(len(numbers), "articles,", tuple(vectors.shape), os.path.getsize(path), "bytes")


if __name__ == "__main__":
    main()
