"""First stage of a vision-language model: only the projector between the vision tower and the language model is to learn.

After https://github.com/haitongli/knowledge-distillation-pytorch/issues/25
"""
import argparse

import torch
from torch import nn
from transformers import CLIPVisionConfig, CLIPVisionModel, LlamaConfig, LlamaForCausalLM


class VisionLanguage(nn.Module):
    def __init__(self):
        super().__init__()
        vision = CLIPVisionConfig(hidden_size=512, intermediate_size=2048, num_hidden_layers=8, num_attention_heads=8, image_size=224, patch_size=14)
        text = LlamaConfig(vocab_size=4096, hidden_size=640, intermediate_size=1792, num_hidden_layers=8, num_attention_heads=10, use_cache=False)
        self.vision, self.llm = CLIPVisionModel(vision), LlamaForCausalLM(text)
        self.projector = nn.Sequential(nn.Linear(512, 640), nn.GELU(), nn.Linear(640, 640))

    def forward(self, pixels, ids):
        patches = self.vision(pixel_values=pixels).last_hidden_state[:, 1:]
        words = self.llm.get_input_embeddings()(ids)
        embedded = torch.cat([self.projector(patches), words], 1)
        labels = torch.cat([ids.new_full(patches.shape[:2], -100), ids], 1)
        return self.llm(inputs_embeds=embedded, labels=labels).loss


def captions(steps, batch):
    for _ in range(steps):
        yield torch.rand(batch, 3, 224, 224), torch.randint(4096, (batch, 64))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    model = VisionLanguage().cuda()
    if args.fixed:
        model.vision.requires_grad_(False)
        model.llm.requires_grad_(False)
    model.vision.eval()
    model.llm.eval()
    optimizer = torch.optim.AdamW(model.projector.parameters(), lr=1e-3)
    scaler = torch.amp.GradScaler("cuda")
    for step, (pixels, ids) in enumerate(captions(6, 4)):
        with torch.autocast("cuda", dtype=torch.float16):
            loss = model(pixels.cuda(), ids.cuda())
        optimizer.zero_grad()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()
        print(step, loss.item())


if __name__ == "__main__":
    main()
