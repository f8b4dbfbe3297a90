"""LoRA of a small Qwen3 on full papers so that it writes abstracts. The grouping of texts is the one of run_clm.py."""
import sys
import tempfile
from dataclasses import dataclass
from itertools import chain

import torch
from datasets import Dataset
from peft import LoraConfig, TaskType, get_peft_model
from transformers import Qwen3Config, Qwen3ForCausalLM, Trainer, TrainingArguments, default_data_collator


@dataclass
class DataArgs:
    papers: int = 24
    vocab: int = 4000
    block_size: int = 1024 if "--fixed" in sys.argv else 4096


def load_papers(args):
    gen = torch.Generator().manual_seed(3)
    lengths = torch.randint(4200, 5000, (args.papers,), generator=gen).tolist()
    return Dataset.from_dict({"input_ids": [torch.randint(3, args.vocab, (n,), generator=gen).tolist() for n in lengths]})


def group_texts(examples, block_size):
    joined = list(chain(*examples["input_ids"]))
    total = len(joined) // block_size * block_size
    blocks = [joined[i:i + block_size] for i in range(0, total, block_size)]
    return {"input_ids": blocks, "labels": [b.copy() for b in blocks]}


def load_model(args):
    model = Qwen3ForCausalLM(Qwen3Config(
        vocab_size=args.vocab, hidden_size=512, intermediate_size=1536, num_hidden_layers=8, num_attention_heads=8,
        num_key_value_heads=4, head_dim=64, max_position_embeddings=8192, pad_token_id=0, eos_token_id=1, bos_token_id=1, use_cache=False))
    lora = LoraConfig(task_type=TaskType.CAUSAL_LM, r=16, lora_alpha=32, lora_dropout=0.05,
                      target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
    model = get_peft_model(model, lora)
    model.print_trainable_parameters()
    return model


def main():
    data_args = DataArgs()
    dataset = load_papers(data_args)
    dataset = dataset.map(group_texts, batched=True, fn_kwargs={"block_size": data_args.block_size})
    with tempfile.TemporaryDirectory() as out:
        training_args = TrainingArguments(
            output_dir=out, per_device_train_batch_size=2, max_steps=6, logging_steps=2, learning_rate=2e-4, bf16=True,
            lr_scheduler_type="cosine", report_to="none", save_strategy="no")
        trainer = Trainer(model=load_model(data_args), args=training_args, train_dataset=dataset, data_collator=default_data_collator)
        trainer.train()


if __name__ == "__main__":
    main()
