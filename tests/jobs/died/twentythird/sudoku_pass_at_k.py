"""Trains a Qwen2 on sudoku explanations and measures pass@32 on a few puzzles between the rounds."""
import sys
from dataclasses import dataclass

import torch
from transformers import Qwen2Config, Qwen2ForCausalLM

FIXED = "--fixed" in sys.argv


@dataclass
class Settings:
    vocab: int = 900
    prompt: int = 220
    answer: int = 20
    puzzles: int = 12
    k: int = 32
    rounds: int = 2
    steps: int = 5


class Solver:
    def __init__(self, s):
        self.s = s
        torch.manual_seed(81)
        self.g = torch.Generator().manual_seed(9)
        self.model = Qwen2ForCausalLM(Qwen2Config(
            vocab_size=s.vocab, hidden_size=448, intermediate_size=1216, num_hidden_layers=8, num_attention_heads=7, num_key_value_heads=7,
            max_position_embeddings=512, tie_word_embeddings=True, eos_token_id=None, pad_token_id=0)).cuda()
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=2e-4)

    def puzzles(self, n, length):
        return torch.randint(1, self.s.vocab, (n, length), generator=self.g).cuda()

    def learn(self):
        self.model.train()
        for _ in range(self.s.steps):
            ids = self.puzzles(6, self.s.prompt + self.s.answer)
            loss = self.model(input_ids=ids, labels=ids, use_cache=False).loss
            self.optimizer.zero_grad()
            loss.backward()
            self.optimizer.step()
        return loss.item()

    @torch.no_grad()
    def pass_at_k(self):
        self.model.eval()
        s, answers = self.s, []
        prompts = self.puzzles(s.puzzles, s.prompt)
        options = dict(do_sample=True, top_k=0, temperature=0.8, max_new_tokens=s.answer, min_new_tokens=s.answer, attention_mask=None)
        for part in prompts.split(1 if FIXED else s.puzzles):
            options["attention_mask"] = torch.ones_like(part)
            answers.append(self.model.generate(part, num_return_sequences=s.k, **options)[:, s.prompt:].cpu())
        answers = torch.cat(answers).view(s.puzzles, s.k, -1)
        return (answers[..., :1] == 5).any(1).float().mean().item()


def main():
    solver = Solver(Settings())
    for turn in range(solver.s.rounds):
        print("round", turn, "loss", solver.learn(), "pass@k", solver.pass_at_k())


main()
