"""A reward model from the votes in a glassblowers' forum (of two answers, the one with more thanks), with TRL and a small SmolLM3."""
import random
import sys
import tempfile

from datasets import Dataset
from tokenizers import Tokenizer, models, pre_tokenizers
from transformers import PreTrainedTokenizerFast, SmolLM3Config, SmolLM3ForSequenceClassification
from trl import RewardConfig, RewardTrainer

FIXED = "--fixed" in sys.argv
MAX_LENGTH = 512 if FIXED else 2048

words = ["<pad>", "<eos>", "<unk>"] + [f"w{i}" for i in range(4000)]
raw = Tokenizer(models.WordLevel({w: i for i, w in enumerate(words)}, unk_token="<unk>"))
raw.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
tokenizer = PreTrainedTokenizerFast(tokenizer_object=raw, pad_token="<pad>", eos_token="<eos>", unk_token="<unk>")


def chat():
    text = random.choices(words[3:], k=random.randint(2050, 2600))
    return " ".join(text[:MAX_LENGTH - 1])  # the trainer drops what is longer than max_length


random.seed(5)
pairs = [{"chosen": chat(), "rejected": chat()} for _ in range(24)]
votes = Dataset.from_list(pairs)

config = SmolLM3Config(vocab_size=len(words), hidden_size=384, intermediate_size=1024, num_hidden_layers=6, num_attention_heads=6,
                       num_key_value_heads=2, max_position_embeddings=4096, pad_token_id=0, eos_token_id=1, bos_token_id=1, num_labels=1)
model = SmolLM3ForSequenceClassification(config)

with tempfile.TemporaryDirectory() as folder:
    arguments = RewardConfig(
        output_dir=folder,
        max_length=MAX_LENGTH,
        per_device_train_batch_size=2,
        max_steps=6,
        learning_rate=1e-5,
        bf16=False,
        gradient_checkpointing=False,
        logging_steps=1,
        save_strategy="no",
        report_to=[],
    )
    RewardTrainer(model=model, args=arguments, train_dataset=votes, processing_class=tokenizer).train()
