"""Prefers the replies that customers rated well (DPO of our own; support assistant)."""
import copy
import sys
from contextlib import nullcontext
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM


@dataclass
class DPOConfig:
    beta: float = 0.1
    lr: float = 5e-6
    pairs: int = 4
    prompt: int = 192
    reply: int = 192
    steps: int = 5
    vocab: int = 10000


def sequence_logps(model, ids, prompt_len):
    logits = model(input_ids=ids).logits[:, prompt_len - 1:-1]
    logp = torch.log_softmax(logits.float(), -1)
    return logp.gather(-1, ids[:, prompt_len:].unsqueeze(-1)).squeeze(-1).sum(-1)


class PreferenceTrainer:
    def __init__(self, cfg, policy):
        self.cfg, self.policy = cfg, policy.cuda()
        self.ref = copy.deepcopy(self.policy).eval()
        self.ref_context = torch.no_grad if "--fixed" in sys.argv else nullcontext
        self.opt = torch.optim.RMSprop(self.policy.parameters(), lr=cfg.lr)
        self.gen = torch.Generator().manual_seed(12)

    def batch(self):
        c = self.cfg
        prompt = torch.randint(0, c.vocab, (c.pairs, c.prompt), generator=self.gen)
        good, bad = (torch.randint(0, c.vocab, (c.pairs, c.reply), generator=self.gen) for _ in range(2))
        return torch.cat([torch.cat([prompt, good], 1), torch.cat([prompt, bad], 1)]).cuda()

    def loss(self, ids):
        with self.ref_context():
            ref_good, ref_bad = sequence_logps(self.ref, ids, self.cfg.prompt).chunk(2)
        good, bad = sequence_logps(self.policy, ids, self.cfg.prompt).chunk(2)
        margin = self.cfg.beta * ((good - ref_good) - (bad - ref_bad))
        return -F.logsigmoid(margin).mean(), margin.detach().mean()

    def fit(self):
        self.policy.train()
        for step in range(self.cfg.steps):
            loss, margin = self.loss(self.batch())
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), 1.0)
            self.opt.step()
            self.opt.zero_grad(set_to_none=True)
            print({"step": step, "loss": loss.item(), "margin": margin.item()})


if __name__ == "__main__":
    cfg = DPOConfig()
    policy = GPTNeoXForCausalLM(GPTNeoXConfig(vocab_size=cfg.vocab, hidden_size=384, num_hidden_layers=8, num_attention_heads=6,
                                              intermediate_size=1536, max_position_embeddings=512, use_cache=False))
    PreferenceTrainer(cfg, policy).fit()
