"""Families of jobs and groups of faults that nobody looks at while the rules are written: they show how right the rules are about jobs that
nobody has met."""
FAMILIES = {"encoder-decoder", "GAN", "recurrent", "recommender", "inference"}
GROUPS = {"lists", "frozen", "generation", "trainer"}
# Written when the rules were there, by people who had not read them.
NEW = {"habits", "fields_a", "fields_b", "habits_c", "fields_c"}
NEW_FAMILIES = {"neural rendering", "protein structure", "differential equations", "speech", "detection", "normalizing flow", "state space model", "video",
                "retrieval", "transcription", "time series", "meta-learning", "tables", "several tasks", "early exits", "classifier distillation",
                "weather", "neural operator", "hierarchy of latents", "energies", "tracking", "medical volumes", "growing resolution", "printed text",
                "audio codec", "speech synthesis", "vision and language", "bytes", "matrix memory", "hypernetwork", "groups of answers", "drafts",
                "reranking", "cross-validation", "hyperparameter search", "active learning", "federated learning", "ensemble", "evolution", "self-play"}
