"""Models of images: transformers, diffusion, autoencoders, segmentation, two networks against each other."""
import torch
import torch.nn as nn
import torch.nn.functional as F
import transformers
from torch.utils.checkpoint import checkpoint

from core import DEVICE, job
from parts import OPTIMIZERS, Loop, cut


class ImageLoop(Loop):
    """Images of a dataset on the host, of few distinct bytes, with a class each."""
    traits = {"images", "dataset"}
    channels, classes, rows = 3, 100, 256

    def draw_images(self, pixels, sizes):
        self.pixels, self.size = self.rng.choice(pixels), self.rng.choice(sizes)

    def finish(self, model):
        super().finish(model)
        self.dataset = (torch.zeros(self.rows, self.channels, self.pixels, self.pixels, dtype=torch.uint8), torch.zeros(self.rows, dtype=torch.long))

    def batch(self, i):
        images, labels = cut(self.dataset, i, self.size)
        return images.to(self.dtype).div_(255), labels

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])


class EncoderBlock(nn.Module):
    def __init__(self, dim, heads, mode):
        super().__init__()
        self.heads, self.mode = heads, mode
        self.norm1, self.norm2 = nn.LayerNorm(dim), nn.LayerNorm(dim)
        self.qkv, self.proj = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)
        self.mlp = nn.Sequential(nn.Linear(dim, 4 * dim), nn.GELU(), nn.Dropout(0.1), nn.Linear(4 * dim, dim))

    def attend(self, x):
        b, n, c = x.shape
        q, k, v = self.qkv(x).reshape(b, n, 3, self.heads, c // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        if self.mode == "sdpa":
            y = F.scaled_dot_product_attention(q, k, v)
        else:
            y = F.softmax(q @ k.mT * (c // self.heads) ** -0.5, dim=-1) @ v
        return self.proj(y.transpose(1, 2).reshape(b, n, c))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class VisionTransformer(nn.Module):
    def __init__(self, o):
        super().__init__()
        self.patch_embed, self.grad_checkpointing = nn.Conv2d(3, o.width, o.patch, o.patch), o.checkpointing
        self.pos_embed = nn.Parameter(torch.zeros(1, (o.pixels // o.patch) ** 2, o.width))
        self.blocks = nn.ModuleList(EncoderBlock(o.width, 8, o.attention) for _ in range(o.layers))
        self.norm, self.head = nn.LayerNorm(o.width), nn.Linear(o.width, o.classes)

    def forward(self, images):
        x = self.patch_embed(images).flatten(2).transpose(1, 2) + self.pos_embed
        for blk in self.blocks:
            x = checkpoint(blk, x, use_reentrant=False) if self.grad_checkpointing else blk(x)
        return self.head(self.norm(x).mean(1))


@job("vit_by_hand", "vision", "loop", "layers", "attention", "checkpointing", "eval")
class ViTByHand(ImageLoop):
    def draw(self):
        r = self.rng
        self.layers, self.width, self.patch = r.choice([4, 6, 8]), r.choice([384, 512, 768]), r.choice([8, 16])
        self.draw_images([128, 192, 224], [16, 32, 64])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.25
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(VisionTransformer(self))

    def loss(self, batch):
        images, target = batch
        with self.autocast():
            return F.cross_entropy(self.model(images), target, label_smoothing=0.1)


@job("vit_transformers", "vision", "loop", "layers", "attention", "eval", "pretrained")
class ViTTransformers(ImageLoop):
    """A new head on a backbone, whose first half is frozen."""
    kinds = "adamw", "adamw_fused", "adam", "sgd_momentum"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention = r.choice([4, 6, 8]), r.choice([384, 768]), "sdpa"
        self.draw_images([128, 224], [64, 128, 256])
        self.choose()

    def freeze(self):
        for parameter in self.model.vit.parameters():
            parameter.requires_grad = False

    def build(self):
        config = transformers.ViTConfig(hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=8, intermediate_size=4 * self.width,
                                        image_size=self.pixels, patch_size=16, num_labels=self.classes)
        with torch.device(DEVICE):
            self.model = transformers.AutoModelForImageClassification.from_config(config, attn_implementation=self.attention)
        self.freeze()
        self.finish(self.model)
        self.optimizers = [self.optimizer(self.model.classifier.parameters())]

    def predict(self, batch):
        with self.autocast():
            return self.model(pixel_values=batch[0]).logits

    def loss(self, batch):
        with self.autocast():
            return self.model(pixel_values=batch[0], labels=batch[1]).loss


class ResBlock(nn.Module):
    def __init__(self, cin, cout, temb):
        super().__init__()
        self.norm1, self.conv1 = nn.GroupNorm(8, cin), nn.Conv2d(cin, cout, 3, padding=1)
        self.norm2, self.conv2 = nn.GroupNorm(8, cout), nn.Conv2d(cout, cout, 3, padding=1)
        self.time, self.shortcut = nn.Linear(temb, cout), nn.Conv2d(cin, cout, 1) if cin != cout else nn.Identity()

    def forward(self, x, t):
        h = self.conv1(F.silu(self.norm1(x))) + self.time(t)[:, :, None, None]
        return self.conv2(F.silu(self.norm2(h))) + self.shortcut(x)


class UNet(nn.Module):
    def __init__(self, cin, base, depth, cout):
        super().__init__()
        widths = [base * 2 ** k for k in range(depth)]
        self.stem, self.time = nn.Conv2d(cin, base, 3, padding=1), nn.Sequential(nn.Linear(1, 256), nn.SiLU(), nn.Linear(256, 256))
        self.downs = nn.ModuleList(ResBlock(a, b, 256) for a, b in zip([base, *widths], widths))
        self.middle = ResBlock(widths[-1], widths[-1], 256)
        self.ups = nn.ModuleList(ResBlock(a + b, b, 256) for a, b in zip([widths[-1], *widths[:0:-1]], widths[::-1]))
        self.out = nn.Conv2d(base, cout, 3, padding=1)

    def forward(self, x, t):
        x, t, skips = self.stem(x), self.time(t[:, None]), []
        for down in self.downs:
            x = down(x, t)
            skips.append(x)
            x = F.avg_pool2d(x, 2)
        x = self.middle(x, t)
        for up in self.ups:
            x = up(torch.cat([F.interpolate(x, scale_factor=2), skips.pop()], dim=1), t)
        return self.out(x)


class NoisePrediction(ImageLoop):
    precisions = "fp32", "autocast", "autocast"

    def draw(self):
        self.base, self.depth = self.rng.choice([64, 96, 128]), self.rng.choice([2, 3, 4])
        self.draw_images([64, 128], [8, 16])
        self.channels = self.rng.choice([3, 4])
        self.choose()

    def noised(self, batch):
        x0 = batch[0] * 2 - 1
        noise, t = torch.randn_like(x0), torch.rand(len(x0), device=x0.device)
        return (1 - t).sqrt()[:, None, None, None] * x0 + t.sqrt()[:, None, None, None] * noise, noise, t

    def predict(self, batch):
        xt, _, t = self.noised(batch)
        with self.autocast():
            return self.model(xt, t)

    def loss(self, batch):
        xt, noise, t = self.noised(batch)
        with self.autocast():
            return F.mse_loss(self.model(xt, t).float(), noise)


@job("diffusion_by_hand", "diffusion", "loop", "eval")
class Diffusion(NoisePrediction):
    """Noise prediction, with a running average of the weights."""

    def build(self):
        self.finish(UNet(self.channels, self.base, self.depth, self.channels))
        self.ema = [p.detach().clone() for p in self.model.parameters()]

    def optimize(self):
        super().optimize()
        with torch.no_grad():
            torch._foreach_lerp_(self.ema, [p.detach() for p in self.model.parameters()], 1e-3)


@job("segmentation", "diffusion", "loop", "eval")
class Segmentation(NoisePrediction):
    """A class for each pixel."""
    classes = 21

    def build(self):
        self.finish(UNet(self.channels, self.base, self.depth, self.classes))

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0], batch[1].float())

    def loss(self, batch):
        target = torch.zeros(len(batch[0]), self.pixels, self.pixels, dtype=torch.long, device=DEVICE)
        return F.cross_entropy(self.predict(batch).float(), target)


class ConvVAE(nn.Module):
    def __init__(self, ch, latent, pixels):
        super().__init__()
        self.enc = nn.Sequential(nn.Conv2d(3, ch, 4, 2, 1), nn.ReLU(), nn.Conv2d(ch, 2 * ch, 4, 2, 1), nn.ReLU(), nn.Conv2d(2 * ch, 4 * ch, 4, 2, 1), nn.ReLU())
        self.side, self.ch = pixels // 8, ch
        flat = 4 * ch * self.side ** 2
        self.mu, self.logvar, self.back = nn.Linear(flat, latent), nn.Linear(flat, latent), nn.Linear(latent, flat)
        self.dec = nn.Sequential(nn.ConvTranspose2d(4 * ch, 2 * ch, 4, 2, 1), nn.ReLU(), nn.ConvTranspose2d(2 * ch, ch, 4, 2, 1), nn.ReLU(),
                                 nn.ConvTranspose2d(ch, 3, 4, 2, 1))

    def forward(self, x):
        h = self.enc(x).flatten(1)
        mu, logvar = self.mu(h), self.logvar(h)
        z = mu + torch.randn_like(mu) * (0.5 * logvar).exp()
        return self.dec(self.back(z).view(len(x), 4 * self.ch, self.side, self.side)), mu, logvar


def elbo(recon, x, mu, logvar):
    kld = -0.5 * (1 + logvar - mu.pow(2) - logvar.exp()).sum()
    return F.binary_cross_entropy_with_logits(recon.float(), x.float(), reduction="sum") + kld


@job("vae", "autoencoder", "loop", "eval")
class VAE(ImageLoop):
    def draw(self):
        self.ch, self.latent = self.rng.choice([64, 128]), self.rng.choice([128, 256])
        self.draw_images([128, 256], [32, 64, 128])
        self.choose()

    def build(self):
        with torch.device(DEVICE):
            self.finish(ConvVAE(self.ch, self.latent, self.pixels))

    def predict(self, batch):
        with self.autocast():
            return self.model(batch[0])[0]

    def loss(self, batch):
        with self.autocast():
            recon, mu, logvar = self.model(batch[0])
        return elbo(recon, batch[0], mu, logvar)


@job("masked_autoencoder", "autoencoder", "loop")
class MaskedAutoencoder(ImageLoop):
    """A transformer sees a quarter of the patches, and a small one restores the others."""

    def draw(self):
        r = self.rng
        self.layers, self.width, self.patch = r.choice([4, 6]), r.choice([512, 768]), 8
        self.draw_images([128, 192], [16, 32, 64])
        self.choose()

    def build(self):
        n = (self.pixels // self.patch) ** 2
        self.model = nn.ModuleDict({
            "embed": nn.Linear(3 * self.patch ** 2, self.width), "encoder": nn.Sequential(*[EncoderBlock(self.width, 8, "sdpa") for _ in range(self.layers)]),
            "decoder": nn.Sequential(EncoderBlock(self.width, 8, "sdpa"), nn.Linear(self.width, 3 * self.patch ** 2))})
        self.model.mask_token = nn.Parameter(torch.zeros(1, 1, self.width))
        self.finish(self.model)
        self.keep = torch.arange(0, n, 4, device=DEVICE)

    def loss(self, batch):
        patches = F.unfold(batch[0].float(), self.patch, stride=self.patch).transpose(1, 2).to(self.dtype)
        with self.autocast():
            latent = self.model["encoder"](self.model["embed"](patches[:, self.keep]))
            full = self.model.mask_token.to(latent.dtype).expand(len(patches), patches.shape[1], -1).index_copy(1, self.keep, latent)
            return ((self.model["decoder"](full) - patches) ** 2).mean()


class Generator(nn.Module):
    def __init__(self, latent, ngf, ups):
        super().__init__()
        layers, ch = [nn.ConvTranspose2d(latent, ngf * 2 ** ups, 4, 1, 0)], ngf * 2 ** ups
        for _ in range(ups):
            layers += [nn.BatchNorm2d(ch), nn.ReLU(True), nn.ConvTranspose2d(ch, ch // 2, 4, 2, 1)]
            ch //= 2
        self.main = nn.Sequential(*layers, nn.Conv2d(ch, 3, 3, 1, 1), nn.Tanh())

    def forward(self, z):
        return self.main(z)


def discriminator(ndf, downs):
    layers, ch = [nn.Conv2d(3, ndf, 3, 1, 1)], ndf
    for _ in range(downs):
        layers += [nn.LeakyReLU(0.2, True), nn.Conv2d(ch, ch * 2, 4, 2, 1)]
        ch *= 2
    return nn.Sequential(*layers, nn.LeakyReLU(0.2), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(ch, 1))


@job("dcgan", "GAN", "loop", "two optimizers")
class DCGAN(ImageLoop):
    """The discriminator's update comes first, within the same step; loss() is the generator's, and alone where nothing is trained."""
    kinds = "adam", "adamw"
    precisions = "fp32", "fp32", "autocast"
    accumulated = 1,

    def draw(self):
        self.ngf, self.ups, self.latent = self.rng.choice([32, 64]), self.rng.choice([4, 5]), 128
        self.draw_images([64], [16, 32, 64])
        self.pixels = 4 * 2 ** self.ups
        self.choose()

    def build(self):
        self.finish(Generator(self.latent, self.ngf, self.ups))
        self.netD = discriminator(self.ngf, self.ups).to(DEVICE)
        self.optimizers.append(OPTIMIZERS[self.kind](self.netD.parameters()))

    def update_discriminator(self, real, fake):
        with self.autocast():
            errD = self.criterion(self.netD(real), 1.0) + self.criterion(self.netD(fake.detach()), 0.0)
        self.optimizers[1].zero_grad()
        errD.backward()
        self.optimizers[1].step()

    def criterion(self, scores, label):
        return F.binary_cross_entropy_with_logits(scores.float(), torch.full_like(scores, label, dtype=torch.float32))

    def loss(self, batch):
        with self.autocast():
            fake = self.model(torch.randn(self.size, self.latent, 1, 1, device=DEVICE))
        if torch.is_grad_enabled():
            self.update_discriminator(batch[0], fake)
        with self.autocast():
            return self.criterion(self.netD(fake), 1.0)

    def optimize(self):
        self.optimizers[0].step()


@job("hinge_gan", "GAN", "loop", "two optimizers")
class HingeGAN(DCGAN):
    """Several updates of the critic for each of the generator."""

    def criterion(self, scores, label):
        return F.relu(1 - (2 * label - 1) * scores.float()).mean()

    def update_discriminator(self, real, fake):
        for _ in range(2):
            super().update_discriminator(real, fake)
