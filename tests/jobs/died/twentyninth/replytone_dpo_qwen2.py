"""DPO on pairs of replies that support leads ranked by tone, written without TRL so that our own logging works."""
import argparse
import copy
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from transformers import Qwen2Config, Qwen2ForCausalLM


@dataclass
class TonePairs:
    vocab: int = 5000
    prompt: int = 160
    reply: int = 224
    pairs: int = 6
    seed: int = 13

    def batches(self, count):
        g = torch.Generator().manual_seed(self.seed)
        for _ in range(count):
            prompt = torch.randint(3, self.vocab, (self.pairs, self.prompt), generator=g)
            better, worse = (torch.randint(3, self.vocab, (self.pairs, self.reply), generator=g) for _ in range(2))
            yield torch.cat([torch.cat([prompt, better], 1), torch.cat([prompt, worse], 1)]).cuda()


def reply_logprobs(model, ids, prompt):
    logits = model(input_ids=ids).logits[:, prompt - 1:-1]
    picked = -F.cross_entropy(logits.transpose(1, 2), ids[:, prompt:], reduction="none")
    return picked.sum(-1).chunk(2)


class ToneTuner:
    def __init__(self, data, beta, frozen_reference):
        self.data, self.beta = data, beta
        self.policy = Qwen2ForCausalLM(Qwen2Config(
            vocab_size=data.vocab, hidden_size=384, intermediate_size=1024, num_hidden_layers=7, num_attention_heads=6,
            num_key_value_heads=2, max_position_embeddings=512, use_cache=False)).cuda()
        self.reference = copy.deepcopy(self.policy).eval()
        self.frozen_reference = frozen_reference
        self.optimizer = torch.optim.AdamW(self.policy.parameters(), lr=5e-6)

    def reference_logprobs(self, ids):
        with torch.set_grad_enabled(not self.frozen_reference):
            return reply_logprobs(self.reference, ids, self.data.prompt)

    def step(self, ids):
        ref_better, ref_worse = self.reference_logprobs(ids)
        better, worse = reply_logprobs(self.policy, ids, self.data.prompt)
        margin = (better - ref_better) - (worse - ref_worse)
        loss = -F.logsigmoid(self.beta * margin).mean()
        self.optimizer.zero_grad()
        loss.backward()
        self.optimizer.step()
        return {"loss": loss.item(), "margin": margin.mean().item()}


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--beta", type=float, default=0.1)
    parser.add_argument("--fixed", action="store_true")
    args = parser.parse_args()
    data = TonePairs()
    tuner = ToneTuner(data, args.beta, frozen_reference=args.fixed)
    for number, ids in enumerate(data.batches(6)):
        print(number, tuner.step(ids))
