"""Stage 1 of a tiny VLM that reads chess boards: only the connector between CLIP and the language model is trained."""
import sys

import torch
import torch.nn as nn
from transformers import CLIPVisionConfig, CLIPVisionModel, Qwen2Config, Qwen2ForCausalLM, get_constant_schedule_with_warmup

FIXED = "--fixed" in sys.argv
VOCAB, IMAGES = 12000, 4


class ChessVLM(nn.Module):
    def __init__(self):
        super().__init__()
        self.vision = CLIPVisionModel(CLIPVisionConfig(
            hidden_size=384, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=6, image_size=224, patch_size=28))
        self.lm = Qwen2ForCausalLM(Qwen2Config(
            vocab_size=VOCAB, hidden_size=768, intermediate_size=3072, num_hidden_layers=9, num_attention_heads=12,
            num_key_value_heads=4, tie_word_embeddings=True))
        self.connector = nn.Sequential(nn.LayerNorm(384), nn.Linear(384, 768), nn.GELU(), nn.Linear(768, 768))

    def freeze(self):
        self.vision.requires_grad_(False)
        if FIXED:
            self.lm.requires_grad_(False)

    def forward(self, pixels, ids):
        with torch.no_grad():
            patches = self.vision(pixels).last_hidden_state[:, 1:]
        soft = self.connector(patches)
        words = self.lm.get_input_embeddings()(ids)
        labels = torch.cat([torch.full(soft.shape[:2], -100, device=ids.device), ids], 1)
        return self.lm(inputs_embeds=torch.cat([soft, words], 1), labels=labels, use_cache=False).loss


def positions(n, gen):
    """Pictures of boards and their FEN with a comment, as tokens."""
    for _ in range(n):
        yield torch.rand(IMAGES, 3, 224, 224, generator=gen), torch.randint(0, VOCAB, (IMAGES, 48), generator=gen)


def main():
    gen = torch.Generator().manual_seed(64)
    model = ChessVLM()
    model.freeze()
    model.cuda().train()
    optimizer = torch.optim.AdamW(model.connector.parameters(), lr=1e-3, weight_decay=0.0)
    scheduler = get_constant_schedule_with_warmup(optimizer, 3)
    for step, (pixels, ids) in enumerate(positions(10, gen)):
        loss = model(pixels.cuda(), ids.cuda())
        loss.backward()
        nn.utils.clip_grad_norm_(model.connector.parameters(), 1.0)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"step {step} loss {loss.item():.3f}")


if __name__ == "__main__":
    main()
