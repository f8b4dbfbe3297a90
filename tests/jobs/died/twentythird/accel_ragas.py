"""Recognises the raga of an excerpt of three seconds with a small HuBERT; training and evaluation through Accelerate."""
import argparse

import torch
from accelerate import Accelerator
from accelerate.utils import set_seed
from torch.utils.data import DataLoader, TensorDataset
from transformers import HubertConfig, HubertForSequenceClassification, get_linear_schedule_with_warmup

parser = argparse.ArgumentParser()
parser.add_argument("--fixed", action="store_true")
parser.add_argument("--train-batch", type=int, default=8)
parser.add_argument("--eval-batch", type=int, default=40)
parser.add_argument("--ragas", type=int, default=30)
args = parser.parse_args()


def excerpts(n, seed):
    g = torch.Generator().manual_seed(seed)
    return TensorDataset(torch.randn(n, 48000, generator=g), torch.randint(0, args.ragas, (n,), generator=g))


def make_model():
    return HubertForSequenceClassification(HubertConfig(
        conv_dim=(96,) * 7, hidden_size=384, num_hidden_layers=8, num_attention_heads=6, intermediate_size=1536, num_labels=args.ragas,
        num_conv_pos_embeddings=64, num_conv_pos_embedding_groups=16, apply_spec_augment=False, classifier_proj_size=192, layerdrop=0.0))


def evaluate(accelerator, model, loader):
    model.eval()
    right = seen = 0
    for audio, raga in loader:
        logits = model(input_values=audio).logits
        guess, truth = accelerator.gather_for_metrics((logits.argmax(-1), raga))
        right += (guess == truth).sum().item()
        seen += truth.numel()
    model.train()
    return right / seen


def main():
    set_seed(8)
    accelerator = Accelerator()
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=5e-5)
    schedule = get_linear_schedule_with_warmup(optimizer, 2, 12)
    model, optimizer, schedule, train, test = accelerator.prepare(
        model, optimizer, schedule, DataLoader(excerpts(48, 1), args.train_batch, shuffle=True), DataLoader(excerpts(120, 2), args.eval_batch))
    for epoch in range(2):
        for audio, raga in train:
            loss = model(input_values=audio, labels=raga).loss
            accelerator.backward(loss)
            accelerator.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
            schedule.step()
            optimizer.zero_grad()
        if args.fixed:
            with torch.no_grad():
                accuracy = evaluate(accelerator, model, test)
        else:
            accuracy = evaluate(accelerator, model, test)
        accelerator.print("epoch", epoch, "accuracy", accuracy)


main()
