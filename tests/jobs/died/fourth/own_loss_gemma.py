"""Fine-tunes a Gemma 3 on dialogues with a cross-entropy of its own, written as an autograd function (smoothing, and a penalty on the partition)."""
import sys

import torch
import torch.nn.functional as F
from torch.utils.checkpoint import checkpoint
from transformers import Gemma3ForCausalLM, Gemma3TextConfig

CHUNKED = "--fixed" in sys.argv
VOCABULARY = 64000


class SmoothedLoss(torch.autograd.Function):
    @staticmethod
    def forward(ctx, logits, targets, smoothing, penalty):
        logits = logits.float()
        partition = logits.logsumexp(-1, keepdim=True)
        logs = logits - partition
        probabilities = logs.exp()
        wanted = torch.full_like(logits, smoothing / logits.shape[-1])
        wanted.scatter_add_(-1, targets[:, None], torch.full_like(targets[:, None], 1 - smoothing, dtype=logits.dtype))
        ctx.save_for_backward(probabilities, wanted, partition)
        ctx.penalty = penalty
        return -(wanted * logs).sum(-1).mean() + penalty * partition.square().mean()

    @staticmethod
    def backward(ctx, grad):
        probabilities, wanted, partition = ctx.saved_tensors
        scale = grad / len(probabilities)
        return (scale * (probabilities - wanted + 2 * ctx.penalty * partition * probabilities)).bfloat16(), None, None, None


def head_and_loss(states, weight, targets):
    return SmoothedLoss.apply(states @ weight.T, targets, 0.05, 1e-4)


def loss_of(model, ids):
    states = model.model(input_ids=ids[:, :-1]).last_hidden_state.flatten(0, 1)
    weight, targets = model.lm_head.weight, ids[:, 1:].flatten()
    if not CHUNKED:
        return head_and_loss(states, weight, targets)
    parts = zip(states.split(128), targets.split(128))
    return sum(checkpoint(head_and_loss, s, weight, t, use_reentrant=False) * (len(t) / len(targets)) for s, t in parts)


def gemma():
    config = Gemma3TextConfig(vocab_size=VOCABULARY, hidden_size=256, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=4,
                              num_key_value_heads=1, head_dim=64, max_position_embeddings=1024, sliding_window=256, use_cache=False)
    return Gemma3ForCausalLM(config).to("cuda", torch.bfloat16)


def main():
    torch.manual_seed(16)
    model = gemma()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5)
    for step in range(4):
        ids = torch.randint(0, VOCABULARY, (3, 401)).to("cuda")
        loss = loss_of(model, ids)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        print("step", step, "loss", F.relu(loss.detach()).item())


main()
