"""Programs without training: forward passes, generation, embeddings of a corpus."""
import torch
import transformers
from transformers import AutoModel, AutoModelForCausalLM, AutoModelForImageClassification

from core import DEVICE, Job, job


class Inference(Job):
    traits = {"inference", "steps"}

    def draw(self):
        r = self.rng
        self.layers, self.width, self.attention = r.choice([2, 4, 6]), r.choice([512, 768, 1024]), "sdpa"
        self.dtype, self.steps = r.choice([torch.float32, torch.bfloat16, torch.bfloat16]), r.choice([4, 6, 8])
        self.length, self.size = r.choice([256, 512]), r.choice([8, 16, 32])
        self.vocabulary, self.results = r.choice([8192, 32000]), []

    def load(self, auto, config):
        with torch.device(DEVICE):
            self.model = auto.from_config(config, dtype=self.dtype, attn_implementation=self.attention).eval()

    def batch(self, i):
        return torch.zeros(self.size, self.length, dtype=torch.long, device=DEVICE)

    def take(self, i, outputs):
        self.results.append(outputs.mean(dim=0).cpu())

    def step(self, i):
        batch = self.batch(i)
        with self.no_grad():
            outputs = self.predict(batch)
        self.take(i, outputs)


@job("scoring", "inference", "tokens", "decoder", "layers", "attention")
class Scoring(Inference):
    """The logits of a language model, for the likelihood of texts."""

    def build(self):
        self.load(AutoModelForCausalLM, transformers.LlamaConfig(
            vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers, num_attention_heads=8,
            num_key_value_heads=2, max_position_embeddings=self.length))

    def predict(self, input_ids):
        return self.model(input_ids=input_ids, use_cache=False).logits

    def take(self, i, outputs):
        self.results.append(outputs.logsumexp(-1).mean().item())


@job("embeddings", "inference", "tokens", "layers", "attention")
class Embeddings(Inference):
    """A vector for each text of a corpus."""

    def draw(self):
        super().draw()
        self.size *= 4

    def build(self):
        self.load(AutoModel, transformers.BertConfig(hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers,
                                                     num_attention_heads=8, vocab_size=self.vocabulary, max_position_embeddings=self.length))

    def predict(self, input_ids):
        mask = torch.ones_like(input_ids)
        hidden = self.model(input_ids=input_ids, attention_mask=mask).last_hidden_state
        return (hidden * mask[..., None]).sum(1) / mask.sum(1, keepdim=True)

    def take(self, i, outputs):
        self.results.append(outputs.cpu())


@job("image_inference", "inference", "images", "layers", "attention")
class ImageInference(Inference):
    def draw(self):
        super().draw()
        self.pixels, self.size = self.rng.choice([224, 384]), self.rng.choice([32, 64, 128])

    def build(self):
        self.load(AutoModelForImageClassification, transformers.ViTConfig(
            hidden_size=self.width, intermediate_size=4 * self.width, num_hidden_layers=self.layers, num_attention_heads=8, image_size=self.pixels))

    def batch(self, i):
        return torch.zeros(self.size, 3, self.pixels, self.pixels, dtype=self.dtype, device=DEVICE)

    def predict(self, images):
        return self.model(pixel_values=images).logits.softmax(-1)


class Generation(Inference):
    """Some prompts after each other, with transformers' generate(). A token costs host time only: layers are few, and batches large."""
    traits = {"generate", "decoder", "attention"}

    def draw(self):
        super().draw()
        r = self.rng
        self.layers, self.steps = r.choice([2, 3]), 1
        self.prompt, self.new_tokens, self.size = r.choice([128, 512, 1024]), r.choice([12, 16, 24]), r.choice([16, 32, 64])
        self.heads, self.kv_heads = 8, r.choice([2, 4, 8])
        self.generate_arguments = {"do_sample": False}

    def batch(self, i):
        return torch.zeros(self.size, self.prompt, dtype=torch.long, device=DEVICE)

    def predict(self, input_ids):
        return self.model.generate(input_ids, attention_mask=torch.ones_like(input_ids), max_new_tokens=self.new_tokens, min_new_tokens=self.new_tokens,
                                   pad_token_id=0, **self.generate_arguments)

    def take(self, i, outputs):
        self.results.append(outputs[:, self.prompt:].cpu())

    def shape(self):
        return {"vocab_size": self.vocabulary, "hidden_size": self.width, "intermediate_size": 3 * self.width, "num_hidden_layers": self.layers,
                "num_attention_heads": self.heads, "num_key_value_heads": self.kv_heads, "max_position_embeddings": 8192,
                "bos_token_id": 1, "eos_token_id": 2}


@job("generate_llama", "generation")
class GenerateLlama(Generation):
    def build(self):
        self.load(AutoModelForCausalLM, transformers.LlamaConfig(**self.shape()))


@job("generate_qwen", "generation")
class GenerateQwen(Generation):
    """Samples, instead of the best token."""

    def build(self):
        self.load(AutoModelForCausalLM, transformers.Qwen3Config(head_dim=64, **self.shape()))


@job("decode_by_hand", "generation")
class DecodeByHand(Generation):
    """A loop over tokens that passes past_key_values on."""

    def build(self):
        self.load(AutoModelForCausalLM, transformers.GPT2Config(n_layer=self.layers, n_embd=self.width, n_head=8, vocab_size=self.vocabulary, n_positions=8192))

    def predict(self, input_ids):
        out, tokens = self.model(input_ids=input_ids, use_cache=True, logits_to_keep=1), [input_ids]
        for _ in range(self.new_tokens):
            tokens.append(out.logits[:, -1:].argmax(-1))
            out = self.model(input_ids=tokens[-1], past_key_values=out.past_key_values, use_cache=True)
        return torch.cat(tokens, dim=1)
