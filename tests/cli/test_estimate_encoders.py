"""transformers' encoders of text by formula (analyzer/families/plain_bert.c). The numbers are PyTorch's own counters, torch.cuda.memory_allocated()
and max_memory_allocated(), after two steps of the real models (transformers 5.23, PyTorch 2.15, `memtrace estimate --how run`)."""
import test_estimate_plain as plain

from harness import Case

BERT = {"model_type": "bert", "architectures": ["BertForMaskedLM"], "num_hidden_layers": 2, "hidden_size": 512, "num_attention_heads": 8,
        "intermediate_size": 2048, "vocab_size": 6144, "max_position_embeddings": 1024}
STILL = {**BERT, "hidden_dropout_prob": 0, "attention_probs_dropout_prob": 0}
ODD = {**BERT, "num_hidden_layers": 3, "hidden_size": 640, "num_attention_heads": 10, "intermediate_size": 1728,
       "attention_probs_dropout_prob": 0, "hidden_act": "gelu_new"}
RELU = {**BERT, "hidden_act": "relu", "num_hidden_layers": 4, "vocab_size": 30522}
BASE = {"model_type": "bert", "num_hidden_layers": 12, "hidden_size": 768, "num_attention_heads": 12, "intermediate_size": 3072,
        "vocab_size": 30522}
CLASSES = {**BERT, "architectures": ["BertForSequenceClassification"]}
THREE = {**ODD, "architectures": ["BertForSequenceClassification"], "id2label": {"0": "a", "1": "b", "2": "c"}, "classifier_dropout": 0.2}


def like(model, kind, name):
    return {**model, "model_type": kind, "architectures": [a.replace("Bert", name) for a in model["architectures"]], "pad_token_id": 1}


ROBERTA = like(BERT, "roberta", "Roberta")
JOB, EAGER, FULL, TWO = plain.JOB, plain.EAGER, plain.FULL, plain.TWO
ONE = {**JOB, "micro_batch_size": 1}
# model, job, parameters, bytes after a step, peak
EXACT = [
    (BERT, JOB, 10246656, 124062208, 368288256),
    (BERT, {**JOB, "precision": "bf16"}, 10246656, 62057984, 267224576),
    (STILL, {**JOB, "precision": "fp32", "micro_batch_size": 2, "seq_length": 500}, 10246656, 123006464, 275531776),
    (BERT, {**JOB, **FULL, "micro_batch_size": 4, "seq_length": 1024}, 10246656, 123031040, 429814272),
    (BERT, EAGER, 10246656, 124062208, 506444288),
    (BERT, {**EAGER, **FULL, "micro_batch_size": 4, "seq_length": 768}, 10246656, 124071424, 504289280),
    (STILL, {**EAGER, "precision": "bf16", "micro_batch_size": 2, "seq_length": 576}, 10246656, 62445056, 207746048),
    (BERT, {**EAGER, "precision": "fp32"}, 10246656, 123668992, 613411328),
    (BERT, {**EAGER, "micro_batch_size": 1, "precision": "bf16"}, 10246656, 63096320, 170677248),
    (BERT, {**EAGER, "micro_batch_size": 1, "precision": "fp32", "seq_length": 512}, 10246656, 123002368, 260657152),
    (BERT, {**ONE, "seq_length": 128, "optimizer_implementation": "foreach"}, 10246656, 122977792, 204951040),
    (BERT, {**JOB, "optimizer": "sgd", "momentum": 0.9}, 10246656, 82005504, 326755840),
    (BERT, {**JOB, "precision": "fp16-mixed", "micro_batch_size": 5, "seq_length": 256}, 10246656, 124582400, 299462656),
    (ODD, JOB, 16580928, 207292928, 660587008),
    (ODD, {**EAGER, **FULL}, 16580928, 205130240, 498867712),
    (RELU, {**JOB, "micro_batch_size": 8, "seq_length": 1000, "num_microbatches": 3, "clip_grad": 1.0}, 29057338, 349409792, 3598047744),
    (BASE, {**JOB, "micro_batch_size": 32, "seq_length": 512}, 109514298, 1321446400, 13111843840),
    (BERT, TWO, 10246656, 165048832, 409080320),
    (BERT, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 2}, 10246656, 83919360, 1205040128),
    (CLASSES, JOB, 10240514, 123727872, 272041984),
    (BERT, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 1}, 10246656, 83919360, 1205581824),
    (CLASSES, TWO, 10240514, 164690432, 313203200),
    (CLASSES, {**TWO, "precision": "bf16-mixed", "framework": "deepspeed", "zero_stage": 2}, 10240514, 83919872, 1198749184),
    (like(CLASSES, "roberta", "Roberta"), {**TWO, "precision": "bf16-mixed", "fsdp": True}, 10240514, 61498368, 197939712),
    (CLASSES, {**JOB, "precision": "bf16"}, 10240514, 62284800, 178350080),
    (CLASSES, {**JOB, "precision": "fp32"}, 10240514, 122941440, 316866560),
    (CLASSES, {**JOB, **FULL, "micro_batch_size": 8, "seq_length": 512}, 10240514, 122958848, 304602112),
    (CLASSES, {**JOB, "precision": "fp16-mixed", "micro_batch_size": 16, "seq_length": 128}, 10240514, 122943488, 275198464),
    (CLASSES, {**JOB, "micro_batch_size": 16, "seq_length": 1000, "num_microbatches": 3, "clip_grad": 1.0}, 10240514, 123054080, 1068598784),
    (THREE, EAGER, 16575427, 207523328, 780947968),
    (ROBERTA, JOB, 10246656, 123931136, 368838144),
    (ROBERTA, {**JOB, "precision": "bf16"}, 10246656, 62057984, 267250176),
    (ROBERTA, {**JOB, **FULL, "micro_batch_size": 4, "seq_length": 1000}, 10246656, 123030528, 424528896),
    (like(ODD, "roberta", "Roberta"), EAGER, 16580928, 203753984, 868619776),
    (like(ODD, "roberta", "Roberta"), {**JOB, "precision": "fp32"}, 16580928, 206211584, 721049088),
    (like(CLASSES, "roberta", "Roberta"), JOB, 10240514, 123858944, 271936512),
    (like(THREE, "roberta", "Roberta"), {**JOB, "precision": "bf16", "micro_batch_size": 16, "seq_length": 256}, 16575427, 102523904, 523343360),
    (like(BERT, "xlm-roberta", "XLMRoberta"), {**JOB, "micro_batch_size": 8, "seq_length": 512}, 10246656, 123031040, 602233344),
    (like(CLASSES, "camembert", "Camembert"), JOB, 10240514, 123858944, 271936512),
]
# the same allocations and frees; the addresses of segments decide which free block, up to 1 MiB larger, the allocator takes
CLOSE = [
    (BERT, {**EAGER, "micro_batch_size": 1}, 10246656, 123789824, 272265216),
    (BERT, {**TWO, "precision": "bf16-mixed", "fsdp": True}, 10246656, 61533696, 280102400),
    (ODD, {**JOB, "precision": "fp16-mixed", "micro_batch_size": 5, "seq_length": 257}, 16580928, 204616704, 526324224),
    (THREE, {**JOB, "precision": "fp32"}, 16575427, 205229568, 595286528),
]
REFUSED = [
    ({**BERT, "is_decoder": True}, JOB, "is_decoder"),
    ({**BERT, "chunk_size_feed_forward": 64}, JOB, "chunk_size_feed_forward"),
    ({**BERT, "tie_word_embeddings": False}, JOB, "untie_embeddings_and_output_weights"),
    ({**BERT, "hidden_act": "mish"}, JOB, "hidden_act"),
    ({**BERT, "architectures": ["BertForPreTraining"]}, JOB, "BertForPreTraining"),
    ({**BERT, "architectures": ["BertLMHeadModel"]}, JOB, "BertLMHeadModel"),
    ({**CLASSES, "num_labels": 1}, JOB, "num_labels"),
    ({**CLASSES, "problem_type": "multi_label_classification"}, JOB, "problem_type"),
    ({**BERT, "max_position_embeddings": 512}, JOB, "seq_length"),
    (like({**BERT, "max_position_embeddings": 641}, "roberta", "Roberta"), JOB, "seq_length"),
]


class Encoders(plain.RealModels, Case):
    EXACT, CLOSE, REFUSED = EXACT, CLOSE, REFUSED

    def test_longest_sequence(self):
        """RoBERTa's positions begin after that of its padding token."""
        for model, tokens in (({**BERT, "max_position_embeddings": 512}, 512), ({**ROBERTA, "max_position_embeddings": 514}, 512)):
            answer = self.ask(model, {}, "formula").stdout
            self.assertIn('"seq_length":%d' % tokens, answer.replace(" ", ""))
