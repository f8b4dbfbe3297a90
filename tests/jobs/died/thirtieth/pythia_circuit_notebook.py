# %% Which MLPs of a Pythia-like model answer "greater than"? (notebook, cells run from top to bottom)
import sys

import torch
from transformers import GPTNeoXConfig, GPTNeoXForCausalLM

FIXED = "--fixed" in sys.argv
VOCAB, SEQ, BS = 4096, 384, 8
g = torch.Generator().manual_seed(0)

config = GPTNeoXConfig(
    vocab_size=VOCAB, hidden_size=512, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=8,
    max_position_embeddings=512, use_cache=False)
model = GPTNeoXForCausalLM(config).to("cuda")


# %% a few steps on the synthetic task so that the model knows it at all
def prompts(n, bs=BS, length=SEQ):
    for _ in range(n):
        yield torch.randint(0, VOCAB, (bs, length), generator=g)


opt = torch.optim.AdamW(model.parameters(), lr=1e-4)
for i, ids in enumerate(prompts(6, bs=2, length=128)):
    ids = ids.to("cuda")
    loss = model(input_ids=ids, labels=ids).loss
    loss.backward()
    opt.step()
    opt.zero_grad()
    print("warm-up", i, loss.item())

# %% collect what the MLPs write into the residual stream
model.eval()
mlp_out = {i: [] for i in range(config.num_hidden_layers)}


def save_to(i):
    def hook(module, args, output):
        mlp_out[i].append(output[:, -1].cpu() if FIXED else output)
    return hook


handles = [layer.mlp.register_forward_hook(save_to(i)) for i, layer in enumerate(model.gpt_neox.layers)]
answers = []
with torch.no_grad():
    for ids in prompts(24):
        logits = model(ids.to("cuda")).logits[:, -1]
        answers.append(logits.argmax(-1).cpu())
for h in handles:
    h.remove()

# %% direct logit attribution of the last position
with torch.no_grad():
    unembed = model.get_output_embeddings().weight
    direction = (unembed[2000:3000].mean(0) - unembed[1000:2000].mean(0)).cpu()
for i, outs in mlp_out.items():
    last = torch.cat([o if o.dim() == 2 else o[:, -1].cpu() for o in outs])
    print(f"MLP {i:2d}: {(last @ direction).mean().item():+.4f} over {len(last)} prompts")
