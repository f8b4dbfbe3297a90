"""Models of transformers, in loops by hand."""
import torch
import transformers
from transformers import AutoModelForCausalLM, AutoModelForMaskedLM, AutoModelForSeq2SeqLM, AutoModelForSequenceClassification

from core import DEVICE, job
from parts import TextLoop

transformers.logging.set_verbosity_error()


class FromConfig(TextLoop):
    """A model that its configuration alone makes."""
    auto = AutoModelForCausalLM
    traits = {"layers", "attention", "checkpointing"}

    def choose(self):
        super().choose()
        self.attention, self.checkpointing = "sdpa", self.rng.random() < 0.25

    def config(self):
        raise NotImplementedError

    def build(self):
        with torch.device(DEVICE):
            model = self.auto.from_config(self.config(), attn_implementation=self.attention, dtype=self.dtype)
        model.config.use_cache = False
        if self.checkpointing:
            model.gradient_checkpointing_enable()
        model.train()
        self.finish(model)

    def predict(self, batch):
        with self.autocast():
            return self.model(input_ids=batch).logits

    def loss(self, batch):
        with self.autocast():
            return self.model(input_ids=batch, labels=batch).loss


class CausalLM(FromConfig):
    traits = {"decoder", "eval"}

    def draw(self):
        r = self.rng
        self.layers, self.width, self.heads = r.choice([2, 3, 4, 6]), r.choice([512, 768, 1024, 1536]), 8
        self.vocabulary, self.length, self.size = r.choice(self.vocabularies), r.choice([256, 512, 1024]), r.choice([2, 4, 8])
        self.choose()

    vocabularies = 8192, 16000, 32000

    def shape(self):
        return {"vocab_size": self.vocabulary, "hidden_size": self.width, "num_hidden_layers": self.layers, "num_attention_heads": self.heads,
                "max_position_embeddings": self.length}


@job("gpt2", "decoder of transformers", "loop")
class GPT2(CausalLM):
    vocabularies = 16000, 32000, 50257

    def config(self):
        return transformers.GPT2Config(n_layer=self.layers, n_embd=self.width, n_head=self.heads, vocab_size=self.vocabulary, n_positions=self.length)


@job("llama", "decoder of transformers", "loop")
class Llama(CausalLM):
    def config(self):
        return transformers.LlamaConfig(num_key_value_heads=2, intermediate_size=self.width * 3, **self.shape())


@job("qwen3", "decoder of transformers", "loop")
class Qwen3(CausalLM):
    vocabularies = 32000, 64000, 151936

    def config(self):
        return transformers.Qwen3Config(num_key_value_heads=4, head_dim=self.width // 8, intermediate_size=self.width * 3, tie_word_embeddings=True,
                                        **self.shape())

    def loss(self, batch):
        """The labels of another tensor, as a collator makes them."""
        labels = batch.masked_fill(batch == 0, -100)
        with self.autocast():
            outputs = self.model(input_ids=batch, attention_mask=torch.ones_like(batch), labels=labels)
        return outputs.loss


@job("mistral", "decoder of transformers", "loop")
class Mistral(CausalLM):
    def config(self):
        return transformers.MistralConfig(num_key_value_heads=4, intermediate_size=self.width * 2, sliding_window=None, **self.shape())


@job("gemma", "decoder of transformers", "loop")
class Gemma(CausalLM):
    vocabularies = 32000, 64000, 128000

    def config(self):
        return transformers.GemmaConfig(num_key_value_heads=1, head_dim=self.width // 8, intermediate_size=self.width * 4, **self.shape())


class Bert(FromConfig):
    def draw(self):
        r = self.rng
        self.layers, self.width, self.heads = r.choice([3, 4, 6]), r.choice([512, 768, 1024]), 8
        self.vocabulary, self.length, self.size = 30522, r.choice([128, 256, 512]), r.choice([8, 16, 32])
        self.choose()

    def config(self):
        return transformers.BertConfig(hidden_size=self.width, num_hidden_layers=self.layers, num_attention_heads=self.heads,
                                       intermediate_size=4 * self.width, vocab_size=self.vocabulary, max_position_embeddings=self.length, num_labels=5)


@job("bert_masked", "encoder", "loop", "eval")
class BertMasked(Bert):
    """Masked language modelling, with 15 % of the tokens masked on the device."""
    auto = AutoModelForMaskedLM

    def loss(self, batch):
        masked = torch.zeros_like(batch, dtype=torch.bool)
        masked[:, ::7] = True
        labels = batch.masked_fill(~masked, -100)
        with self.autocast():
            return self.model(input_ids=batch.masked_fill(masked, 103), labels=labels).loss


@job("bert_classifier", "encoder", "loop", "eval", "pretrained")
class BertClassifier(Bert):
    """A head on an encoder, of which the embeddings and all layers but the last are frozen."""
    auto = AutoModelForSequenceClassification
    kinds = "adamw", "adamw_fused", "adamw_loop", "adam", "sgd_momentum"

    def make_dataset(self):
        return *super().make_dataset(), torch.zeros(self.rows, dtype=torch.long)

    def freeze(self):
        for p in [*self.model.bert.embeddings.parameters(), *self.model.bert.encoder.layer[:-1].parameters()]:
            p.requires_grad_(False)

    def finish(self, model):
        self.model = model
        self.freeze()
        trained = [*model.bert.encoder.layer[-1].parameters(), *model.bert.pooler.parameters(), *model.classifier.parameters()]
        super().finish(model)
        self.optimizers = [self.optimizer(trained)]

    def predict(self, batch):
        with self.autocast():
            return self.model(input_ids=batch[0]).logits

    def loss(self, batch):
        tokens, labels = batch
        with self.autocast():
            return self.model(input_ids=tokens, labels=labels).loss


class Seq2Seq(FromConfig):
    auto = AutoModelForSeq2SeqLM

    def draw(self):
        r = self.rng
        self.layers, self.width, self.heads = r.choice([2, 3, 4]), r.choice([512, 768, 1024]), 8
        self.vocabulary, self.length, self.size = 32128, r.choice([256, 512]), r.choice([4, 8, 16])
        self.target_length = r.choice([64, 128])
        self.choose()

    def predict(self, batch):
        with self.autocast():
            return self.model(input_ids=batch, decoder_input_ids=batch[:, :self.target_length]).logits

    def loss(self, batch):
        with self.autocast():
            return self.model(input_ids=batch, labels=batch[:, :self.target_length].contiguous()).loss


@job("t5", "encoder-decoder", "loop", "eval")
class T5(Seq2Seq):
    def config(self):
        return transformers.T5Config(d_model=self.width, d_kv=self.width // 8, d_ff=self.width * 4, num_layers=self.layers, num_heads=self.heads,
                                     vocab_size=self.vocabulary, decoder_start_token_id=0)


@job("bart", "encoder-decoder", "loop", "eval")
class Bart(Seq2Seq):
    def config(self):
        return transformers.BartConfig(d_model=self.width, encoder_layers=self.layers, decoder_layers=self.layers, encoder_attention_heads=self.heads,
                                       decoder_attention_heads=self.heads, encoder_ffn_dim=4 * self.width, decoder_ffn_dim=4 * self.width,
                                       vocab_size=self.vocabulary, max_position_embeddings=self.length)
