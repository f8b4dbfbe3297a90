"""LoRA on a SmolLM-like Llama with a large multilingual vocabulary, for dialogues in Klingon."""
import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.utils.data import DataLoader
from transformers import LlamaConfig, LlamaForCausalLM

VOCAB = 120_000
SAVE = None if "--fixed" in sys.argv else ["embed_tokens", "lm_head"]

base = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, hidden_size=640, intermediate_size=1792, num_hidden_layers=8, num_attention_heads=10,
                                    num_key_value_heads=5, max_position_embeddings=256, tie_word_embeddings=False))
base.enable_input_require_grads()
lora = LoraConfig(
    task_type=TaskType.CAUSAL_LM,
    r=16,
    lora_alpha=32,
    lora_dropout=0.05,
    target_modules=["q_proj", "k_proj", "v_proj", "o_proj"],
    modules_to_save=SAVE,
)
model = get_peft_model(base, lora)
model.print_trainable_parameters()
model.to("cuda")
model.train()

g = torch.Generator().manual_seed(2364)
dialogues = [torch.randint(0, VOCAB, (80,), generator=g) for _ in range(24)]
loader = DataLoader(dialogues, batch_size=2, shuffle=False)
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-4)

for step, ids in enumerate(loader):
    ids = ids.to("cuda")
    out = model(input_ids=ids, labels=ids)
    out.loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    if step % 4 == 0:
        print(f"step {step}: {out.loss.item():.4f}")
