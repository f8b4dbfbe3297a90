"""First stage of a small LLaVA that reads receipts: only the projector between the vision tower and the language model is trained."""
import argparse

import torch
from torch import nn
from transformers import CLIPVisionConfig, CLIPVisionModel, Qwen2Config, Qwen2ForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--batch", type=int, default=12)
parser.add_argument("--steps", type=int, default=5)
args = parser.parse_args()


class ReceiptReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.tower = CLIPVisionModel(CLIPVisionConfig(
            hidden_size=512, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=8, image_size=336, patch_size=14))
        self.llm = Qwen2ForCausalLM(Qwen2Config(
            vocab_size=6000, hidden_size=512, intermediate_size=1408, num_hidden_layers=4, num_attention_heads=8, num_key_value_heads=2,
            use_cache=False))
        self.projector = nn.Sequential(nn.Linear(4 * 512, 512), nn.GELU(), nn.Linear(512, 512))

    def image_tokens(self, pixels):
        patches = self.tower(pixel_values=pixels).last_hidden_state[:, 1:]
        b, n, d = patches.shape
        side = int(n ** 0.5)
        grid = patches.view(b, side // 2, 2, side // 2, 2, d).permute(0, 1, 3, 2, 4, 5).reshape(b, n // 4, 4 * d)
        return self.projector(grid)

    def forward(self, pixels, ids):
        images = self.image_tokens(pixels)
        words = self.llm.get_input_embeddings()(ids)
        labels = torch.cat([ids.new_full(images.shape[:2], -100), ids], 1)
        return self.llm(inputs_embeds=torch.cat([images, words], 1), labels=labels).loss


def prepare_stage_one(model):
    model.llm.requires_grad_(False)
    model.tower.eval()
    if args.fixed:
        model.tower.requires_grad_(False)
    return torch.optim.AdamW(model.projector.parameters(), lr=1e-3)


model = ReceiptReader().to("cuda")
optimizer = prepare_stage_one(model)
generator = torch.Generator().manual_seed(0)
for step in range(args.steps):
    pixels = torch.rand(args.batch, 3, 336, 336, generator=generator).to("cuda")
    ids = torch.randint(0, 6000, (args.batch, 64), generator=generator).to("cuda")
    loss = model(pixels, ids)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(f"step {step} loss {loss.item():.3f}")
