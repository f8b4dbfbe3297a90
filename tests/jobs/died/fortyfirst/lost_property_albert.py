"""Sorts the reports of a railway's lost property office into 24 kinds with ALBERT and the Trainer."""
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers, processors
from transformers import (AlbertConfig, AlbertForSequenceClassification, DataCollatorWithPadding, PreTrainedTokenizerFast, Trainer,
                          TrainingArguments)

FIXED = "--fixed" in sys.argv
WORDS = ["umbrella", "black", "glove", "left", "train", "seat", "bag", "phone", "red", "blue", "station", "window", "case", "violin", "keys"]
WORDS += ["word%d" % i for i in range(800)]


def build_tokenizer():
    vocab = {w: i for i, w in enumerate(["<pad>", "<unk>", "[CLS]", "[SEP]", *WORDS])}
    raw = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
    raw.pre_tokenizer = pre_tokenizers.Whitespace()
    raw.post_processor = processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)])
    return PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", unk_token="<unk>", cls_token="[CLS]", sep_token="[SEP]",
                                   model_max_length=512)


def reports(n):
    g = torch.Generator().manual_seed(4)
    rows = []
    for i in range(n):
        length = int(torch.randint(20, 60, (1,), generator=g))
        picked = torch.randint(0, len(WORDS), (length,), generator=g).tolist()
        rows.append({"text": " ".join(WORDS[p] for p in picked), "label": i % 24})
    return Dataset.from_list(rows)


def main():
    tokenizer = build_tokenizer()

    def encode(rows):
        return tokenizer(rows["text"], truncation=True, padding=False if FIXED else "max_length", max_length=512)

    data = reports(320).map(encode, batched=True, remove_columns=["text"])
    torch.manual_seed(17)
    model = AlbertForSequenceClassification(AlbertConfig(
        vocab_size=len(tokenizer), embedding_size=128, hidden_size=768, num_hidden_layers=12, num_attention_heads=12, intermediate_size=3072,
        max_position_embeddings=512, num_labels=24, pad_token_id=0))
    arguments = TrainingArguments(
        output_dir=tempfile.mkdtemp(), per_device_train_batch_size=32, max_steps=6, learning_rate=3e-5, fp16=False, logging_steps=2,
        save_strategy="no", report_to=[], seed=17)
    trainer = Trainer(model=model, args=arguments, train_dataset=data, processing_class=tokenizer,
                      data_collator=DataCollatorWithPadding(tokenizer))
    result = trainer.train()
    print(result.metrics["train_runtime"], "s")


if __name__ == "__main__":
    main()
