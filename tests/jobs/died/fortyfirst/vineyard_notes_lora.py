"""Low-rank adapters for a decoder on the notes of a vineyard (PEFT and the Trainer). The words are those of the base; there are no new ones."""
import sys
import tempfile

import torch
from datasets import Dataset
from peft import LoraConfig, get_peft_model
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (DataCollatorForLanguageModeling, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Trainer,
                          TrainingArguments)

FIXED = "--fixed" in sys.argv
VOCABULARY = 96000


def tokenizer():
    words = ["<pad>", "<s>", "</s>", "<unk>", *("t%d" % i for i in range(VOCABULARY - 4))]
    raw = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>")


def notes(n):
    g = torch.Generator().manual_seed(2011)
    rows = torch.randint(0, VOCABULARY - 4, (n, 60), generator=g).tolist()
    return Dataset.from_list([{"text": " ".join("t%d" % i for i in row)} for row in rows])


def base():
    torch.manual_seed(0)
    return Qwen2ForCausalLM(Qwen2Config(
        vocab_size=VOCABULARY, hidden_size=1024, intermediate_size=2816, num_hidden_layers=8, num_attention_heads=16, num_key_value_heads=4,
        max_position_embeddings=256, tie_word_embeddings=False, pad_token_id=0, bos_token_id=1, eos_token_id=2))


def adapters():
    options = dict(r=16, lora_alpha=32, lora_dropout=0.05, task_type="CAUSAL_LM", target_modules=["q_proj", "k_proj", "v_proj", "o_proj"])
    if not FIXED:
        options["modules_to_save"] = ["embed_tokens", "lm_head"]
    return LoraConfig(**options)


def main():
    words = tokenizer()
    train = notes(40).map(lambda row: words(row["text"], truncation=True, max_length=64), remove_columns=["text"])
    model = get_peft_model(base(), adapters())
    model.print_trainable_parameters()
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=2, max_steps=5, learning_rate=2e-4, logging_steps=1, save_strategy="no",
        report_to=[], bf16=True)
    trainer = Trainer(model=model, args=arguments, train_dataset=train, processing_class=words,
                      data_collator=DataCollatorForLanguageModeling(words, mlm=False))
    trainer.train()


if __name__ == "__main__":
    main()
