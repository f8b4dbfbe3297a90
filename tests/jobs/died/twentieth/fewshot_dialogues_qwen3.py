"""Writes synthetic dialogues for a phrase book: each request shows the model many examples and asks for one more."""
import sys

import torch
from transformers import DynamicCache, Qwen3Config, Qwen3ForCausalLM

AT_ONCE = 8 if "--fixed" in sys.argv else 64
EXAMPLES, EXAMPLE_LENGTH, NEW = 20, 70, 24


class Writer:
    def __init__(self):
        config = Qwen3Config(vocab_size=16000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
                             num_key_value_heads=6, head_dim=64, max_position_embeddings=4096)
        self.model = Qwen3ForCausalLM(config).to("cuda", torch.bfloat16).eval()

    @torch.inference_mode()
    def complete(self, prompts):
        cache = DynamicCache(config=self.model.config)
        out = self.model(input_ids=prompts.to("cuda"), past_key_values=cache, use_cache=True, logits_to_keep=1)
        words = [out.logits[:, -1].argmax(-1, keepdim=True)]
        for _ in range(NEW - 1):
            out = self.model(input_ids=words[-1], past_key_values=cache, use_cache=True)
            words.append(out.logits[:, -1].argmax(-1, keepdim=True))
        return torch.cat(words, 1).cpu()


def requests(count, generator):
    pool = torch.randint(0, 16000, (400, EXAMPLE_LENGTH), generator=generator)
    for _ in range(count):
        shown = torch.randperm(len(pool), generator=generator)[:EXAMPLES]
        yield pool[shown].flatten()


def main():
    writer, generator = Writer(), torch.Generator().manual_seed(1)
    waiting, done = [], 0
    for prompt in requests(128, generator):
        waiting.append(prompt)
        if len(waiting) == AT_ONCE:
            done += len(writer.complete(torch.stack(waiting)))
            waiting = []
            print("dialogues:", done)


main()
