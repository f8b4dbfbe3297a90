"""Fine-tunes a small Whisper on old radio plays with the Seq2SeqTrainer and reports how many tokens are right under teacher forcing."""
import sys
import tempfile

import numpy as np
import torch
from transformers import Seq2SeqTrainer, Seq2SeqTrainingArguments, WhisperConfig, WhisperForConditionalGeneration

FIXED = "--fixed" in sys.argv
VOCAB, FRAMES, TOKENS = 16000, 800, 120


class RadioPlays(torch.utils.data.Dataset):
    def __init__(self, size, offset):
        self.size, self.offset = size, offset

    def __len__(self):
        return self.size

    def __getitem__(self, idx):
        g = torch.Generator().manual_seed(self.offset + idx)
        labels = torch.randint(10, VOCAB, (TOKENS,), generator=g)
        labels[int(torch.randint(60, TOKENS, (1,), generator=g)):] = -100
        return {"input_features": torch.randn(80, FRAMES, generator=g), "labels": labels}


def token_accuracy(prediction):
    guesses = prediction.predictions
    if isinstance(guesses, tuple):
        guesses = guesses[0]
    if guesses.ndim == 3:
        guesses = guesses.argmax(-1)
    known = prediction.label_ids != -100
    return {"token_accuracy": float(np.mean(guesses[known] == prediction.label_ids[known]))}


def best_tokens(logits, labels):
    return (logits[0] if isinstance(logits, tuple) else logits).argmax(-1)


model = WhisperForConditionalGeneration(WhisperConfig(
    vocab_size=VOCAB, num_mel_bins=80, d_model=256, encoder_layers=3, decoder_layers=3, encoder_attention_heads=4, decoder_attention_heads=4,
    encoder_ffn_dim=768, decoder_ffn_dim=768, max_source_positions=FRAMES // 2, max_target_positions=128, pad_token_id=0, bos_token_id=1,
    eos_token_id=2, decoder_start_token_id=1, suppress_tokens=None, begin_suppress_tokens=None))

with tempfile.TemporaryDirectory() as where:
    arguments = Seq2SeqTrainingArguments(
        output_dir=where, max_steps=8, eval_strategy="steps", eval_steps=8, per_device_train_batch_size=4, per_device_eval_batch_size=8,
        learning_rate=1e-4, logging_steps=4, save_strategy="no", report_to=[], disable_tqdm=True, remove_unused_columns=False)
    trainer = Seq2SeqTrainer(
        model=model, args=arguments, train_dataset=RadioPlays(64, 0), eval_dataset=RadioPlays(200, 10_000), compute_metrics=token_accuracy,
        preprocess_logits_for_metrics=best_tokens if FIXED else None)
    trainer.train()
print(trainer.state.log_history[-1])
