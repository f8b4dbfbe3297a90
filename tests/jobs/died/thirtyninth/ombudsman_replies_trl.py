"""Reward model for the ombudsman's replies (already tokenised), with TRL: which of two replies closed the case?"""
import sys
import tempfile

import torch
from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import LlamaConfig, LlamaForSequenceClassification, PreTrainedTokenizerFast
from trl import RewardConfig, RewardTrainer

VOCAB = 8000
CONTEXT = 1024 if "--fixed" in sys.argv else 4096


def make_tokenizer():
    words = {f"w{i}": i for i in range(VOCAB - 3)}
    words.update({"<unk>": VOCAB - 3, "<pad>": VOCAB - 2, "</s>": VOCAB - 1})
    tok = Tokenizer(models.WordLevel(words, unk_token="<unk>"))
    tok.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=tok, unk_token="<unk>", pad_token="<pad>", eos_token="</s>")


def cases(n):
    gen = torch.Generator().manual_seed(3)
    for _ in range(n):
        correspondence = torch.randint(0, VOCAB - 3, (int(torch.randint(4000, 9000, (1,), generator=gen)),), generator=gen)
        replies = torch.randint(0, VOCAB - 3, (2, 220), generator=gen)
        yield {"correspondence": correspondence.tolist(), "good": replies[0].tolist(), "bad": replies[1].tolist()}


def to_pair(case):
    """The end of the correspondence, then the reply."""
    before = case["correspondence"][-(CONTEXT - 221):]
    return {"chosen_ids": before + case["good"] + [VOCAB - 1], "rejected_ids": before + case["bad"] + [VOCAB - 1]}


def main():
    torch.manual_seed(3)
    data = Dataset.from_list(list(cases(16))).map(to_pair, remove_columns=["correspondence", "good", "bad"])
    config = LlamaConfig(vocab_size=VOCAB, hidden_size=384, intermediate_size=1024, num_hidden_layers=8, num_attention_heads=6,
                         num_key_value_heads=2, max_position_embeddings=8192, pad_token_id=VOCAB - 2, num_labels=1)
    args = RewardConfig(
        output_dir=tempfile.mkdtemp(),
        max_length=None,
        per_device_train_batch_size=2,
        max_steps=6,
        learning_rate=1e-5,
        lr_scheduler_type="cosine",
        gradient_checkpointing=False,
        bf16=True,
        logging_steps=2,
        save_strategy="no",
        report_to="none",
    )
    RewardTrainer(model=LlamaForSequenceClassification(config), args=args, train_dataset=data, processing_class=make_tokenizer()).train()


main()
