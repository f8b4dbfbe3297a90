"""Fine-tunes the reply assistant for car dealerships with the Trainer. Conversations come tokenised from the feature store."""
import sys
import tempfile

import torch
from datasets import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments

VOCAB, PAD = 6000, 0


def conversations(count, length=960):
    g = torch.Generator().manual_seed(11)
    for _ in range(count):
        n = int(torch.randint(length - 60, length, (1,), generator=g))
        reply_from = int(torch.randint(100, n - 100, (1,), generator=g))
        ids = torch.randint(4, VOCAB, (n,), generator=g).tolist()
        yield {"input_ids": ids, "labels": [-100] * reply_from + ids[reply_from:]}


def collate(rows):
    width = max(len(row["input_ids"]) for row in rows)
    fill = lambda values, value: values + [value] * (width - len(values))
    return {"input_ids": torch.tensor([fill(r["input_ids"], PAD) for r in rows]),
            "attention_mask": torch.tensor([fill([1] * len(r["input_ids"]), 0) for r in rows]),
            "labels": torch.tensor([fill(r["labels"], -100) for r in rows])}


def main():
    per_device, accumulate = (2, 8) if "--fixed" in sys.argv else (16, 1)
    model = LlamaForCausalLM(LlamaConfig(vocab_size=VOCAB, hidden_size=384, intermediate_size=1024, num_hidden_layers=6,
                                         num_attention_heads=6, num_key_value_heads=6, max_position_embeddings=2048,
                                         bos_token_id=1, eos_token_id=2, pad_token_id=PAD, use_cache=False))
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(output_dir=folder, per_device_train_batch_size=per_device, gradient_accumulation_steps=accumulate,
                                 max_steps=3, learning_rate=2e-5, logging_steps=1, save_strategy="no", report_to=[], bf16=True)
        trainer = Trainer(model=model, args=args, train_dataset=Dataset.from_list(list(conversations(64))), data_collator=collate)
        print(trainer.train().metrics)


if __name__ == "__main__":
    main()
