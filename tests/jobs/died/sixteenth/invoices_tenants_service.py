"""Field tagger for invoices as a service. Each tenant has a fine-tuned LayoutLM of its own, loaded when the first request of the tenant comes."""
import collections
import logging
import sys

import torch
from transformers import LayoutLMConfig, LayoutLMForTokenClassification

logging.basicConfig(level=logging.INFO, format="%(levelname)s %(message)s")
log = logging.getLogger("invoices")
Request = collections.namedtuple("Request", "tenant ids boxes")


class ModelRegistry:
    def __init__(self, device="cuda", limit=None):
        self.device, self.limit = device, limit
        self.models = collections.OrderedDict()

    def _load(self, tenant):
        torch.manual_seed(hash(tenant) % 2 ** 31)  # stands for from_pretrained(BUCKET / tenant)
        with torch.device(self.device):
            model = LayoutLMForTokenClassification(LayoutLMConfig(
                vocab_size=12000, hidden_size=512, num_hidden_layers=6, num_attention_heads=8, intermediate_size=2048, num_labels=17))
        log.info("loaded the model of %s", tenant)
        return model.eval()

    def get(self, tenant):
        if tenant not in self.models:
            while self.limit and len(self.models) >= self.limit:
                self.models.popitem(last=False)
            self.models[tenant] = self._load(tenant)
        self.models.move_to_end(tenant)
        return self.models[tenant]


class Service:
    def __init__(self):
        self.registry = ModelRegistry(limit=3 if "--fixed" in sys.argv else None)

    @torch.inference_mode()
    def handle(self, request):
        model = self.registry.get(request.tenant)
        logits = model(input_ids=request.ids.cuda(), bbox=request.boxes.cuda()).logits
        return logits.argmax(-1).cpu().tolist()


def traffic(requests=90, tenants=20):
    g = torch.Generator().manual_seed(31)
    for i in range(requests):
        tenant = "tenant-%02d" % int(torch.randint(0, min(tenants, 2 + i // 4), (1,), generator=g))
        corner = torch.randint(0, 500, (2, 256, 2), generator=g)
        yield Request(tenant, torch.randint(5, 12000, (2, 256), generator=g), torch.cat([corner, corner + 200], -1))


if __name__ == "__main__":
    service = Service()
    for number, request in enumerate(traffic()):
        tags = service.handle(request)
        if number % 15 == 0:
            log.info("request %d: %d pages, %d models", number, len(tags), len(service.registry.models))
