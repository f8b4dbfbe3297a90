"""Search over loan agreements of museums. Token vectors of a document are computed when it is first asked for, then reused (late interaction)."""
import hashlib
import sys
from typing import Dict, List

import torch
from transformers import BertConfig, BertModel


class Encoder:
    def __init__(self, device: str = "cuda"):
        config = BertConfig(vocab_size=10000, hidden_size=384, num_hidden_layers=4, num_attention_heads=6, intermediate_size=1536)
        self.model = BertModel(config, add_pooling_layer=False).to(device).eval()
        self.device = device

    @torch.inference_mode()
    def __call__(self, ids: torch.Tensor) -> torch.Tensor:
        return torch.nn.functional.normalize(self.model(input_ids=ids.to(self.device)).last_hidden_state, dim=-1)


class DocumentStore:
    def __init__(self, encoder: Encoder, home: str):
        self.encoder, self.home = encoder, home
        self._vectors: Dict[str, torch.Tensor] = {}

    @staticmethod
    def key(ids: torch.Tensor) -> str:
        return hashlib.sha1(ids.numpy().tobytes()).hexdigest()

    def vectors(self, documents: List[torch.Tensor]) -> List[torch.Tensor]:
        keys = [self.key(d) for d in documents]
        missing = [i for i, k in enumerate(keys) if k not in self._vectors]
        if missing:
            encoded = self.encoder(torch.stack([documents[i] for i in missing]))
            for i, one in zip(missing, encoded):
                self._vectors[keys[i]] = one.to(self.home)
        return [self._vectors[k].to(self.encoder.device) for k in keys]


class SearchService:
    def __init__(self, home: str):
        self.encoder = Encoder()
        self.store = DocumentStore(self.encoder, home)

    def rank(self, question: torch.Tensor, candidates: List[torch.Tensor]) -> List[float]:
        q = self.encoder(question)[0]
        return [(q @ d.T).amax(1).sum().item() for d in self.store.vectors(candidates)]


def requests(count: int, per_request: int = 16):
    """A first stage (BM25) proposes candidates; questions of a day rarely propose the same documents."""
    generator = torch.Generator().manual_seed(77)
    for _ in range(count):
        yield (torch.randint(5, 10000, (1, 24), generator=generator),
               list(torch.randint(5, 10000, (per_request, 400), generator=generator)))


if __name__ == "__main__":
    service = SearchService(home="cpu" if "--fixed" in sys.argv else "cuda")
    for number, (question, candidates) in enumerate(requests(130)):
        scores = service.rank(question, candidates)
        if number % 26 == 0:
            print("request", number, "candidates", len(scores), "stored documents", len(service.store._vectors))
