"""Teaches a small Qwen2 how auctioneers talk: the HF Trainer on transcripts of whole afternoons."""
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (DataCollatorForLanguageModeling, PreTrainedTokenizerFast, Qwen2Config, Qwen2ForCausalLM, Trainer,
                          TrainingArguments)

WORDS = [f"lot{n}" for n in range(2400)]


def build_tokenizer():
    vocabulary = {word: n for n, word in enumerate(["<pad>", "<eos>", "<unk>"] + WORDS)}
    raw = Tokenizer(models.WordLevel(vocabulary, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def transcripts(count=40):
    g = torch.Generator().manual_seed(1893)
    for _ in range(count):
        length = int(torch.randint(2300, 2600, (1,), generator=g))
        yield {"text": " ".join(WORDS[i] for i in torch.randint(0, len(WORDS), (length,), generator=g).tolist())}


def main():
    tokenizer = build_tokenizer()
    limit = 768 if "--fixed" in sys.argv else None

    def encode(row):
        return tokenizer(row["text"], truncation=limit is not None, max_length=limit)

    dataset = Dataset.from_list(list(transcripts())).map(encode, remove_columns=["text"])
    config = Qwen2Config(vocab_size=len(tokenizer), hidden_size=384, intermediate_size=1024, num_hidden_layers=8,
                         num_attention_heads=6, num_key_value_heads=2, max_position_embeddings=4096,
                         pad_token_id=0, eos_token_id=1, bos_token_id=None)
    model = Qwen2ForCausalLM(config)
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder,
            bf16=True,
            per_device_train_batch_size=4,
            max_steps=8,
            learning_rate=2e-4,
            warmup_steps=2,
            logging_steps=2,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        collator = DataCollatorForLanguageModeling(tokenizer, mlm=False)
        trainer = Trainer(model=model, args=args, train_dataset=dataset, processing_class=tokenizer, data_collator=collator)
        trainer.train()


if __name__ == "__main__":
    main()
