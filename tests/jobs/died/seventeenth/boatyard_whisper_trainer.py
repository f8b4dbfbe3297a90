"""Fine-tunes a small Whisper on dictations from a boatyard with Seq2SeqTrainer, and computes the share of right tokens."""
import sys
import tempfile

import numpy as np
import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, WhisperConfig, WhisperForConditionalGeneration

VOCAB = 9000


class Dictations(torch.utils.data.Dataset):
    def __init__(self, size):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, idx):
        g = torch.Generator().manual_seed(idx)
        return {"input_features": torch.randn(80, 1000, generator=g), "labels": torch.randint(4, VOCAB, (56,), generator=g)}


def collate(features):
    return {"input_features": torch.stack([f["input_features"] for f in features]), "labels": torch.stack([f["labels"] for f in features])}


def compute_metrics(pred):
    tokens = pred.predictions[0] if isinstance(pred.predictions, tuple) else pred.predictions
    if tokens.ndim == 3:
        tokens = tokens.argmax(-1)
    return {"token_accuracy": float(np.mean(tokens == pred.label_ids))}


def best_tokens(logits, labels):
    if isinstance(logits, tuple):
        logits = logits[0]
    return logits.argmax(-1)


config = WhisperConfig(vocab_size=VOCAB, num_mel_bins=80, d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4,
                       decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=1024, max_source_positions=500,
                       max_target_positions=128, pad_token_id=0, bos_token_id=1, eos_token_id=2, decoder_start_token_id=3,
                       suppress_tokens=None, begin_suppress_tokens=None)
model = WhisperForConditionalGeneration(config)

extra = {}
if "--fixed" in sys.argv:
    extra["preprocess_logits_for_metrics"] = best_tokens

with tempfile.TemporaryDirectory() as out:
    args = Seq2SeqTrainingArguments(
        output_dir=out,
        per_device_train_batch_size=8,
        per_device_eval_batch_size=8,
        max_steps=8,
        eval_strategy="steps",
        eval_steps=8,
        learning_rate=1e-4,
        warmup_steps=2,
        logging_steps=4,
        save_strategy="no",
        predict_with_generate=False,
        report_to=[],
        disable_tqdm=True,
    )
    trainer = Seq2SeqTrainer(model=model, args=args, train_dataset=Dictations(64), eval_dataset=Dictations(240), data_collator=collate,
                             compute_metrics=compute_metrics, **extra)
    trainer.train()
