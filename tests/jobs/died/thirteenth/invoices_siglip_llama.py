"""A vision-language model of its own for invoices: a SigLIP tower, a projector and a small Llama; images arrive in their scanner's resolution."""
import sys

import torch
from torch import nn
from transformers import LlamaConfig, LlamaForCausalLM, SiglipVisionConfig, SiglipVisionModel

FIXED = "--fixed" in sys.argv


class InvoiceReader(nn.Module):
    def __init__(self):
        super().__init__()
        vision = SiglipVisionConfig(hidden_size=256, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=4, image_size=224,
                                    patch_size=14, vision_use_head=False)
        text = LlamaConfig(vocab_size=4000, hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6,
                           num_key_value_heads=6, max_position_embeddings=8192)
        self.tower = SiglipVisionModel(vision)
        self.projector = nn.Sequential(nn.LayerNorm(256), nn.Linear(256, 384), nn.GELU(), nn.Linear(384, 384))
        self.decoder = LlamaForCausalLM(text)

    def forward(self, pixels, ids):
        patches = self.tower(pixel_values=pixels, interpolate_pos_encoding=True).last_hidden_state
        image = self.projector(patches)
        words = self.decoder.get_input_embeddings()(ids)
        labels = torch.cat([torch.full(image.shape[:2], -100, device=ids.device), ids], dim=1)
        return self.decoder(inputs_embeds=torch.cat([image, words], dim=1), labels=labels, use_cache=False).loss


def scans(n, batch):
    """A page in landscape, as the office's scanner makes it."""
    for _ in range(n):
        yield torch.zeros(batch, 3, 630, 882), torch.randint(1, 4000, (batch, 96))


def prepared(pixels):
    if FIXED:
        return nn.functional.interpolate(pixels, size=(280, 392), mode="bilinear", align_corners=False)
    return pixels


def main():
    model = InvoiceReader().cuda()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    for k, (pixels, ids) in enumerate(scans(3, batch=2)):
        with torch.autocast("cuda", torch.bfloat16):
            loss = model(prepared(pixels).cuda(), ids.cuda())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("batch", k, "loss", loss.item())


main()
