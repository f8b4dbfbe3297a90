"""transformers' ViT by formula (analyzer/families/plain_vit.c). The numbers are PyTorch's own counters, as in test_estimate_plain.py."""
import test_estimate_plain as plain

from harness import Case

VIT = {"model_type": "vit", "architectures": ["ViTForImageClassification"], "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8,
       "intermediate_size": 2048, "image_size": 224, "patch_size": 16, "num_channels": 3}
DROPS = {**VIT, "hidden_dropout_prob": 0.1, "attention_probs_dropout_prob": 0.1}
ONE_CHANNEL = {**VIT, "num_channels": 1, "image_size": 64, "patch_size": 8, "hidden_act": "relu"}
WIDE = {**VIT, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072, "num_hidden_layers": 4, "image_size": 384, "num_labels": 10}
BASE = {**VIT, "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072,
        "id2label": {str(i): "c%d" % i for i in range(1000)}}
LARGE = {**BASE, "num_hidden_layers": 24, "hidden_size": 1024, "num_attention_heads": 16, "intermediate_size": 4096}
JOB = {"precision": "bf16-autocast", "micro_batch_size": 16, "torch_version": "2.15"}
EAGER, TWO, FULL = {**JOB, "attention": "eager"}, {**JOB, "data_parallel_size": 2}, plain.FULL
# model, job, parameters, bytes after a step, peak
EXACT = [
    (VIT, {**JOB, "precision": "bf16"}, 6801922, 50468352, 211523072),
    (VIT, EAGER, 6801922, 92908544, 362130432),
    (VIT, {**EAGER, "precision": "bf16"}, 6801922, 50812416, 272657920),
    (VIT, {**JOB, **FULL}, 6801922, 92328448, 243643392),
    (VIT, {**JOB, **FULL, "precision": "bf16"}, 6801922, 50812416, 167490560),
    (VIT, {**JOB, "micro_batch_size": 1}, 6801922, 83296768, 145414144),
    (VIT, {**EAGER, "micro_batch_size": 1}, 6801922, 83103232, 147127808),
    (VIT, {**JOB, "precision": "bf16", "micro_batch_size": 1}, 6801922, 41436672, 89116160),
    (DROPS, EAGER, 6801922, 92852736, 377859584),
    (DROPS, {**JOB, **FULL}, 6801922, 91673088, 244724736),
    (ONE_CHANNEL, {**JOB, "micro_batch_size": 128}, 6373890, 78738432, 531950080),
    (ONE_CHANNEL, {**JOB, "precision": "fp32"}, 6373890, 76771840, 176500224),
    (VIT, {**JOB, "optimizer": "sgd", "momentum": 0.9}, 6801922, 65099776, 273295360),
    (VIT, {**JOB, "precision": "fp16-mixed", "micro_batch_size": 5}, 6801922, 86070784, 185823232),
    (VIT, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 2}, 6801922, 64617984, 1225735168),
    (DROPS, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 1}, 6801922, 64617984, 1236490240),
]
# the same allocations and frees, without cuDNN's workspaces; the addresses of segments decide which free block, up to 1 MiB larger, the allocator takes
CLOSE = [
    (VIT, {**EAGER, "precision": "fp32"}, 6801922, 93344256, 410564608),
    (VIT, {**EAGER, **FULL}, 6801922, 92164608, 272036352),
    (DROPS, JOB, 6801922, 91279872, 306389504),
    (DROPS, {**JOB, "precision": "fp32"}, 6801922, 92983808, 383829504),
    (WIDE, JOB, 29395210, 389931520, 1788198400),
    (VIT, {**JOB, "micro_batch_size": 8, "num_microbatches": 3, "clip_grad": 1.0}, 6801922, 88363520, 245302272),
    (DROPS, {**JOB, "keep_logits": True}, 6801922, 91280384, 306390016),
    (BASE, {**JOB, "micro_batch_size": 64}, 86567656, 1077450752, 6170356224),
    (BASE, {**JOB, "precision": "fp32", "micro_batch_size": 32}, 86567656, 1058674688, 4935565312),
    (LARGE, {**JOB, "precision": "bf16", "micro_batch_size": 64}, 304326632, 1867547648, 12070160384),
    (LARGE, {**JOB, **FULL, "micro_batch_size": 32}, 304326632, 3674600448, 5278372352),
]
REFUSED = [
    (VIT, {**JOB, "seq_length": 512}, "seq_length"),
    ({**VIT, "image_size": [224, 112]}, JOB, "image_size"),
    ({**VIT, "num_labels": 1}, JOB, "num_labels"),
    ({**VIT, "problem_type": "multi_label_classification"}, JOB, "problem_type"),
    ({**VIT, "hidden_act": "mish"}, JOB, "hidden_act"),
    ({**VIT, "architectures": ["ViTForMaskedImageModeling"]}, JOB, "ViTForMaskedImageModeling"),
    ({**VIT, "architectures": ["ViTModel"]}, JOB, "ViTModel"),
    (VIT, {**JOB, "tensor_model_parallel_size": 2}, "tensor_model_parallel_size"),
]


class Images(plain.RealModels, Case):
    EXACT, CLOSE, REFUSED = EXACT, CLOSE, REFUSED
