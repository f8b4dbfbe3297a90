"""The training step of every model type, and what some default configurations lack."""
JOB = {"precision": "bf16-mixed", "micro_batch_size": 1, "seq_length": 128}

# Types that cannot be trained with one row: their batch norms need more values than one.
ROWS = {"groupvit": 2, "levit": 2, "upernet": 2}

# Of types whose default configuration makes no model: the values that are missing, as a published model of the type has them.
COMPLETED = {
    "autoformer": {"prediction_length": 24},
    "blip-2": {"image_token_index": 50265},
    "dbrx": {"attn_config.rope_theta": 500000.0, "attn_config.clip_qkv": 8, "attn_config.kv_n_heads": 8},
    "deepseek_v2": {"num_experts_per_tok": 6, "moe_intermediate_size": 1536},
    "dots1": {"n_routed_experts": 128, "num_experts_per_tok": 6, "n_shared_experts": 2, "n_group": 1, "topk_group": 1, "first_k_dense_replace": 1},
    "esm": {"vocab_size": 33, "pad_token_id": 1, "mask_token_id": 32},
    "hunyuan_v1_dense": {"head_dim": 128},
    "hunyuan_v1_moe": {"head_dim": 128},
    "informer": {"prediction_length": 24},
    "instructblip": {"image_token_index": 32000},
    "lfm2_moe": {"layer_types": 2 * ["conv"] + 7 * ["full_attention", "conv", "conv", "conv"] + ["full_attention", "conv"]},
    "ministral": {"head_dim": 128},
    "nemotron": {"num_key_value_heads": 8},
    "time_series_transformer": {"prediction_length": 24},
    "wav2vec2-bert": {"vocab_size": 32},
    "wav2vec2-conformer": {"vocab_size": 32},
    "xmod": {"default_language": "en_XX"},
}
