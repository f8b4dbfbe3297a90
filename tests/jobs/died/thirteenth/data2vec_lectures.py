"""Trains a CTC recogniser on recorded lectures with Accelerate. Batches are padded to the longest segment; the segmentation missed one pause."""
import sys

import torch
from accelerate import Accelerator
from torch.utils.data import DataLoader, Dataset
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC

RATE = 16000
SECONDS = [3, 4, 2, 4, 3, 4, 3, 2, 4, 3, 2, 4, 4, 3, 3, 4, 2, 26, 3, 4, 3, 3, 2, 4]
MAXIMUM = 5 * RATE if "--fixed" in sys.argv else None


class Lectures(Dataset):
    def __len__(self):
        return len(SECONDS)

    def __getitem__(self, k):
        wave = torch.zeros(SECONDS[k] * RATE)
        if MAXIMUM:
            wave = wave[:MAXIMUM]
        return wave, torch.randint(1, 32, (12,))


def collate(rows):
    waves = torch.nn.utils.rnn.pad_sequence([w for w, _ in rows], batch_first=True)
    mask = torch.zeros(waves.shape, dtype=torch.long)
    for k, (w, _) in enumerate(rows):
        mask[k, : len(w)] = 1
    return {"input_values": waves, "attention_mask": mask, "labels": torch.stack([t for _, t in rows])}


def make_model():
    config = Wav2Vec2Config(vocab_size=32, hidden_size=256, num_hidden_layers=4, num_attention_heads=4, intermediate_size=1024,
                            conv_dim=(128,) * 7, num_conv_pos_embeddings=32, num_conv_pos_embedding_groups=8, mask_time_prob=0.0,
                            feat_extract_norm="layer", do_stable_layer_norm=True, ctc_zero_infinity=True)
    return Wav2Vec2ForCTC(config)


def main():
    accelerator = Accelerator()
    model = make_model()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    model, optimizer, loader = accelerator.prepare(model, optimizer, DataLoader(Lectures(), batch_size=3, collate_fn=collate))
    model.train()
    for step, batch in enumerate(loader):
        with accelerator.accumulate(model):
            loss = model(**batch).loss
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
        accelerator.print(step, tuple(batch["input_values"].shape), loss.item())


main()
