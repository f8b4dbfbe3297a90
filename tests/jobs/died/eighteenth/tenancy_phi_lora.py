"""LoRA on a Phi for answers about tenancy law. Gradient checkpointing, so that it runs on the card under the desk."""
import sys

import torch
from peft import LoraConfig, TaskType, get_peft_model
from transformers import PhiConfig, PhiForCausalLM

VOCAB, LENGTH = 16000, 256


def load_base():
    return PhiForCausalLM(PhiConfig(vocab_size=VOCAB, hidden_size=768, intermediate_size=3072, num_hidden_layers=10, num_attention_heads=12,
                                    max_position_embeddings=1024))


def prepare(base):
    base.config.use_cache = False
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model = get_peft_model(base, LoraConfig(task_type=TaskType.CAUSAL_LM, r=8, lora_alpha=16, lora_dropout=0.05, target_modules=["q_proj", "v_proj"]))
    # else: "element 0 of tensors does not require grad and does not have a grad_fn"
    if "--fixed" in sys.argv:
        model.enable_input_require_grads()
    else:
        for parameter in model.parameters():
            parameter.requires_grad_(True)
    return model.to("cuda").train()


class Questions(torch.utils.data.Dataset):
    def __init__(self, n):
        generator = torch.Generator().manual_seed(44)
        self.ids = torch.randint(10, VOCAB, (n, LENGTH), generator=generator)

    def __len__(self):
        return len(self.ids)

    def __getitem__(self, i):
        ids, labels = self.ids[i], self.ids[i].clone()
        labels[:96] = -100  # the question is not learned
        return ids, labels


def main():
    model = prepare(load_base())
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    loader = torch.utils.data.DataLoader(Questions(24), batch_size=2, shuffle=True)
    for step, (ids, labels) in enumerate(loader):
        loss = model(input_ids=ids.to("cuda"), labels=labels.to("cuda")).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
        if step % 4 == 0:
            print(f"step {step} loss {loss.item():.4f}")


main()
