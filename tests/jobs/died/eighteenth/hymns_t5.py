"""Go on with the training of a T5 that modernises the spelling of hymns; weights and their running average come from last week's checkpoint."""
import os
import sys
import tempfile

import torch
from torch.optim.swa_utils import AveragedModel, get_ema_multi_avg_fn
from transformers import T5Config, T5ForConditionalGeneration
from transformers.optimization import Adafactor

FIXED = "--fixed" in sys.argv
VOCAB = 20000


def new_model():
    return T5ForConditionalGeneration(T5Config(vocab_size=VOCAB, d_model=640, d_kv=64, d_ff=2560, num_layers=6, num_heads=10, use_cache=False,
                                               decoder_start_token_id=0))


def last_weeks_run(path):
    weights = new_model().state_dict()
    torch.save({"model": weights, "average": {k: v.clone() for k, v in weights.items()}, "step": 41500}, path)


def verses(count, size=6, length=48):
    rng = torch.Generator().manual_seed(4)
    for _ in range(count):
        old = torch.randint(2, VOCAB, (size, length), generator=rng)
        yield {"input_ids": old, "attention_mask": torch.ones_like(old), "labels": torch.randint(2, VOCAB, (size, length), generator=rng)}


def resume(path, model, average):
    where = "cpu" if FIXED else "cuda"
    checkpoint = torch.load(path, map_location=where)
    model.load_state_dict(checkpoint["model"])
    average.module.load_state_dict(checkpoint["average"])
    print("resumed at step", checkpoint["step"])
    return checkpoint


def main():
    folder = tempfile.mkdtemp()
    path = os.path.join(folder, "hymns.pt")
    last_weeks_run(path)
    model = new_model().to("cuda")
    average = AveragedModel(model, multi_avg_fn=get_ema_multi_avg_fn(0.999))
    checkpoint = resume(path, model, average)
    optimizer = Adafactor(model.parameters(), lr=1e-3, scale_parameter=False, relative_step=False, warmup_init=False)
    model.train()
    for step, batch in enumerate(verses(8), start=checkpoint["step"] + 1):
        loss = model(**{k: v.to("cuda") for k, v in batch.items()}).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        average.update_parameters(model)
        print(step, loss.item())
    os.remove(path)
    os.rmdir(folder)


if __name__ == "__main__":
    main()
