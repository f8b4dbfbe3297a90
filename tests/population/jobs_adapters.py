"""Adapters on a frozen base, with PEFT."""
import torch
import transformers
from peft import LoraConfig, get_peft_model
from transformers import AutoModelForCausalLM, AutoModelForSequenceClassification

from core import DEVICE, job
from parts import TextLoop


class Adapted(TextLoop):
    traits = {"peft", "pretrained", "layers", "attention", "checkpointing", "eval"}
    kinds = "adamw", "adamw_fused", "adamw_loop", "adam"
    precisions = "fp32", "autocast", "bf16", "bf16"

    def draw(self):
        r = self.rng
        self.layers, self.width, self.heads = r.choice([3, 4, 6, 8]), r.choice([768, 1024, 1536]), 8
        self.vocabulary, self.length, self.size = r.choice([16000, 32000]), r.choice([256, 512, 1024]), r.choice([2, 4, 8])
        self.attention, self.checkpointing = "sdpa", r.random() < 0.3
        self.lora = {"r": r.choice([8, 16, 64]), "lora_alpha": 16, "lora_dropout": r.choice([0.0, 0.05]),
                     "target_modules": r.choice([["q_proj", "v_proj"], ["q_proj", "k_proj", "v_proj", "o_proj"], "all-linear"])}
        self.choose()

    def config(self):
        return transformers.LlamaConfig(vocab_size=self.vocabulary, hidden_size=self.width, intermediate_size=3 * self.width, num_hidden_layers=self.layers,
                                        num_attention_heads=self.heads, num_key_value_heads=4, max_position_embeddings=self.length)

    def base(self):
        with torch.device(DEVICE):
            return AutoModelForCausalLM.from_config(self.config(), attn_implementation=self.attention, dtype=self.dtype)

    def freeze(self):
        """PEFT has frozen the base already; this says so once more, as scripts do."""
        for name, parameter in self.model.named_parameters():
            parameter.requires_grad = "lora_" in name or "score" in name

    def build(self):
        base = self.base()
        base.config.use_cache = False
        if self.checkpointing:
            base.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
            base.enable_input_require_grads()
        self.model = get_peft_model(base, LoraConfig(**self.lora))
        for parameter in self.model.parameters():
            parameter.requires_grad = parameter.is_floating_point()
        self.freeze()
        self.finish(self.model)

    def predict(self, batch):
        with self.autocast():
            return self.model(input_ids=batch).logits

    def loss(self, batch):
        with self.autocast():
            return self.model(input_ids=batch, labels=batch).loss


@job("lora", "adapters", "loop", "decoder")
class Lora(Adapted):
    def draw(self):
        super().draw()
        self.lora["task_type"] = "CAUSAL_LM"


@job("dora", "adapters", "loop", "decoder")
class Dora(Lora):
    """Low-rank directions, and a magnitude for each row."""

    def draw(self):
        super().draw()
        self.lora.update(use_dora=True)


@job("lora_classifier", "adapters", "loop")
class LoraClassifier(Adapted):
    def draw(self):
        super().draw()
        self.lora["task_type"] = "SEQ_CLS"

    def base(self):
        config = self.config()
        config.pad_token_id, config.num_labels = 0, 3
        with torch.device(DEVICE):
            return AutoModelForSequenceClassification.from_config(config, attn_implementation=self.attention, dtype=self.dtype)

    def loss(self, batch):
        with self.autocast():
            return self.model(input_ids=batch, labels=torch.zeros(len(batch), dtype=torch.long, device=DEVICE)).loss
