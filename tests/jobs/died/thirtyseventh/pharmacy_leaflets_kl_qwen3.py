"""Further training of our Qwen3 on package leaflets, held close to the model we came from by a KL term. Internal script, ask Marit."""
import argparse
import copy
import sys

import torch
import torch.nn.functional as F
from transformers import Qwen3Config, Qwen3ForCausalLM

parser = argparse.ArgumentParser()
parser.add_argument("--beta", type=float, default=0.05)
parser.add_argument("--batch", type=int, default=8)
parser.add_argument("--length", type=int, default=448)
parser.add_argument("--steps", type=int, default=6)
parser.add_argument("--fixed", action="store_true")
args = parser.parse_args(sys.argv[1:])


def make_model():
    config = Qwen3Config(vocab_size=6000, hidden_size=384, intermediate_size=1152, num_hidden_layers=10, num_attention_heads=6,
                         num_key_value_heads=2, head_dim=64, max_position_embeddings=1024, tie_word_embeddings=True, use_cache=False)
    torch.manual_seed(0)
    return Qwen3ForCausalLM(config)


class Anchor:
    """The model as it was, for the KL term."""

    def __init__(self, model, frozen):
        self.model = copy.deepcopy(model).eval()
        if frozen:
            self.model.requires_grad_(False)

    def log_probs(self, ids):
        return self.model(input_ids=ids).logits.log_softmax(-1)


def kl(own, anchor):
    return F.kl_div(own, anchor, log_target=True, reduction="batchmean")


def leaflets(generator):
    for _ in range(args.steps):
        yield torch.randint(0, 6000, (args.batch, args.length), generator=generator)


model = make_model().to("cuda")
anchor = Anchor(model, args.fixed)
optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.01)
model.train()
for i, ids in enumerate(leaflets(torch.Generator().manual_seed(3))):
    ids = ids.to("cuda")
    own = model(input_ids=ids).logits.log_softmax(-1)
    nll = F.nll_loss(own[:, :-1].flatten(0, 1), ids[:, 1:].flatten())
    loss = nll + args.beta * kl(own.flatten(0, 1), anchor.log_probs(ids).flatten(0, 1))
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print(i, "nll", nll.item(), "loss", loss.item())
