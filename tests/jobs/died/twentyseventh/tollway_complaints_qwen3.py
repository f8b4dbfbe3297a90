"""Routes complaints about toll roads: tunes a small Qwen3, then asks it which of five letters (A to E) follows each complaint."""
import sys

import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB = 110_000
LETTERS = torch.tensor([32, 33, 34, 35, 36])


def make_model():
    config = Qwen3Config(vocab_size=VOCAB, hidden_size=256, intermediate_size=704, num_hidden_layers=4, num_attention_heads=4,
                         num_key_value_heads=2, head_dim=64, tie_word_embeddings=True)
    return Qwen3ForCausalLM(config).cuda()


def tune(model, steps=8):
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model.train()
    for step in range(steps):
        ids = torch.randint(0, VOCAB, (2, 128)).cuda()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    print("tuned", loss.item())


class Router:
    def __init__(self, model, letters):
        self.model = model.eval()
        self.letters = letters.cuda()

    @torch.inference_mode()
    def choose(self, complaints):
        ids = complaints.cuda()
        extra = {"logits_to_keep": 1} if FIXED else {}
        logits = self.model(input_ids=ids, use_cache=False, **extra).logits
        scores = logits[:, -1, self.letters].log_softmax(-1)
        return scores.argmax(-1).cpu()


def main():
    torch.manual_seed(4)
    model = make_model()
    tune(model)
    router = Router(model, LETTERS)
    seen = 0
    for _ in range(5):
        complaints = torch.randint(0, VOCAB, (24, 320))
        seen += len(router.choose(complaints))
    print("complaints routed", seen)


main()
