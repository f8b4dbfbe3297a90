"""Rewrites letters of a town hall in plain language: BART is trained in full with Seq2SeqTrainer, micro-batches of one and accumulation."""
import argparse
import tempfile

import torch
from transformers import BartConfig, BartForConditionalGeneration, Seq2SeqTrainer, Seq2SeqTrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--steps", type=int, default=3)
options = parser.parse_args()


def letters(n):
    generator = torch.Generator().manual_seed(11)
    rows = []
    for _ in range(n):
        source = torch.randint(4, 24000, (int(torch.randint(100, 160, (1,), generator=generator)),), generator=generator)
        target = torch.randint(4, 24000, (int(torch.randint(40, 80, (1,), generator=generator)),), generator=generator)
        rows.append({"input_ids": source, "labels": target})
    return rows


class Collator:
    def __init__(self, pad):
        self.pad = pad

    def __call__(self, rows):
        ids = torch.nn.utils.rnn.pad_sequence([r["input_ids"] for r in rows], batch_first=True, padding_value=self.pad)
        labels = torch.nn.utils.rnn.pad_sequence([r["labels"] for r in rows], batch_first=True, padding_value=-100)
        return {"input_ids": ids, "attention_mask": (ids != self.pad).long(), "labels": labels}


def main():
    config = BartConfig(vocab_size=24000, d_model=640, encoder_layers=6, decoder_layers=6, encoder_attention_heads=10, decoder_attention_heads=10,
                        encoder_ffn_dim=2560, decoder_ffn_dim=2560, max_position_embeddings=512)
    model = BartForConditionalGeneration(config)
    print("%.0f million parameters" % (model.num_parameters() / 1e6))
    with tempfile.TemporaryDirectory() as folder:
        arguments = Seq2SeqTrainingArguments(
            output_dir=folder,
            per_device_train_batch_size=1,
            gradient_accumulation_steps=4,
            max_steps=options.steps,
            learning_rate=1e-4 if options.fixed else 3e-5,
            optim="adafactor" if options.fixed else "adamw_torch",
            lr_scheduler_type="constant_with_warmup",
            warmup_steps=1,
            label_smoothing_factor=0.0,
            logging_steps=1,
            save_strategy="no",
            report_to=[],
            disable_tqdm=True,
            dataloader_pin_memory=False,
        )
        trainer = Seq2SeqTrainer(model=model, args=arguments, train_dataset=letters(40), data_collator=Collator(config.pad_token_id))
        trainer.train()
    for entry in trainer.state.log_history:
        print(entry)


main()
