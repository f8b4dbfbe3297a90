"""Curriculum for an agent that books journeys: imitation, then weighted by reward, then with long journeys. Each stage has its own rate."""
import sys

import torch
import torch.nn.functional as F
from transformers import GPT2Config, GPT2LMHeadModel

FIXED = "--fixed" in sys.argv
VOCAB = 6000


class Stage:
    def __init__(self, name, length, lr, steps, weighted):
        self.name, self.length, self.lr, self.steps, self.weighted = name, length, lr, steps, weighted
        self.optimizer = self.scheduler = None
        self.losses = []

    def start(self, policy):
        self.optimizer = torch.optim.AdamW(policy.parameters(), lr=self.lr, weight_decay=0.01, fused=True)
        self.scheduler = torch.optim.lr_scheduler.OneCycleLR(self.optimizer, self.lr, total_steps=self.steps + 1)

    def finish(self):
        if FIXED:
            self.optimizer = self.scheduler = None


class Curriculum:
    def __init__(self, policy, stages):
        self.policy, self.stages = policy, stages
        self.generator = torch.Generator().manual_seed(17)

    def journeys(self, length, batch=4):
        ids = torch.randint(0, VOCAB, (batch, length), generator=self.generator)
        return ids.cuda(), torch.rand(batch, generator=self.generator).cuda()

    def run(self):
        for stage in self.stages:
            stage.start(self.policy)
            for _ in range(stage.steps):
                ids, reward = self.journeys(stage.length)
                logits = self.policy(input_ids=ids, use_cache=False).logits[:, :-1]
                loss = F.cross_entropy(logits.transpose(1, 2), ids[:, 1:], reduction="none").mean(1)
                loss = (loss * reward).mean() if stage.weighted else loss.mean()
                stage.optimizer.zero_grad(set_to_none=True)
                loss.backward()
                stage.optimizer.step()
                stage.scheduler.step()
                stage.losses.append(loss.item())
            stage.finish()
            print(stage.name, "finished with a loss of", stage.losses[-1])


def main():
    policy = GPT2LMHeadModel(GPT2Config(vocab_size=VOCAB, n_positions=128, n_embd=768, n_layer=8, n_head=12)).cuda().train()
    Curriculum(policy, [
        Stage("imitation", 48, 1e-4, 5, weighted=False),
        Stage("rewards", 48, 3e-5, 5, weighted=True),
        Stage("long journeys", 64, 1e-5, 5, weighted=True),
    ]).run()


main()
