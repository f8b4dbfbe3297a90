"""Answers the questions of a quiz in batches with a Llama that has as many key heads as query heads, in a decoding loop with the model's cache.
"""
import sys
from dataclasses import dataclass

import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM


@dataclass
class Settings:
    questions: int = 64
    at_once: int = 8 if "--fixed" in sys.argv else 64
    prompt: int = 96
    answer: int = 96
    words: int = 4000
    temperature: float = 0.8


def build(s):
    config = LlamaConfig(vocab_size=s.words, hidden_size=768, intermediate_size=2048, num_hidden_layers=10, num_attention_heads=12,
                         num_key_value_heads=12, max_position_embeddings=512)
    return LlamaForCausalLM(config).to("cuda", torch.float16).eval()


def picked(logits, temperature):
    """Samples by Gumbel's trick, which needs no sorting."""
    noise = -torch.log(-torch.log(torch.rand_like(logits.float()).clamp(1e-6, 1 - 1e-6)))
    return (logits.float() / temperature + noise).argmax(-1, keepdim=True)


class Quiz:
    def __init__(self, settings):
        self.s = settings
        self.model = build(settings)

    def questions(self):
        generator = torch.Generator().manual_seed(12)
        ids = torch.randint(0, self.s.words, (self.s.questions, self.s.prompt), generator=generator)
        return ids.split(self.s.at_once)

    @torch.inference_mode()
    def answers(self, ids):
        cache = DynamicCache(config=self.model.config)
        ids = ids.to("cuda")
        words = []
        out = self.model(input_ids=ids, past_key_values=cache, use_cache=True, logits_to_keep=1)
        for _ in range(self.s.answer):
            word = picked(out.logits[:, -1], self.s.temperature)
            words.append(word.cpu())
            out = self.model(input_ids=word, past_key_values=cache, use_cache=True)
        return torch.cat(words, 1)

    def run(self):
        for n, ids in enumerate(self.questions()):
            answers = self.answers(ids)
            if n % 2 == 0:
                print("batch", n, tuple(answers.shape))


Quiz(Settings()).run()
