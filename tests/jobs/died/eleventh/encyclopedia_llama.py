"""Trains a small Llama from nothing on an encyclopedia, packed into blocks of 2048 tokens, with the Trainer and bf16."""
import sys
import tempfile

import torch
from torch.utils.data import Dataset
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainerCallback, TrainingArguments


class Packed(Dataset):
    def __init__(self, blocks, length):
        self.stream = torch.randint(3, 4000, (blocks * length,))
        self.length = length

    def __len__(self):
        return len(self.stream) // self.length

    def __getitem__(self, k):
        ids = self.stream[k * self.length:(k + 1) * self.length]
        return {"input_ids": ids, "labels": ids}


class Speed(TrainerCallback):
    """Prints tokens seen so far after each step."""

    def __init__(self, tokens_per_step):
        self.tokens = tokens_per_step

    def on_step_end(self, args, state, control, **kwargs):
        print("step %d, %d tokens" % (state.global_step, state.global_step * self.tokens))


def arguments(folder, checkpointing):
    return TrainingArguments(
        output_dir=folder,
        max_steps=4,
        per_device_train_batch_size=4,
        gradient_accumulation_steps=2,
        gradient_checkpointing=checkpointing,
        gradient_checkpointing_kwargs={"use_reentrant": False} if checkpointing else None,
        bf16=True,
        learning_rate=6e-4,
        adam_beta2=0.95,
        weight_decay=0.1,
        max_grad_norm=1.0,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
        disable_tqdm=True,
        dataloader_pin_memory=False,
    )


def main():
    fixed = "--fixed" in sys.argv
    config = LlamaConfig(vocab_size=4000, hidden_size=384, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=6, num_key_value_heads=2,
                         max_position_embeddings=2048, use_cache=False)
    model = LlamaForCausalLM(config)
    print("%.1f million parameters" % (model.num_parameters() / 1e6))
    with tempfile.TemporaryDirectory() as folder:
        args = arguments(folder, checkpointing=fixed)
        trainer = Trainer(model=model, args=args, train_dataset=Packed(40, 2048), callbacks=[Speed(4 * 2 * 2048)])
        result = trainer.train()
    print(result.metrics)


if __name__ == "__main__":
    main()
