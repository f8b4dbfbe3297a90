"""LoRA by PEFT and the Trainer: a Qwen2 that learns brewing records of monks, with a dozen added marks for measures and feast days."""
import sys
import tempfile

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (DataCollatorForLanguageModeling, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Trainer,
                          TrainingArguments)

WORDS, MARKS = 40000, 12
fixed = "--fixed" in sys.argv


def make_tokenizer():
    vocabulary = {"<pad>": 0, "<eos>": 1, "<unk>": 2, **{f"w{i}": i for i in range(3, WORDS)}}
    inner = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    inner.pre_tokenizer = pre_tokenizers.Whitespace()
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")
    tokenizer.add_tokens([f"<mark{i}>" for i in range(MARKS)])
    return tokenizer


def records(n, length=96):
    ids = torch.randint(3, WORDS + MARKS, (n, length), generator=torch.Generator().manual_seed(1516))
    return Dataset.from_dict({"input_ids": ids.tolist()})


def main():
    tokenizer = make_tokenizer()
    config = Qwen2Config(vocab_size=WORDS, hidden_size=768, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=12,
                         num_key_value_heads=4, max_position_embeddings=512, tie_word_embeddings=False, pad_token_id=0, eos_token_id=1,
                         bos_token_id=None, use_cache=False)
    model = Qwen2ForCausalLM(config)
    model.resize_token_embeddings(len(tokenizer))
    added = list(range(WORDS, WORDS + MARKS))
    new_words = {"trainable_token_indices": {"embed_tokens": added}} if fixed else {"modules_to_save": ["embed_tokens", "lm_head"]}
    lora = LoraConfig(r=16, lora_alpha=32, target_modules=["q_proj", "k_proj", "v_proj", "o_proj"], task_type="CAUSAL_LM", **new_words)
    model = get_peft_model(model, lora)
    model.print_trainable_parameters()
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(output_dir=out, per_device_train_batch_size=2, max_steps=6, learning_rate=2e-4, logging_steps=2,
                                 save_strategy="no", report_to="none", disable_tqdm=True)
        trainer = Trainer(model=model, args=args, train_dataset=records(24),
                          data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False))
        print(trainer.train().training_loss)


if __name__ == "__main__":
    main()
