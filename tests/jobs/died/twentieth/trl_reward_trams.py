"""Reward model for the answers of a tram company's assistant (TRL), from pairs which the staff compared."""
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, Qwen2Config, Qwen2ForSequenceClassification
from trl import RewardConfig, RewardTrainer

fixed = "--fixed" in sys.argv
SIZE = 3000

table = {f"t{n}": n for n in range(SIZE)}
table["<pad>"], table["<eos>"], table["<unk>"] = SIZE, SIZE + 1, SIZE + 2
core = Tokenizer(models.WordLevel(table, unk_token="<unk>"))
core.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=core, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def comparisons(count, seed):
    g = torch.Generator().manual_seed(seed)
    rows = []
    for _ in range(count):
        n, m = torch.randint(180, 320, (2,), generator=g).tolist()
        rows.append({"chosen_ids": torch.randint(0, SIZE, (n,), generator=g).tolist(),
                     "rejected_ids": torch.randint(0, SIZE, (m,), generator=g).tolist()})
    return Dataset.from_list(rows)


model = Qwen2ForSequenceClassification(Qwen2Config(
    vocab_size=SIZE + 3, hidden_size=384, intermediate_size=1536, num_hidden_layers=6, num_attention_heads=6,
    num_key_value_heads=6, max_position_embeddings=1024, num_labels=1, pad_token_id=SIZE, eos_token_id=SIZE + 1, bos_token_id=None))

with tempfile.TemporaryDirectory() as out:
    settings = RewardConfig(
        output_dir=out, max_steps=12, learning_rate=1e-5, logging_steps=4, report_to="none", disable_tqdm=True,
        per_device_train_batch_size=4, per_device_eval_batch_size=16 if fixed else 256,
        eval_strategy="steps", eval_steps=6, save_strategy="no", gradient_checkpointing=False, center_rewards_coefficient=0.01)
    trainer = RewardTrainer(model=model, args=settings, processing_class=tokenizer,
                            train_dataset=comparisons(64, 1), eval_dataset=comparisons(256, 2))
    trainer.train()
