"""transformers' T5 by formula (analyzer/families/plain_t5.c). The numbers are PyTorch's own counters, as in test_estimate_plain.py."""
import test_estimate_plain as plain

from harness import Case

T5 = {"model_type": "t5", "architectures": ["T5ForConditionalGeneration"], "num_layers": 2, "d_model": 512, "num_heads": 8, "d_kv": 64, "d_ff": 2048,
      "vocab_size": 6144}
V11 = {**T5, "feed_forward_proj": "gated-gelu", "tie_word_embeddings": False, "d_ff": 1024, "num_heads": 6, "num_layers": 3}
STILL = {**T5, "dropout_rate": 0}
DEEP = {**T5, "num_decoder_layers": 4, "d_model": 640, "num_heads": 10}
GELU = {**T5, "feed_forward_proj": "gelu"}
GRELU = {**T5, "feed_forward_proj": "gated-relu"}
SMALL = {**T5, "num_layers": 6, "vocab_size": 32128}
FLANS = {**V11, "num_layers": 8, "vocab_size": 32128}
BASE = {**T5, "num_layers": 12, "d_model": 768, "num_heads": 12, "d_ff": 3072, "vocab_size": 32128}
MT5 = {"model_type": "mt5", "architectures": ["MT5ForConditionalGeneration"], "num_layers": 3, "d_model": 512, "num_heads": 6, "d_kv": 64, "d_ff": 1024,
       "vocab_size": 25112}
JOB, EAGER, FULL, TWO = plain.JOB, plain.EAGER, plain.FULL, plain.TWO
# model, job, parameters, bytes after a step, peak
EXACT = [
    (T5, JOB, 17832448, 214029312, 693345280),
    (T5, {**JOB, "precision": "bf16"}, 17832448, 107165696, 482409984),
    (T5, {**JOB, "precision": "fp32"}, 17832448, 215077888, 827562496),
    (T5, EAGER, 17832448, 214029312, 1075608576),
    (T5, {**EAGER, "precision": "fp32"}, 17832448, 214029312, 1294825984),
    (T5, {**JOB, **FULL}, 17832448, 214291456, 487705088),
    (T5, {**EAGER, **FULL}, 17832448, 214029312, 664250880),
    (T5, {**EAGER, **FULL, "precision": "fp32"}, 17832448, 214946816, 686860800),
    (T5, {**JOB, "micro_batch_size": 1}, 17832448, 214543360, 438868480),
    (T5, {**EAGER, "micro_batch_size": 1}, 17832448, 214019072, 565194240),
    (T5, {**JOB, "micro_batch_size": 8, "seq_length": 128}, 17832448, 214022144, 463346688),
    (T5, {**JOB, "micro_batch_size": 8, "seq_length": 512}, 17832448, 214046720, 1123654656),
    (T5, {**JOB, "micro_batch_size": 2, "seq_length": 500, "decoder_seq_length": 77}, 17832448, 214023680, 387194368),
    (T5, {**JOB, "micro_batch_size": 4, "seq_length": 512, "decoder_seq_length": 128}, 17832448, 214034432, 488657408),
    (T5, {**EAGER, "micro_batch_size": 4, "seq_length": 128, "decoder_seq_length": 512}, 17832448, 214034432, 724382720),
    (T5, {**JOB, **FULL, "micro_batch_size": 4, "seq_length": 512, "decoder_seq_length": 100}, 17832448, 214951424, 425229312),
    (STILL, JOB, 17832448, 214553600, 669496320),
    (STILL, {**JOB, "gpu": "A100"}, 17832448, 214029312, 669627392),
    (T5, {**JOB, "gpu": "A100"}, 17832448, 214029312, 695704576),
    (V11, {**JOB, "precision": "bf16"}, 19669888, 118073856, 656472576),
    (V11, EAGER, 19669888, 236093952, 1437876224),
    (V11, {**JOB, **FULL}, 19669888, 240058880, 529438720),
    (V11, {**JOB, "precision": "fp32"}, 19669888, 236880384, 1130942976),
    (V11, {**JOB, "micro_batch_size": 5, "seq_length": 512, "decoder_seq_length": 114}, 19669888, 238606336, 788892160),
    (DEEP, JOB, 36056960, 444813312, 1227891712),
    (GELU, JOB, 17832448, 214029312, 693869568),
    (GRELU, JOB, 22026752, 264363008, 792568832),
    (T5, {**JOB, "micro_batch_size": 1, "seq_length": 128, "optimizer_implementation": "foreach"}, 17832448, 213990912, 356650496),
    (T5, {**JOB, "optimizer": "sgd", "momentum": 0.9}, 17832448, 142675456, 621729280),
    (T5, {**JOB, "micro_batch_size": 8, "seq_length": 300, "num_microbatches": 3, "clip_grad": 1.0}, 17832448, 215475200, 843715072),
    (T5, {**JOB, "precision": "fp16-mixed", "micro_batch_size": 5, "seq_length": 257}, 17832448, 214601216, 535349760),
    (T5, TWO, 17832448, 286014464, 763622400),
    (V11, TWO, 19669888, 314774016, 1079882752),
    (T5, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 2}, 17832448, 142676480, 1486916096),
    (SMALL, {**JOB, "micro_batch_size": 8, "seq_length": 512, "decoder_seq_length": 128}, 60506624, 726188032, 2233259008),
    (FLANS, {**JOB, "precision": "bf16", "micro_batch_size": 8, "seq_length": 512, "decoder_seq_length": 128}, 60511616, 365174784, 1963463168),
    (BASE, {**JOB, **FULL, "precision": "fp32", "micro_batch_size": 8, "seq_length": 512}, 222903552, 2684706816, 4692795904),
    (MT5, JOB, 29381504, 353632768, 1499372544),
    (MT5, {**JOB, "precision": "bf16", "decoder_seq_length": 100}, 29381504, 176346112, 501333504),
    ({**MT5, "tie_word_embeddings": False}, {**EAGER, **FULL}, 29381504, 355598848, 943703552),
]
# the same allocations and frees; the addresses of segments decide which free block, up to 1 MiB larger, the allocator takes
CLOSE = [
    (T5, {**JOB, **FULL, "precision": "bf16"}, 17832448, 108476416, 301932032),
    (STILL, EAGER, 17832448, 214553600, 990280704),
    (STILL, {**JOB, "precision": "fp32", "micro_batch_size": 2, "seq_length": 500}, 17832448, 214313984, 501402112),
    (V11, JOB, 19669888, 236093952, 1000264704),
    (DEEP, {**JOB, **FULL}, 36056960, 442667008, 834781696),
    (T5, {**JOB, "optimizer": "transformers-adafactor"}, 17832448, 71603200, 549875200),
    (BASE, {**JOB, "micro_batch_size": 8, "seq_length": 512, "decoder_seq_length": 128}, 222903552, 2684846080, 6690255872),
]
REFUSED = [
    (T5, {**TWO, "precision": "bf16-mixed", "fsdp": True}, "zero_stage"),
    (T5, {**JOB, "precision": "fp16"}, "precision"),
    ({**T5, "feed_forward_proj": "gated-silu"}, JOB, "hidden_act"),
    ({**T5, "architectures": ["T5EncoderModel"]}, JOB, "T5EncoderModel"),
    ({**T5, "architectures": ["T5ForSequenceClassification"]}, JOB, "T5ForSequenceClassification"),
    (T5, {**JOB, "tensor_model_parallel_size": 2}, "tensor_model_parallel_size"),
]


class EncoderDecoder(plain.RealModels, Case):
    EXACT, CLOSE, REFUSED = EXACT, CLOSE, REFUSED
