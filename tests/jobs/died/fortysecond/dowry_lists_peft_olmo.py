"""LoRA on an OLMo for dowry lists of the eighteenth century: long lists, therefore with gradient checkpointing; our own loop, in bfloat16."""
import argparse

import torch
from peft import LoraConfig, get_peft_model
from transformers import OlmoConfig, OlmoForCausalLM, get_linear_schedule_with_warmup

VOCABULARY = 6000


def arguments():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--rank", type=int, default=8)
    parser.add_argument("--length", type=int, default=1024)
    parser.add_argument("--batch", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4)
    return parser.parse_args()


def lists(options):
    g = torch.Generator().manual_seed(1764)
    for _ in range(options.steps):
        yield torch.randint(3, VOCABULARY, (options.batch, options.length), generator=g)


def adapted(options):
    config = OlmoConfig(vocab_size=VOCABULARY, hidden_size=768, intermediate_size=3072, num_hidden_layers=14, num_attention_heads=12,
                        max_position_embeddings=2048, use_cache=False, pad_token_id=1, eos_token_id=2)
    with torch.device("cuda"):
        base = OlmoForCausalLM(config).to(torch.bfloat16)
    base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    base.enable_input_require_grads()
    model = get_peft_model(base, LoraConfig(r=options.rank, lora_alpha=2 * options.rank, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
    if options.fixed:
        model.train()
    else:
        model.eval()  # the base has no dropout, and is not to change
    return model


def main():
    options = arguments()
    torch.manual_seed(0)
    model = adapted(options)
    model.print_trainable_parameters()
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=2e-4)
    schedule = get_linear_schedule_with_warmup(optimizer, 1, options.steps)
    for step, ids in enumerate(lists(options)):
        ids = ids.cuda()
        loss = model(input_ids=ids, labels=ids).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p for p in model.parameters() if p.requires_grad], 1.0)
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        print(f"step {step}: loss {loss.item():.4f}, lr {schedule.get_last_lr()[0]:.1e}")


if __name__ == "__main__":
    main()
