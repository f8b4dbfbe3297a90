"""PPO for an agent that haggles over prices. Dialogues come from a log; a scripted buyer pays the reward."""
import sys
from collections import defaultdict

import torch
import torch.nn as nn
from transformers import GPT2Config, GPT2Model

fixed = "--fixed" in sys.argv
VOCAB, TURN = 3000, 192


class Negotiator(nn.Module):
    def __init__(self):
        super().__init__()
        self.trunk = GPT2Model(GPT2Config(vocab_size=VOCAB, n_positions=256, n_embd=384, n_layer=6, n_head=6))
        self.words = nn.Linear(384, VOCAB, bias=False)
        self.value = nn.Linear(384, 1)

    def forward(self, ids):
        h = self.trunk(input_ids=ids, use_cache=False).last_hidden_state[:, :-1]
        logp = torch.log_softmax(self.words(h), -1).gather(-1, ids[:, 1:, None]).squeeze(-1)
        return logp, self.value(h).squeeze(-1)


class PPO:
    def __init__(self, agent, clip=0.2, epochs=3):
        self.agent, self.clip, self.epochs = agent, clip, epochs
        self.opt = torch.optim.Adam(agent.parameters(), lr=1e-5)
        self.stats = defaultdict(list)

    def update(self, ids, reward):
        with torch.no_grad():
            old, values = self.agent(ids)
        advantage = reward[:, None] - values
        for _ in range(self.epochs):
            logp, values = self.agent(ids)
            ratio = (logp - old).exp()
            gain = torch.minimum(ratio * advantage, ratio.clamp(1 - self.clip, 1 + self.clip) * advantage)
            loss = -gain.mean() + 0.5 * (values - reward[:, None]).pow(2).mean()
            self.opt.zero_grad()
            loss.backward()
            nn.utils.clip_grad_norm_(self.agent.parameters(), 1.0)
            self.opt.step()
            self.stats["loss"].append(loss.item())
            self.stats["kl"].append(self.divergence(ids, old))

    def divergence(self, ids, old):
        """How far the policy is from that of the log after this update."""
        with torch.set_grad_enabled(not fixed):
            logp, _ = self.agent(ids)
            return (old - logp).mean()


torch.manual_seed(4)
ppo = PPO(Negotiator().cuda())
for iteration in range(5):
    dialogue = torch.randint(0, VOCAB, (6, TURN))
    price = torch.rand(6)
    ppo.update(dialogue.cuda(), price.cuda())
    print(iteration, "loss", ppo.stats["loss"][-1])
print("mean divergence", sum(float(k) for k in ppo.stats["kl"]) / len(ppo.stats["kl"]))
