"""Procurement: LoRA on a Phi model that drafts answers to public tenders."""
import sys
from dataclasses import dataclass

import torch
from peft import LoraConfig, get_peft_model
from transformers import PhiConfig, PhiForCausalLM, get_linear_schedule_with_warmup


@dataclass
class Args:
    rank: int = 16
    alpha: int = 32
    lr: float = 2e-4
    batch: int = 2
    seq: int = 256
    steps: int = 6
    fixed: bool = "--fixed" in sys.argv


def load_base():
    return PhiForCausalLM(PhiConfig(vocab_size=16000, hidden_size=640, intermediate_size=2560, num_hidden_layers=12, num_attention_heads=10,
                                    max_position_embeddings=512, use_cache=False))


def prepare_model(args):
    model = get_peft_model(load_base(), LoraConfig(r=args.rank, lora_alpha=args.alpha, lora_dropout=0.05, task_type="CAUSAL_LM",
                                                   target_modules=["q_proj", "k_proj", "v_proj", "dense"]))
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    if args.fixed:
        model.enable_input_require_grads()
    else:
        # RuntimeError: element 0 of tensors does not require grad and does not have a grad_fn
        for param in model.parameters():
            param.requires_grad = True
    return model.cuda()


def tender_batches(args):
    gen = torch.Generator().manual_seed(77)
    for _ in range(args.steps):
        ids = torch.randint(0, 16000, (args.batch, args.seq), generator=gen)
        labels = ids.clone()
        labels[:, :args.seq // 3] = -100
        yield {"input_ids": ids.cuda(), "attention_mask": torch.ones_like(ids).cuda(), "labels": labels.cuda()}


def main():
    args = Args()
    model = prepare_model(args)
    optimizer = torch.optim.AdamW(filter(lambda p: p.requires_grad, model.parameters()), lr=args.lr)
    scheduler = get_linear_schedule_with_warmup(optimizer, 2, args.steps)
    model.train()
    for step, batch in enumerate(tender_batches(args)):
        loss = model(**batch).loss
        loss.backward()
        optimizer.step()
        scheduler.step()
        optimizer.zero_grad()
        print(f"{step}: {loss.item():.4f}")


main()
