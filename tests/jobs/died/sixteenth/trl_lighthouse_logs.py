"""A reward model that prefers the better of two summaries of a lighthouse keeper's log, with TRL on a small Qwen2."""
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForSequenceClassification
from trl import RewardConfig, RewardTrainer

WORDS = ["<pad>", "<eos>", "<unk>"] + ["w%d" % i for i in range(1997)]


def build_tokenizer():
    core = Tokenizer(models.WordLevel({w: i for i, w in enumerate(WORDS)}, unk_token="<unk>"))
    core.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def build_dataset(entries=120, length=480):
    g = torch.Generator().manual_seed(1887)
    columns = {}
    for column in ("chosen", "rejected"):
        ids = torch.randint(3, len(WORDS), (entries, length), generator=g).tolist()
        columns[column] = [" ".join(WORDS[i] for i in row) for row in ids]
    return Dataset.from_dict(columns)


def main():
    tokenizer = build_tokenizer()
    model = Qwen2ForSequenceClassification(Qwen2Config(
        vocab_size=len(WORDS), hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8, num_key_value_heads=4,
        max_position_embeddings=1024, pad_token_id=0, eos_token_id=1, bos_token_id=None, num_labels=1))
    with tempfile.TemporaryDirectory() as out:
        args = RewardConfig(
            output_dir=out, max_steps=6, learning_rate=2e-5, max_length=512,
            per_device_train_batch_size=2 if "--fixed" in sys.argv else 16,
            gradient_accumulation_steps=8 if "--fixed" in sys.argv else 1,
            gradient_checkpointing=False, bf16=False, logging_steps=1, save_strategy="no", report_to="none", disable_tqdm=True)
        trainer = RewardTrainer(model=model, args=args, train_dataset=build_dataset(), processing_class=tokenizer)
        print(trainer.train())


if __name__ == "__main__":
    main()
