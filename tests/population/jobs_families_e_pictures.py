"""Jobs of pictures: text to image with its encoders, instructions about pictures, classes of a scene, a target encoder, actions of a robot, the depth of a view,
several GPUs."""
import copy

import torch
import torch.nn as nn
import torch.nn.functional as F
from diffusers import AutoencoderKL, DDPMScheduler, UNet2DConditionModel
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard
from torch.nn.parallel import DistributedDataParallel
from transformers import CLIPTextConfig, CLIPTextModel, SegformerConfig, SegformerForSemanticSegmentation, SiglipVisionConfig, SiglipVisionModel

from core import DEVICE, job
from jobs_adapters import Lora
from jobs_images import EncoderBlock, ImageLoop, VisionTransformer
from jobs_parallel import one_rank
from parts import Loop, cut, strided_convolutions


@job("text_to_image", "text to image", "loop", "images", "eval", "checkpointing", "reference")
class TextToImage(ImageLoop):
    """diffusers' fine-tuning: a text encoder and the encoder of latents, both frozen, and a network that is trained on noise."""
    kinds = "adamw", "adamw_fused", "adafactor"
    precisions = "autocast", "autocast", "bf16"

    def draw(self):
        r = self.rng
        self.base, self.checkpointing, self.words, self.vocabulary = r.choice([64, 96, 128]), r.random() < 0.25, 77, 49408
        self.draw_images([256, 384], [2, 4, 8])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            vae = AutoencoderKL(block_out_channels=(32, 64, 64, 64), down_block_types=("DownEncoderBlock2D",) * 4, up_block_types=("UpDecoderBlock2D",) * 4,
                                          latent_channels=4, norm_num_groups=16)
            text = CLIPTextModel(CLIPTextConfig(hidden_size=512, intermediate_size=2048, num_hidden_layers=4, num_attention_heads=8))
            unet = UNet2DConditionModel(sample_size=self.pixels // 8, block_out_channels=(self.base, 2 * self.base, 4 * self.base), layers_per_block=1,
                                                  down_block_types=("CrossAttnDownBlock2D", "CrossAttnDownBlock2D", "DownBlock2D"), cross_attention_dim=512,
                                                  up_block_types=("UpBlock2D", "CrossAttnUpBlock2D", "CrossAttnUpBlock2D"))
        if self.checkpointing:
            unet.enable_gradient_checkpointing()
        self.reference = nn.ModuleDict({"vae": vae, "text": text}).to(self.dtype).eval().requires_grad_(False)
        self.noise_scheduler = DDPMScheduler(num_train_timesteps=1000)
        self.finish(unet)

    def reference_outputs(self, batch):
        prompts = torch.ones(len(batch[0]), self.words, dtype=torch.long, device=DEVICE)
        with self.no_grad():
            latents = self.reference["vae"].encode(batch[0].to(self.dtype)).latent_dist.mode() * 0.18
            return latents, self.reference["text"](prompts).last_hidden_state

    def noised(self, batch):
        latents, states = self.reference_outputs(batch)
        noise, when = torch.randn_like(latents), torch.zeros(len(latents), dtype=torch.long, device=DEVICE)
        return self.noise_scheduler.add_noise(latents, noise, when), when, states, noise

    def predict(self, batch):
        noisy, when, states, _ = self.noised(batch)
        with self.autocast():
            return self.model(noisy, when, states).sample

    def loss(self, batch):
        noisy, when, states, noise = self.noised(batch)
        with self.autocast():
            told = self.model(noisy, when, states, return_dict=False)[0]
        return F.mse_loss(told.float(), noise.float())


@job("visual_instructions", "visual instructions", "loop", "decoder")
class VisualInstructions(Lora):
    """Pictures through a frozen tower and a projector, in front of the words; adapters in the language model."""
    precisions = "bf16", "bf16", "autocast"

    def draw(self):
        super().draw()
        self.length, self.size, self.pixels = self.rng.choice([128, 256]), self.rng.choice([2, 4]), self.rng.choice([224, 336, 448])

    def build(self):
        config = SiglipVisionConfig(hidden_size=512, intermediate_size=2048, num_hidden_layers=4, num_attention_heads=8, image_size=self.pixels, patch_size=14)
        with torch.device(DEVICE):
            self.tower = SiglipVisionModel(config).to(self.dtype).eval().requires_grad_(False)
            self.projector = nn.Sequential(nn.Linear(512, self.width), nn.GELU(), nn.Linear(self.width, self.width)).to(self.dtype)
        super().build()
        self.optimizers[0].add_param_group({"params": list(self.projector.parameters())})

    def seen_and_told(self, tokens):
        pictures = torch.zeros(len(tokens), 3, self.pixels, self.pixels, dtype=self.dtype, device=DEVICE)
        with torch.no_grad():
            seen = self.tower(pixel_values=pictures).last_hidden_state
        words = self.model.get_input_embeddings()(tokens)
        return torch.cat([self.projector(seen).to(words.dtype), words], dim=1)

    def predict(self, tokens):
        with self.autocast():
            return self.model(inputs_embeds=self.seen_and_told(tokens)).logits

    def loss(self, tokens):
        with self.autocast():
            embeds = self.seen_and_told(tokens)
            labels = torch.cat([tokens.new_full((len(tokens), embeds.shape[1] - tokens.shape[1]), -100), tokens], dim=1)
            return self.model(inputs_embeds=embeds, labels=labels).loss


@job("scene_classes", "classes of a scene", "loop", "images", "eval")
class SceneClasses(ImageLoop):
    """SegFormer of transformers: a class for each pixel, whose scores are enlarged to the picture's size for the loss."""
    kinds = "adamw", "adamw_fused", "adamw_loop"
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        self.base, self.kinds_of_things = self.rng.choice([32, 64]), self.rng.choice([19, 35, 150])
        self.draw_images([256, 384, 512], [2, 4, 8])
        self.rows = 32
        self.choose()

    def build(self):
        sizes = [self.base, 2 * self.base, 5 * self.base, 8 * self.base]
        config = SegformerConfig(hidden_sizes=sizes, depths=[2, 2, 2, 2], decoder_hidden_size=256, num_labels=self.kinds_of_things)
        with torch.device(DEVICE):
            self.finish(SegformerForSemanticSegmentation(config))

    def predict(self, batch):
        with self.autocast():
            return self.model(pixel_values=batch[0]).logits

    def loss(self, batch):
        scores = F.interpolate(self.predict(batch), size=batch[0].shape[2:], mode="bilinear", align_corners=False)
        return F.cross_entropy(scores.float(), torch.zeros(len(scores), *scores.shape[2:], dtype=torch.long, device=DEVICE), ignore_index=255)


class Patches(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.patch, self.place = nn.Conv2d(3, o.width, o.patch, o.patch), nn.Parameter(torch.zeros(1, (o.pixels // o.patch) ** 2, o.width))
        self.blocks, self.norm = nn.ModuleList(EncoderBlock(o.width, 8, o.attention) for _ in range(o.layers)), nn.LayerNorm(o.width)

    def forward(self, images, kept=None):
        x = self.patch(images).flatten(2).transpose(1, 2) + self.place
        x = x if kept is None else x[:, kept]
        for block in self.blocks:
            x = block(x)
        return self.norm(x)


class Predicting(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.encoder, self.asked = Patches(o), nn.Parameter(torch.zeros(1, 1, o.width))
        self.predictor = nn.ModuleList(EncoderBlock(o.width, 8, o.attention) for _ in range(2))

    def forward(self, images, kept=None, hidden=0):
        x = self.encoder(images, kept)
        if not hidden:
            return x.mean(1)
        x = torch.cat([x, self.asked.expand(len(x), hidden, -1)], dim=1)
        for block in self.predictor:
            x = block(x)
        return x[:, -hidden:]


@job("target_encoder", "features of what is hidden", "loop", "images", "layers", "attention", "eval", "reference")
class TargetEncoder(ImageLoop):
    """What the average of the encoder sees in hidden patches is told from the others; no pixel is."""
    kinds = "adamw", "adamw_fused"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.patch, self.attention = r.choice([4, 6]), r.choice([384, 512]), r.choice([8, 16]), "sdpa"
        self.draw_images([128, 192, 256], [16, 32])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Predicting(self))
        self.reference = copy.deepcopy(self.model.encoder).requires_grad_(False)

    def reference_outputs(self, batch):
        with self.no_grad(), self.autocast():
            return self.reference(batch[0])

    def loss(self, batch):
        wanted = self.reference_outputs(batch)
        seen = wanted.shape[1] * 2 // 5
        with self.autocast():
            told = self.model(batch[0], torch.arange(seen, device=DEVICE), wanted.shape[1] - seen)
        return F.smooth_l1_loss(told.float(), F.layer_norm(wanted[:, seen:].float(), (self.width,)))

    @torch.no_grad()
    def optimize(self):
        super().optimize()
        for average, p in zip(self.reference.parameters(), self.model.encoder.parameters()):
            average.lerp_(p, 0.004)


class Chunks(nn.Module):
    """A backbone for each camera's view, and queries for the actions of the next moments."""

    def __init__(self, o):
        super().__init__()
        backbone, cin = strided_convolutions(o.base)
        self.backbone, self.into, self.joints = backbone, nn.Linear(cin, o.width), nn.Linear(14, o.width)
        self.encoder = nn.ModuleList(EncoderBlock(o.width, 8, o.attention) for _ in range(o.layers))
        self.decoder = nn.ModuleList(nn.TransformerDecoderLayer(o.width, 8, 4 * o.width, batch_first=True) for _ in range(o.layers))
        self.asked, self.out = nn.Parameter(torch.zeros(o.moments, o.width)), nn.Linear(o.width, 14)

    def forward(self, views, joints):
        seen = self.backbone(views.flatten(0, 1)).flatten(2).transpose(1, 2)
        x = torch.cat([self.joints(joints)[:, None], self.into(seen).unflatten(0, views.shape[:2]).flatten(1, 2)], dim=1)
        for block in self.encoder:
            x = block(x)
        told = self.asked.expand(len(x), -1, -1)
        for layer in self.decoder:
            told = layer(told, x)
        return self.out(told)


@job("robot_actions", "actions of a robot", "loop", "layers", "attention", "eval", "dataset")
class RobotActions(Loop):
    """Some cameras and the joints' state in, the next hundred positions out."""
    kinds = "adamw", "adamw_fused", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.base, self.moments, self.attention = r.choice([2, 3, 4]), r.choice([256, 384, 512]), r.choice([32, 48]), r.choice([50, 100]), "sdpa"
        self.cameras, self.pixels, self.size = r.choice([2, 3, 4]), r.choice([160, 224]), r.choice([4, 8, 16])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(Chunks(self))
        self.dataset = torch.zeros(32, self.cameras, 3, self.pixels, self.pixels, dtype=torch.uint8), torch.zeros(32, 14), torch.zeros(32, self.moments, 14)

    def batch(self, i):
        views, joints, actions = cut(self.dataset, i, self.size)
        return views.to(self.dtype) / 255, joints.to(self.dtype), actions

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0], batch[1])

    def loss(self, batch):
        return F.l1_loss(self.predict(batch).float(), batch[2])


class DepthNet(nn.Module):
    def __init__(self, base):
        super().__init__()
        def conv(cin, cout, stride=1):
            return nn.Sequential(nn.Conv2d(cin, cout, 3, stride, 1, bias=False), nn.GroupNorm(8, cout), nn.SiLU())
        self.stem = conv(3, base)
        self.down = nn.ModuleList(nn.Sequential(conv(base << k, base << k + 1, 2), conv(base << k + 1, base << k + 1)) for k in range(3))
        self.up = nn.ModuleList(conv((base << k + 1) + (base << k), base << k) for k in range(3))
        self.out = nn.Conv2d(base, 1, 1)

    def forward(self, image):
        maps = [self.stem(image)]
        for down in self.down:
            maps.append(down(maps[-1]))
        x = maps.pop()
        for up in reversed(self.up):
            skip = maps.pop()
            x = up(torch.cat([F.interpolate(x, size=skip.shape[2:], mode="bilinear"), skip], dim=1))
        return F.softplus(self.out(x))


@job("depth_of_a_view", "depth of a view", "loop", "images", "eval")
class DepthOfAView(ImageLoop):
    """How far each pixel is, up to a scale; slopes of several sizes count, too."""
    kinds = "adam", "adamw", "sgd_momentum"

    def draw(self):
        self.base = self.rng.choice([16, 32, 48])
        self.draw_images([192, 256, 320], [4, 8, 16])
        self.choose()

    def build(self):
        self.finish(DepthNet(self.base))

    def loss(self, batch):
        told = self.predict(batch).float().clamp(min=1e-3).log()
        off = told - torch.zeros_like(told)
        total = (off.square().mean((1, 2, 3)) - 0.85 * off.mean((1, 2, 3)).square()).clamp(min=1e-6).sqrt().mean()
        for step in (1, 2, 4):
            part = off[..., ::step, ::step]
            total = total + 0.5 * (part.diff(dim=2).abs().mean() + part.diff(dim=3).abs().mean())
        return total


class ManyGpus(ImageLoop):
    kinds = "adamw", "adamw_loop", "adam"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.patch, self.attention, self.checkpointing = r.choice([4, 6, 8]), r.choice([512, 768]), 16, "sdpa", False
        self.draw_images([192, 256], [16, 32])
        self.choose()

    def net(self):
        with torch.device(DEVICE):
            return VisionTransformer(self).to(self.dtype)

    def build(self):
        one_rank()
        self.wrapped(self.net())
        self.optimizers = [self.optimizer(self.model.parameters())]
        self.dataset = torch.zeros(self.rows, 3, self.pixels, self.pixels, dtype=torch.uint8), torch.zeros(self.rows, dtype=torch.long)

    def loss(self, batch):
        return F.cross_entropy(self.predict(batch).float(), batch[1])


@job("several_gpus_pictures", "pictures on several GPUs", "loop", "ddp", "layers", "attention", "eval")
class SeveralGpusPictures(ManyGpus):
    def wrapped(self, net):
        self.model = DistributedDataParallel(net, device_ids=[0], gradient_as_bucket_view=self.rng.random() < 0.5, broadcast_buffers=False)


@job("sharded_pictures", "pictures on several GPUs", "loop", "fsdp", "layers", "attention", "eval")
class ShardedPictures(ManyGpus):
    precisions = "fp32", "bf16", "mixed", "mixed"

    def wrapped(self, net):
        policy = MixedPrecisionPolicy(torch.bfloat16, torch.float32) if self.precision == "mixed" else MixedPrecisionPolicy()
        for block in net.blocks:
            fully_shard(block, mp_policy=policy)
        self.model = fully_shard(net, mp_policy=policy)
