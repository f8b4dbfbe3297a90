"""Summarises bills with a small Pegasus under the Trainer; the evaluation batch size was set generously, because nothing is trained there."""
import sys
import tempfile

import torch
from transformers import PegasusConfig, PegasusForConditionalGeneration, Trainer, TrainingArguments

EVAL_BATCH = 4 if "--fixed" in sys.argv else 64


def rows(n, source=256, target=96, vocabulary=20000):
    generator = torch.Generator().manual_seed(n)
    return [{"input_ids": torch.randint(5, vocabulary, (source,), generator=generator),
             "attention_mask": torch.ones(source, dtype=torch.long),
             "labels": torch.randint(5, vocabulary, (target,), generator=generator)} for _ in range(n)]


def main():
    config = PegasusConfig(vocab_size=20000, d_model=256, encoder_layers=4, decoder_layers=4, encoder_attention_heads=4,
                           decoder_attention_heads=4, encoder_ffn_dim=1024, decoder_ffn_dim=1024, decoder_start_token_id=0)
    model = PegasusForConditionalGeneration(config)
    arguments = TrainingArguments(output_dir=tempfile.mkdtemp(), per_device_train_batch_size=4, gradient_accumulation_steps=2,
                                  per_device_eval_batch_size=EVAL_BATCH, prediction_loss_only=True, num_train_epochs=2, eval_strategy="epoch",
                                  save_strategy="no", report_to=[], disable_tqdm=True, learning_rate=1e-4, dataloader_pin_memory=False)
    trainer = Trainer(model=model, args=arguments, train_dataset=rows(32), eval_dataset=rows(96))
    trainer.train()
    for entry in trainer.state.log_history:
        print({k: v for k, v in entry.items() if "loss" in k})


if __name__ == "__main__":
    main()
