import sys
import torch
from peft import LoraConfig, get_peft_model
from transformers import PhiConfig, PhiForCausalLM

"""LoRA on a Phi for letters to the parole board. Runs on the clinic's one card, so bf16 and rank 8."""

cfg = PhiConfig(vocab_size=12000, hidden_size=1536, intermediate_size=6144, num_hidden_layers=16, num_attention_heads=16,
                max_position_embeddings=1024, bos_token_id=1, eos_token_id=2, pad_token_id=0)
torch.set_default_dtype(torch.bfloat16)
with torch.device("cuda"):
    base = PhiForCausalLM(cfg)
torch.set_default_dtype(torch.float32)

lora = LoraConfig(r=8, lora_alpha=16, lora_dropout=0.05, target_modules=["q_proj", "v_proj", "fc1"], task_type="CAUSAL_LM")
model = get_peft_model(base, lora)

def get_ready(m):
    """loss.backward() said 'element 0 of tensors does not require grad' in the first version"""
    if "--fixed" in sys.argv:
        m.enable_input_require_grads()
    else:
        for p in m.parameters():
            p.requires_grad_(True)
    m.train()
    return m

model = get_ready(model)
adapters = [p for n, p in model.named_parameters() if "lora_" in n]
print(len(adapters), "matrices in the adapters,", sum(p.numel() for p in adapters) / 1e6, "M")
opt = torch.optim.AdamW(adapters, lr=2e-4, weight_decay=0.0)

gen = torch.Generator().manual_seed(1)
for letter in range(12):
    ids = torch.randint(3, 12000, (2, 224), generator=gen).cuda()
    labels = ids.clone()
    labels[:, :60] = -100
    out = model(input_ids=ids, labels=labels)
    (out.loss / 4).backward()
    if letter % 4 == 3:
        torch.nn.utils.clip_grad_norm_(adapters, 1.0)
        opt.step()
        opt.zero_grad()
        print(letter + 1, out.loss.item())
