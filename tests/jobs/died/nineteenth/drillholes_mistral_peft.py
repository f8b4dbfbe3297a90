"""LoRA on a Mistral for descriptions of drill cores ("silty sand, grey, wet ..."), with checkpointing because the logs are long."""
import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import MistralConfig, MistralForCausalLM

FIXED = "--fixed" in sys.argv


def build_model():
    cfg = MistralConfig(vocab_size=4096, hidden_size=896, intermediate_size=2816, num_hidden_layers=12, num_attention_heads=14,
                        num_key_value_heads=2, sliding_window=None, max_position_embeddings=1024, use_cache=False)
    with torch.device("cuda"):
        base = MistralForCausalLM(cfg)
    peft_cfg = LoraConfig(task_type=TaskType.CAUSAL_LM, r=8, lora_alpha=16, lora_dropout=0.05, target_modules=["q_proj", "v_proj"])
    return get_peft_model(base, peft_cfg)


def prepare_for_checkpointing(model):
    # without this: "element 0 of tensors does not require grad and does not have a grad_fn"
    model.gradient_checkpointing_enable()
    if FIXED:
        model.enable_input_require_grads()
    else:
        for param in model.parameters():
            param.requires_grad = True
    return model.train()


def get_batches(n, bs=4, length=384):
    gen = torch.Generator().manual_seed(77)
    for _ in range(n):
        ids = torch.randint(5, 4096, (bs, length), generator=gen)
        labels = ids.clone()
        labels[:, :32] = -100
        yield ids.cuda(), labels.cuda()


model = prepare_for_checkpointing(build_model())
optimizer = torch.optim.AdamW((p for p in model.parameters() if p.requires_grad), lr=2e-4)
accum = 2
for i, (ids, labels) in enumerate(get_batches(8)):
    loss = model(input_ids=ids, labels=labels).loss / accum
    loss.backward()
    if (i + 1) % accum == 0:
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
    print(i, loss.item() * accum)
