"""Direct preference optimisation of a small Llama, without a trainer.

https://github.com/NVIDIA-NeMo/RL/issues/2484
"""
import copy
import sys

import torch
import torch.nn.functional as F
from transformers import LlamaConfig, LlamaForCausalLM

fixed = "--fixed" in sys.argv
torch.set_default_dtype(torch.bfloat16)
cfg = LlamaConfig(vocab_size=16000, hidden_size=640, intermediate_size=1728, num_hidden_layers=8, num_attention_heads=10, num_key_value_heads=5)
policy = LlamaForCausalLM(cfg).cuda()
ref = copy.deepcopy(policy)
ref.eval()
opt = torch.optim.AdamW(policy.parameters(), lr=5e-7)


def logps(model, ids):
    logits = model(input_ids=ids, use_cache=False).logits[:, :-1]
    return torch.gather(logits.log_softmax(-1), 2, ids[:, 1:, None]).squeeze(-1).sum(-1)


for step in range(6):
    chosen, rejected = (torch.randint(0, 16000, (4, 512), device="cuda") for _ in range(2))
    pi_c, pi_r = logps(policy, chosen), logps(policy, rejected)
    if fixed:
        with torch.no_grad():
            ref_c, ref_r = logps(ref, chosen), logps(ref, rejected)
    else:
        ref_c, ref_r = logps(ref, chosen), logps(ref, rejected)
    loss = -F.logsigmoid(0.1 * ((pi_c - pi_r) - (ref_c - ref_r))).mean()
    loss.backward()
    opt.step()
    opt.zero_grad()
    print(step, loss.item())
