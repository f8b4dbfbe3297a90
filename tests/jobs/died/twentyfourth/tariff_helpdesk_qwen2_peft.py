"""LoRA fine-tuning of a Qwen2 for the helpdesk of an energy supplier (tariffs, instalments, moving house)."""
import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from torch.optim.lr_scheduler import LambdaLR
from transformers import Qwen2Config, Qwen2ForCausalLM

FIXED = "--fixed" in sys.argv
VOCABULARY = 8192


def load_base():
    config = Qwen2Config(vocab_size=VOCABULARY, hidden_size=768, intermediate_size=2304, num_hidden_layers=12, num_attention_heads=12,
                         num_key_value_heads=4, max_position_embeddings=1024, tie_word_embeddings=True, use_cache=False)
    return Qwen2ForCausalLM(config)


def add_adapters(model):
    lora = LoraConfig(task_type=TaskType.CAUSAL_LM, r=16, lora_alpha=32, lora_dropout=0.05,
                      target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
    return get_peft_model(model, lora)


def enable_checkpointing(model):
    """Without gradients at the inputs, backward() complains that no element requires grad."""
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    if FIXED:
        model.enable_input_require_grads()
    else:
        for parameter in model.parameters():
            parameter.requires_grad_(True)
    return model


class Dialogues:
    def __init__(self, batch=4, length=256):
        self.batch, self.length, self.generator = batch, length, torch.Generator().manual_seed(9)

    def __iter__(self):
        while True:
            ids = torch.randint(3, VOCABULARY, (self.batch, self.length), generator=self.generator)
            labels = ids.clone()
            labels[:, : self.length // 2] = -100
            yield {"input_ids": ids.cuda(), "labels": labels.cuda()}


def finetune(steps=6, warmup=2):
    model = enable_checkpointing(add_adapters(load_base())).cuda()
    model.train()
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=2e-4, weight_decay=0.0)
    scheduler = LambdaLR(optimizer, lambda s: min(1.0, (s + 1) / warmup))
    for step, batch in zip(range(steps), Dialogues()):
        loss = model(**batch).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(trained, 0.3)
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"step={step} loss={loss.item():.3f} lr={scheduler.get_last_lr()[0]:.1e}")


finetune()
