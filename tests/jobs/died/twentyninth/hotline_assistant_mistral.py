"""Suggests replies to the agents of a hotline while a call goes on; each burst is eight calls with their transcripts so far."""
import sys
from dataclasses import dataclass, field

import torch
from transformers import DynamicCache, MistralConfig, MistralForCausalLM

LEAN = "--fixed" in sys.argv


@dataclass
class CallRecord:
    number: int
    suggestion: list = field(default_factory=list)
    state: object = None
    closed: bool = False


class SuggestionEngine:
    def __init__(self, transcript_tokens=960, reply_tokens=8):
        self.transcript_tokens, self.reply_tokens = transcript_tokens, reply_tokens
        config = MistralConfig(vocab_size=6000, hidden_size=768, intermediate_size=2048, num_hidden_layers=12, num_attention_heads=12,
                               num_key_value_heads=6, sliding_window=None)
        self.model = MistralForCausalLM(config).to("cuda", torch.bfloat16).eval()
        self.records = []

    @torch.inference_mode()
    def suggest(self, transcripts):
        record = CallRecord(number=len(self.records), state=DynamicCache(config=self.model.config))
        tokens = transcripts.to("cuda")
        for _ in range(self.reply_tokens):
            out = self.model(input_ids=tokens, past_key_values=record.state, use_cache=True, logits_to_keep=1)
            tokens = out.logits.argmax(-1).clamp(0, 5999)
            record.suggestion.append(tokens.flatten().tolist())
        return self.close(record)

    def close(self, record):
        record.closed = True
        if LEAN:
            record.state = None
        self.records.append(record)
        return record


def bursts(count, calls, length):
    g = torch.Generator().manual_seed(3)
    for _ in range(count):
        yield torch.randint(3, 6000, (calls, length), generator=g)


def main():
    engine = SuggestionEngine()
    for transcripts in bursts(14, 8, engine.transcript_tokens):
        record = engine.suggest(transcripts)
        print("burst", record.number, "tokens suggested", sum(len(t) for t in record.suggestion), "closed", record.closed)


main()
