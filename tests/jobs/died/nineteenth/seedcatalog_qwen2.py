"""Fills in missing fields of seed catalogues ("sowing time:", "height:") from the page's text. Greedy, own loop, so that fields stop early."""
import sys
from typing import List

import torch
from transformers import DynamicCache, Qwen2Config, Qwen2ForCausalLM

VOCAB = 32_000
PREFILL = {"logits_to_keep": 1} if "--fixed" in sys.argv else {}


class FieldFiller:
    def __init__(self):
        config = Qwen2Config(vocab_size=VOCAB, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
                             num_key_value_heads=2, max_position_embeddings=2048, tie_word_embeddings=True)
        self.model = Qwen2ForCausalLM(config).to("cuda").eval()

    @torch.inference_mode()
    def fill(self, prompts: torch.Tensor, new_tokens: int = 12) -> List[List[int]]:
        cache = DynamicCache(config=self.model.config)
        out = self.model(input_ids=prompts.to("cuda"), past_key_values=cache, use_cache=True, **PREFILL)
        token = out.logits[:, -1:].argmax(-1)
        answer = [token]
        del out
        for _ in range(new_tokens - 1):
            out = self.model(input_ids=token, past_key_values=cache, use_cache=True)
            token = out.logits[:, -1:].argmax(-1)
            answer.append(token)
        return torch.cat(answer, 1).cpu().tolist()


def pages(count: int, size: int, length: int):
    gen = torch.Generator().manual_seed(1905)
    for _ in range(count):
        yield torch.randint(10, VOCAB, (size, length), generator=gen)


if __name__ == "__main__":
    filler = FieldFiller()
    done = 0
    for prompts in pages(count=4, size=16, length=1100):
        fields = filler.fill(prompts)
        done += len(fields)
        print("filled", done, "fields of", len(fields[0]), "tokens")
