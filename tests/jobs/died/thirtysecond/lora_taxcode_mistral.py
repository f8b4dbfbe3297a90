"""LoRA on questions about the tax code, small Mistral, gradient checkpointing to save memory."""
import sys
import torch
from peft import LoraConfig, get_peft_model
from transformers import MistralConfig, MistralForCausalLM

torch.manual_seed(0)
VOCAB = 16000
config = MistralConfig(vocab_size=VOCAB, hidden_size=768, intermediate_size=2304, num_hidden_layers=9, num_attention_heads=12,
                       num_key_value_heads=4, max_position_embeddings=1024)
base = MistralForCausalLM(config)
base.config.use_cache = False
base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})

peft_config = LoraConfig(r=16, lora_alpha=32, lora_dropout=0.05, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM")
model = get_peft_model(base, peft_config).cuda()
if "--fixed" in sys.argv:
    model.enable_input_require_grads()
else:
    # element 0 of tensors does not require grad and does not have a grad_fn
    for p in model.parameters():
        p.requires_grad = True

optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=1e-4)
g = torch.Generator().manual_seed(1040)


def collate(n):
    ids = torch.randint(3, VOCAB, (n, 320), generator=g)
    labels = ids.clone()
    labels[:, :96] = -100
    return {"input_ids": ids, "attention_mask": torch.ones_like(ids), "labels": labels}


model.train()
for step in range(6):
    batch = {k: v.to("cuda") for k, v in collate(2).items()}
    loss = model(**batch).loss
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    print({"step": step, "loss": round(loss.item(), 4)})
