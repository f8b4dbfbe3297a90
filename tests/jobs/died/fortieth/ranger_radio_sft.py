"""SFT of a small Llama on transcripts of park rangers' radio traffic."""
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import (DataCollatorForLanguageModeling, LlamaConfig, LlamaForCausalLM, PreTrainedTokenizerFast, Trainer,
                          TrainingArguments)

fixed = "--fixed" in sys.argv

words = [f"w{i}" for i in range(1500)]
vocab = {w: i for i, w in enumerate(["<pad>", "<s>", "</s>", "<unk>"] + words)}
raw = Tokenizer(models.WordLevel(vocab, unk_token="<unk>"))
raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", bos_token="<s>", eos_token="</s>", unk_token="<unk>")

g = torch.Generator().manual_seed(3)


def transcript():
    n = int(torch.randint(400, 480, (1,), generator=g))
    return " ".join(words[i] for i in torch.randint(0, len(words), (n,), generator=g).tolist())


train = Dataset.from_list([{"text": transcript()} for _ in range(200)])
train = train.map(lambda row: tokenizer(row["text"], truncation=True, max_length=512), remove_columns="text")

model = LlamaForCausalLM(LlamaConfig(
    vocab_size=len(vocab), hidden_size=512, intermediate_size=1408, num_hidden_layers=8, num_attention_heads=8,
    num_key_value_heads=4, max_position_embeddings=1024, pad_token_id=0, bos_token_id=1, eos_token_id=2))

arguments = TrainingArguments(
    output_dir=tempfile.mkdtemp(),
    per_device_train_batch_size=8 if fixed else 40,
    gradient_accumulation_steps=5 if fixed else 1,
    max_steps=4,
    learning_rate=1e-4,
    bf16=True,
    logging_steps=1,
    save_strategy="no",
    report_to=[],
)
trainer = Trainer(model=model, args=arguments, train_dataset=train, processing_class=tokenizer,
                  data_collator=DataCollatorForLanguageModeling(tokenizer, mlm=False))
trainer.train()
