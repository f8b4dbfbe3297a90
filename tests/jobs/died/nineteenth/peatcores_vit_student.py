"""Distils the big ViT for pollen zones in peat cores into one that runs on the field laptop. HF Trainer with a loss of our own."""
import sys
import tempfile

import torch
import torch.nn.functional as F
from transformers import Trainer, TrainingArguments, ViTConfig, ViTForImageClassification

FIXED = "--fixed" in sys.argv
NUM_ZONES = 9


def vit(hidden, layers, heads):
    return ViTForImageClassification(ViTConfig(
        hidden_size=hidden, num_hidden_layers=layers, num_attention_heads=heads, intermediate_size=4 * hidden,
        image_size=224, patch_size=16, num_labels=NUM_ZONES))


class CoreSlices(torch.utils.data.Dataset):
    def __len__(self):
        return 160

    def __getitem__(self, i):
        return {"pixel_values": torch.full((3, 224, 224), (i % 17) / 17.0), "labels": i % NUM_ZONES}


class DistillationTrainer(Trainer):
    def __init__(self, *args, teacher_model=None, temperature=3.0, alpha=0.7, **kwargs):
        super().__init__(*args, **kwargs)
        self.teacher = teacher_model.to(self.args.device).eval()
        self.temperature, self.alpha = temperature, alpha

    def teacher_logits(self, inputs):
        pixel_values = inputs["pixel_values"]
        if FIXED:
            with torch.no_grad():
                return self.teacher(pixel_values=pixel_values).logits
        return self.teacher(pixel_values=pixel_values).logits

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        outputs = model(**inputs)
        t = self.temperature
        soft = F.kl_div(
            F.log_softmax(outputs.logits / t, dim=-1),
            F.softmax(self.teacher_logits(inputs) / t, dim=-1),
            reduction="batchmean",
        ) * t ** 2
        loss = self.alpha * soft + (1 - self.alpha) * outputs.loss
        return (loss, outputs) if return_outputs else loss


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        args = TrainingArguments(
            output_dir=folder, per_device_train_batch_size=32, max_steps=4, learning_rate=3e-4, weight_decay=0.05,
            logging_steps=2, save_strategy="no", report_to="none", dataloader_pin_memory=False)
        DistillationTrainer(model=vit(192, 4, 3), args=args, train_dataset=CoreSlices(), teacher_model=vit(384, 10, 6)).train()
