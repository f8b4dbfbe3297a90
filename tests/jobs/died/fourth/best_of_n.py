"""Rejection sampling for proofs: a Llama writes n candidates for each problem, a scorer keeps the best; problems come from a list with wishes."""
import sys
from dataclasses import dataclass

import torch
from transformers import GenerationConfig, LlamaConfig, LlamaForCausalLM, LlamaForSequenceClassification

AT_ONCE = 8 if "--fixed" in sys.argv else None


@dataclass
class Problem:
    text: torch.Tensor
    candidates: int


def problems():
    generator = torch.Generator().manual_seed(2)
    for n in (8, 4, 8, 96, 8):
        yield Problem(torch.randint(3, 8000, (400,), generator=generator), n)


def llama(kind, layers, **more):
    config = LlamaConfig(vocab_size=8000, hidden_size=384, intermediate_size=1024, num_hidden_layers=layers, num_attention_heads=6,
                         num_key_value_heads=6,
                         max_position_embeddings=1024, pad_token_id=0, bos_token_id=None, eos_token_id=None, **more)
    return kind(config).to("cuda", torch.bfloat16).eval()


class BestOfN:
    def __init__(self):
        torch.manual_seed(2)
        self.writer = llama(LlamaForCausalLM, 8)
        self.scorer = llama(LlamaForSequenceClassification, 2, num_labels=1)
        self.settings = GenerationConfig(max_new_tokens=12, min_new_tokens=12, do_sample=False, pad_token_id=0, eos_token_id=None)

    def write(self, text, n):
        ids = text.repeat(n, 1).to("cuda")
        return self.writer.generate(input_ids=ids, attention_mask=torch.ones_like(ids), generation_config=self.settings)

    @torch.no_grad()
    def score(self, candidates):
        scores = []
        for part in candidates.split(4):
            scores.append(self.scorer(input_ids=part, attention_mask=torch.ones_like(part)).logits[:, 0].float().cpu())
        return torch.cat(scores)

    def solve(self, problem):
        parts, left = [], problem.candidates
        while left:
            n = min(left, AT_ONCE or left)
            parts.append(self.write(problem.text, n).cpu())
            left -= n
        candidates = torch.cat(parts)
        scores = self.score(candidates.to("cuda"))
        return len(candidates), scores.max().item()


def main():
    search = BestOfN()
    for k, problem in enumerate(problems()):
        print("problem", k, "candidates and best score", search.solve(problem))


main()
