"""LoRA for a chat model with a few new tokens: embeddings and head are trained too, so that the tokens are learned.

After https://github.com/huggingface/peft/pull/2376 and https://github.com/huggingface/peft/issues/2898
"""
import argparse

import torch
from peft import LoraConfig, get_peft_model
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments


class Chats(torch.utils.data.Dataset):
    def __init__(self, vocabulary, length=96):
        self.vocabulary, self.length = vocabulary, length

    def __len__(self):
        return 64

    def __getitem__(self, i):
        ids = (torch.arange(self.length) * (i + 3)) % self.vocabulary
        return {"input_ids": ids, "labels": ids.clone()}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--fixed", action="store_true")
    parser.add_argument("--new-tokens", type=int, default=8)
    args = parser.parse_args()
    config = LlamaConfig(vocab_size=64000, hidden_size=512, intermediate_size=1408, num_hidden_layers=6, num_attention_heads=8, use_cache=False)
    with torch.device("cuda"):
        model = LlamaForCausalLM(config)
    model.resize_token_embeddings(config.vocab_size + args.new_tokens, mean_resizing=False)
    adapters = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM",
                          modules_to_save=None if args.fixed else ["embed_tokens", "lm_head"],
                          trainable_token_indices=list(range(64000, 64000 + args.new_tokens)) if args.fixed else None)
    model = get_peft_model(model, adapters)
    model.print_trainable_parameters()
    arguments = TrainingArguments(output_dir="chats", per_device_train_batch_size=1, gradient_accumulation_steps=2, max_steps=5, learning_rate=2e-4,
                                  save_strategy="no", report_to=[], disable_tqdm=True, logging_steps=1, dataloader_pin_memory=False)
    Trainer(model=model, args=arguments, train_dataset=Chats(config.vocab_size)).train()


if __name__ == "__main__":
    main()
