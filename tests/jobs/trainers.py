"""Training as libraries run it: trainers.py sft|sft_lora|lightning|diffusers [--steps 3]. Small models, data that is already tokens."""
import argparse
import logging
import os
import tempfile
import warnings

import torch
import torch.nn.functional as F

warnings.filterwarnings("ignore")
os.environ.setdefault("TRANSFORMERS_VERBOSITY", "error")
os.environ.setdefault("HF_HUB_OFFLINE", "1")
VOCABULARY, LENGTH, BATCH = 8000, 256, 4


def causal_lm():
    import transformers
    config = transformers.LlamaConfig(num_hidden_layers=4, hidden_size=512, num_attention_heads=8, num_key_value_heads=4, intermediate_size=1408,
                                      vocab_size=VOCABULARY, eos_token_id=2, use_cache=False)
    with torch.device("cuda"):
        return transformers.AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16)


def tokenizer():
    import transformers
    from tokenizers import Tokenizer, models
    words = Tokenizer(models.WordLevel({"<pad>": 0, "<unk>": 1, "<eos>": 2}, unk_token="<unk>"))
    return transformers.PreTrainedTokenizerFast(tokenizer_object=words, pad_token="<pad>", unk_token="<unk>", eos_token="<eos>")


def common(steps):
    return {"output_dir": os.path.join(tempfile.gettempdir(), "memtrace-trainers"), "max_steps": steps, "save_strategy": "no", "report_to": [],
            "disable_tqdm": True, "per_device_train_batch_size": BATCH, "bf16": True, "gradient_checkpointing": False, "max_length": None}


def rows(**columns):
    import datasets
    datasets.disable_progress_bars()
    return datasets.Dataset.from_dict({name: [[1] * length] * 64 for name, length in columns.items()})


def sft(steps, adapters=False):
    import peft
    import trl
    arguments = trl.SFTConfig(dataset_kwargs={"skip_prepare_dataset": True}, eos_token=None, loss_type="nll", **common(steps))
    trl.SFTTrainer(causal_lm(), arguments, train_dataset=rows(input_ids=LENGTH), processing_class=tokenizer(),
                   peft_config=peft.LoraConfig(r=64, target_modules="all-linear") if adapters else None).train()


def lightning(steps):
    import lightning as light
    logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)

    class Module(light.LightningModule):
        def __init__(self):
            super().__init__()
            layer = torch.nn.TransformerEncoderLayer(512, 8, 2048, batch_first=True, norm_first=True)
            self.words, self.layers = torch.nn.Embedding(VOCABULARY, 512), torch.nn.TransformerEncoder(layer, 4, enable_nested_tensor=False)
            self.head = torch.nn.Linear(512, VOCABULARY)

        def loss(self, batch):
            return F.cross_entropy(self.head(self.layers(self.words(batch[0]))).flatten(0, 1), batch[0].flatten())

        def training_step(self, batch, index):
            return self.loss(batch)

        def validation_step(self, batch, index):
            self.log("loss", self.loss(batch))

        def configure_optimizers(self):
            return torch.optim.AdamW(self.parameters(), lr=1e-4)

    loader = torch.utils.data.DataLoader(torch.utils.data.TensorDataset(torch.ones(64, LENGTH, dtype=torch.long)), batch_size=BATCH)
    trainer = light.Trainer(max_steps=steps, accelerator="gpu", devices=1, logger=False, enable_checkpointing=False, enable_progress_bar=False,
                            enable_model_summary=False, val_check_interval=2, limit_val_batches=1, precision="bf16-mixed", gradient_clip_val=1.0)
    trainer.fit(Module(), loader, loader)


def diffusers(steps):
    """As train_unconditional.py and train_text_to_image.py: a frozen autoencoder's latents, noise, the UNet with text, an average of its weights."""
    import diffusers as d
    from diffusers.training_utils import EMAModel
    unet = d.UNet2DConditionModel(sample_size=32, in_channels=4, out_channels=4, layers_per_block=1, block_out_channels=(64, 128), cross_attention_dim=128,
                                  attention_head_dim=8, norm_num_groups=32, down_block_types=("CrossAttnDownBlock2D", "DownBlock2D"),
                                  up_block_types=("UpBlock2D", "CrossAttnUpBlock2D")).to("cuda")
    vae = d.AutoencoderKL(block_out_channels=(32, 64), down_block_types=("DownEncoderBlock2D",) * 2, up_block_types=("UpDecoderBlock2D",) * 2,
                          latent_channels=4, norm_num_groups=32).to("cuda", torch.bfloat16)
    vae.requires_grad_(False)
    average = EMAModel(unet.parameters(), model_cls=d.UNet2DConditionModel, model_config=unet.config)
    average.to("cuda")
    scheduler, optimizer = d.DDPMScheduler(num_train_timesteps=1000), torch.optim.AdamW(unet.parameters(), lr=1e-4)
    for _ in range(steps):
        images, text = torch.randn(BATCH, 3, 64, 64).to("cuda", torch.bfloat16), torch.randn(BATCH, 77, 128).to("cuda")
        with torch.no_grad():
            latents = vae.encode(images).latent_dist.sample() * vae.config.scaling_factor
        noise, times = torch.randn_like(latents), torch.zeros(BATCH, dtype=torch.long, device="cuda")
        noisy = scheduler.add_noise(latents, noise, times)
        with torch.autocast("cuda", torch.bfloat16):
            predicted = unet(noisy, times, text, return_dict=False)[0]
        F.mse_loss(predicted.float(), noise.float(), reduction="mean").backward()
        torch.nn.utils.clip_grad_norm_(unet.parameters(), 1.0)
        optimizer.step()
        average.step(unet.parameters())
        optimizer.zero_grad()


if __name__ == "__main__":
    p = argparse.ArgumentParser()
    p.add_argument("job", choices=("sft", "sft_lora", "lightning", "diffusers"))
    p.add_argument("--steps", type=int, default=3)
    o = p.parse_args()
    {"sft": sft, "sft_lora": lambda n: sft(n, True), "lightning": lightning, "diffusers": diffusers}[o.job](o.steps)
