"""Recognises emergency calls with a Wav2Vec2 encoder and CTC; the attention weights were once looked at in a notebook, and the config stayed.
"""
import sys
from dataclasses import dataclass

import torch
from transformers import Wav2Vec2Config, Wav2Vec2ForCTC


@dataclass
class Settings:
    seconds: int = 30
    rate: int = 16000
    batch: int = 4
    steps: int = 4
    letters: int = 32
    attention: str = "sdpa" if "--fixed" in sys.argv else "eager"


class Calls(torch.utils.data.IterableDataset):
    def __init__(self, settings):
        self.settings = settings

    def __iter__(self):
        s = self.settings
        for _ in range(s.steps * s.batch):
            yield torch.rand(s.seconds * s.rate) - 0.5, torch.randint(1, s.letters, (120,))


def build(s):
    config = Wav2Vec2Config(
        vocab_size=s.letters, hidden_size=384, num_hidden_layers=8, num_attention_heads=12, intermediate_size=1024,
        conv_dim=(128,) * 7, feat_extract_norm="layer", do_stable_layer_norm=True, num_conv_pos_embeddings=64,
        num_conv_pos_embedding_groups=16, apply_spec_augment=False, layerdrop=0.0, ctc_loss_reduction="mean", pad_token_id=0)
    config._attn_implementation = s.attention
    model = Wav2Vec2ForCTC(config)
    model.freeze_feature_encoder()
    return model.cuda()


class Run:
    def __init__(self, settings):
        self.settings = settings
        self.model = build(settings)
        trained = [p for p in self.model.parameters() if p.requires_grad]
        self.optimizer = torch.optim.AdamW(trained, lr=1e-4, betas=(0.9, 0.98))
        self.loader = torch.utils.data.DataLoader(Calls(settings), batch_size=settings.batch)

    def step(self, audio, text):
        with torch.autocast("cuda", dtype=torch.bfloat16):
            hidden = self.model.wav2vec2(audio.cuda()).last_hidden_state
            logits = self.model.lm_head(self.model.dropout(hidden))
        # the language of the call is trained first, from the mean over time
        logp = logits.float().log_softmax(-1)
        target = torch.nn.functional.one_hot(text[:, 0].cuda(), self.settings.letters).float()
        loss = -(logp.mean(1) * target).sum(-1).mean()
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 5.0)
        self.optimizer.step()
        return loss.item()

    def fit(self):
        self.model.train()
        for n, (audio, text) in enumerate(self.loader):
            print(n, audio.shape[1] / self.settings.rate, "s", self.step(audio, text))


Run(Settings()).fit()
