"""Advertising: drafts ad copy with OPT and returns a confidence for each draft, so that weak ones go to a human."""
import sys
from dataclasses import dataclass

import torch
from transformers import GenerationConfig, OPTConfig, OPTForCausalLM


@dataclass
class ServiceConfig:
    vocab: int = 32000
    batch: int = 48
    brief_tokens: int = 32
    copy_tokens: int = 160
    score_chunk: int = 4


class CopyWriter:
    def __init__(self, cfg):
        self.cfg = cfg
        config = OPTConfig(vocab_size=cfg.vocab, hidden_size=256, ffn_dim=1024, num_hidden_layers=4, num_attention_heads=4,
                           max_position_embeddings=512, word_embed_proj_dim=256, pad_token_id=1, eos_token_id=None, bos_token_id=2)
        self.model = OPTForCausalLM(config).cuda().eval()
        self.generation = GenerationConfig(max_new_tokens=cfg.copy_tokens, do_sample=True, temperature=0.9, pad_token_id=1, eos_token_id=None)

    def confidence(self, result, start):
        """Mean log probability of the chosen tokens."""
        tokens = result.sequences[:, start:]
        picked = [torch.log_softmax(s.float(), -1).gather(1, t[:, None]) for s, t in zip(result.scores, tokens.unbind(1))]
        return torch.cat(picked, 1).mean(1)

    def confidence_by_scoring(self, sequences, start):
        parts = []
        for rows in sequences.split(self.cfg.score_chunk):
            logits = self.model(rows).logits[:, start - 1:-1]
            nll = torch.nn.functional.cross_entropy(logits.transpose(1, 2), rows[:, start:], reduction="none")
            parts.append(-nll.mean(1))
        return torch.cat(parts)

    @torch.inference_mode()
    def write(self, briefs):
        ids = briefs.cuda()
        mask = torch.ones_like(ids)
        if "--fixed" in sys.argv:
            seq = self.model.generate(ids, attention_mask=mask, generation_config=self.generation)
            return seq.cpu(), self.confidence_by_scoring(seq, ids.shape[1]).cpu()
        result = self.model.generate(ids, attention_mask=mask, generation_config=self.generation,
                                     return_dict_in_generate=True, output_scores=True)
        return result.sequences.cpu(), self.confidence(result, ids.shape[1]).cpu()


def main():
    cfg = ServiceConfig()
    writer = CopyWriter(cfg)
    gen = torch.Generator().manual_seed(9)
    for job in range(2):
        seq, conf = writer.write(torch.randint(3, cfg.vocab, (cfg.batch, cfg.brief_tokens), generator=gen))
        print("job", job, "drafts", tuple(seq.shape), "confidences", tuple(conf.shape))


main()
