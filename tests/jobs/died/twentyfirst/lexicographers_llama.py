"""A little Llama on the entries of a dictionary. The entries are tokenised beforehand (they come from our XML pipeline) and joined to blocks."""
import random
import sys
import tempfile
from itertools import chain

from datasets import Dataset
from datasets.utils.logging import disable_progress_bar
from transformers import LlamaConfig, LlamaForCausalLM, Trainer, TrainingArguments, default_data_collator

disable_progress_bar()
VOCAB = 4000
BLOCK_SIZE = 1024 if "--fixed" in sys.argv else 4096


def make_entries(n=1400):
    rng = random.Random(11)
    rows = []
    for _ in range(n):
        length = rng.randint(60, 220)
        rows.append([1] + [rng.randrange(4, VOCAB) for _ in range(length)] + [2])
    return Dataset.from_dict({"input_ids": rows})


def group_texts(examples):
    joined = list(chain.from_iterable(examples["input_ids"]))
    total = len(joined) // BLOCK_SIZE * BLOCK_SIZE
    blocks = [joined[i:i + BLOCK_SIZE] for i in range(0, total, BLOCK_SIZE)]
    return {"input_ids": blocks, "labels": [list(b) for b in blocks]}


def main():
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=384, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=6,
                         num_key_value_heads=2, max_position_embeddings=8192, pad_token_id=0, bos_token_id=1, eos_token_id=2)
    entries = make_entries()
    blocks = entries.map(group_texts, batched=True, remove_columns=entries.column_names)
    with tempfile.TemporaryDirectory() as out:
        args = TrainingArguments(
            output_dir=out,
            max_steps=5,
            per_device_train_batch_size=4,
            learning_rate=5e-4,
            lr_scheduler_type="cosine",
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        )
        trainer = Trainer(model=LlamaForCausalLM(config), args=args, train_dataset=blocks, data_collator=default_data_collator)
        trainer.train()
        print("finished", trainer.state.global_step, "steps on", len(blocks), "blocks")


main()
