"""Two agents bargain over books, hats and balls; one Llama plays both. Policy gradient with a clipped ratio, with Accelerate."""
import sys

import torch
from accelerate import Accelerator
from transformers import LlamaConfig, LlamaForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB, TURNS, DIALOGUES = 4000, 320, 24


def make_policy():
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=512, intermediate_size=1408, num_hidden_layers=10, num_attention_heads=8,
                         num_key_value_heads=8, max_position_embeddings=512, attention_dropout=0.0)
    policy = LlamaForCausalLM(config)
    policy.gradient_checkpointing_enable()
    # no randomness between the old and the new log-probabilities
    return policy.train() if FIXED else policy.eval()


def token_logprobs(policy, ids):
    logits = policy(input_ids=ids, use_cache=False).logits[:, :-1]
    return torch.gather(logits.log_softmax(-1), 2, ids[:, 1:, None]).squeeze(-1)


class SelfPlay:
    def __init__(self):
        self.accelerator = Accelerator()
        policy = make_policy()
        optimizer = torch.optim.AdamW(policy.parameters(), lr=1e-5)
        self.policy, self.optimizer = self.accelerator.prepare(policy, optimizer)
        self.g = torch.Generator().manual_seed(33)

    def episodes(self):
        """Dialogues as the simulator of opponents returns them, with the points that were won."""
        ids = torch.randint(0, VOCAB, (DIALOGUES, TURNS), generator=self.g)
        points = torch.randint(0, 11, (DIALOGUES,), generator=self.g).float()
        mine = (torch.arange(TURNS - 1) // 20 % 2 == 0).float().expand(DIALOGUES, -1)
        return [t.to(self.accelerator.device) for t in (ids, points, mine)]

    def update(self, epochs=2, clip=0.2):
        ids, points, mine = self.episodes()
        advantage = ((points - points.mean()) / (points.std() + 1e-6))[:, None]
        with torch.no_grad():
            old = token_logprobs(self.policy, ids)
        for _ in range(epochs):
            ratio = (token_logprobs(self.policy, ids) - old).exp()
            gain = torch.min(ratio * advantage, ratio.clamp(1 - clip, 1 + clip) * advantage)
            loss = -(gain * mine).sum() / mine.sum()
            self.optimizer.zero_grad()
            self.accelerator.backward(loss)
            self.accelerator.clip_grad_norm_(self.policy.parameters(), 1.0)
            self.optimizer.step()
        return loss.item(), points.mean().item()


play = SelfPlay()
for iteration in range(4):
    loss, points = play.update()
    play.accelerator.print(f"iteration {iteration}: surrogate {loss:.4f}, points {points:.2f}")
