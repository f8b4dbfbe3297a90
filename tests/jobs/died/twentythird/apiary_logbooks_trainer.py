"""Pretrains a tiny Llama on the logbooks of beekeepers, packed to blocks, with the Trainer of transformers."""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, default_data_collator, set_seed

FIXED = "--fixed" in sys.argv
BLOCK = 768
VOCAB = 2400


class PackedLogbooks(Dataset):
    def __init__(self, blocks):
        stream = torch.randint(3, VOCAB, (blocks * BLOCK,), generator=torch.Generator().manual_seed(4))
        self.blocks = stream.view(blocks, BLOCK)

    def __len__(self):
        return len(self.blocks)

    def __getitem__(self, i):
        return {"input_ids": self.blocks[i], "labels": self.blocks[i].clone()}


def build():
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=320, intermediate_size=864, num_hidden_layers=7, num_attention_heads=5,
                         num_key_value_heads=5, max_position_embeddings=BLOCK, tie_word_embeddings=True, use_cache=False)
    return LlamaForCausalLM(config)


def main():
    set_seed(11)
    model = build()
    print(f"{sum(p.numel() for p in model.parameters()) / 1e6:.1f}M parameters")
    with tempfile.TemporaryDirectory() as where:
        arguments = TrainingArguments(
            output_dir=where,
            per_device_train_batch_size=8 if FIXED else 32,
            gradient_accumulation_steps=4 if FIXED else 1,
            max_steps=4,
            learning_rate=6e-4,
            warmup_steps=2,
            weight_decay=0.1,
            lr_scheduler_type="cosine",
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            dataloader_num_workers=0,
        )
        trainer = Trainer(model=model, args=arguments, train_dataset=PackedLogbooks(160), data_collator=default_data_collator)
        print(trainer.train().metrics)


if __name__ == "__main__":
    main()
