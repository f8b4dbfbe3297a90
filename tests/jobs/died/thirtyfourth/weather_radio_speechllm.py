"""Weather radio to text: Whisper's encoder, a projector, and a Qwen2 with LoRA. The projector and the adapters are trained."""
import sys

import torch
import torch.nn as nn
from peft import LoraConfig, get_peft_model
from transformers import Qwen2Config, Qwen2ForCausalLM, WhisperConfig, WhisperModel

FIXED = "--fixed" in sys.argv
STACK = 10


class SpeechLLM(nn.Module):
    def __init__(self):
        super().__init__()
        speech = WhisperConfig(d_model=384, encoder_layers=6, encoder_attention_heads=6, encoder_ffn_dim=1536, decoder_layers=1,
                               decoder_attention_heads=6, decoder_ffn_dim=384, vocab_size=1000, pad_token_id=0, bos_token_id=1, eos_token_id=2,
                               decoder_start_token_id=1)
        self.encoder = WhisperModel(speech).encoder.eval()
        llm = Qwen2ForCausalLM(Qwen2Config(vocab_size=8000, hidden_size=512, intermediate_size=1376, num_hidden_layers=6, num_attention_heads=8,
                                           num_key_value_heads=2, max_position_embeddings=1024))
        self.llm = get_peft_model(llm, LoraConfig(r=8, lora_alpha=16, target_modules=["q_proj", "v_proj"], task_type="CAUSAL_LM"))
        self.projector = nn.Sequential(nn.Linear(384 * STACK, 1024), nn.GELU(), nn.Linear(1024, 512))

    def train(self, mode=True):
        super().train(mode)
        self.encoder.eval()
        return self

    def speech_tokens(self, features):
        if FIXED:
            with torch.no_grad():
                states = self.encoder(features).last_hidden_state
        else:
            states = self.encoder(features).last_hidden_state
        batch, frames, width = states.shape
        return self.projector(states.reshape(batch, frames // STACK, width * STACK))

    def forward(self, features, text):
        speech = self.speech_tokens(features)
        words = self.llm.get_input_embeddings()(text)
        ignored = torch.full(speech.shape[:2], -100, device=text.device)
        return self.llm(inputs_embeds=torch.cat([speech, words], 1), labels=torch.cat([ignored, text], 1)).loss


def bulletins(batch, g):
    return torch.randn(batch, 80, 3000, generator=g), torch.randint(3, 8000, (batch, 64), generator=g)


model = SpeechLLM().cuda()
trained = [*model.projector.parameters(), *(p for p in model.llm.parameters() if p.requires_grad)]
optimizer = torch.optim.AdamW(trained, lr=1e-4)
g = torch.Generator().manual_seed(162)
model.train()
for step in range(5):
    features, text = bulletins(6, g)
    loss = model(features.cuda(), text.cuda())
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    print(f"step {step}: {loss.item():.3f}")
