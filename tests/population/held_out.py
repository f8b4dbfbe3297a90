"""Families of jobs and groups of faults that nobody looks at while the rules are written: they show how right the rules are about jobs that
nobody has met."""
FAMILIES = {"encoder-decoder", "GAN", "recurrent", "recommender", "inference"}
GROUPS = {"lists", "frozen", "generation", "trainer"}
# Written when the rules were there, by people who had not read them; the draws of docs/population.md are the first that the rules met of them.
NEW = {"fields_f", "fields_g", "fields_h", "fields_i", "habits_f", "habits_f_more", "habits_g", "habits_h", "habits_i"}
NEW_FAMILIES = {"a student with a trainer", "activations rescaled", "actors and a learner", "an actor and two critics",
                "anomalies with Lightning", "baskets", "candidates of a shop", "chats", "choices", "clips from noise",
                "clips that are searched", "clusters of views", "code search with Accelerate", "code with holes", "code with one key",
                "completions", "crystals", "decisions in a row", "dialogues in one row", "events of music", "few steps of diffusion",
                "forms with boxes", "frames that are hidden", "gated memory", "graphs with attention", "guided words", "heartbeats",
                "instruction tuning", "interests of people", "joints of people", "land with Lightning", "large kernels", "layers distilled",
                "likes and dislikes", "links of a graph", "loads with Lightning", "long documents", "many environments",
                "margins of a teacher", "masked words with a trainer", "masks by prompts", "masks by queries", "molecules from noise",
                "names on request", "near and far words", "nested vectors", "observer and performer", "operators by points",
                "parallel blocks", "paraphrases that agree", "people and things as a graph", "pictures among words", "pictures of chests",
                "pictures scale by scale", "pictures without pairs", "preferences by adapters", "products of small matrices",
                "quantiles of demand", "replaced tokens", "rewards of steps", "rewards with TRL", "scaled logits", "scans laid over",
                "several goals of a feed", "several tokens ahead", "shared layers", "signs in a video", "slices of a mesh", "slides",
                "solver in the loop", "sounds with Accelerate", "spans of answers", "sparse vectors", "summaries",
                "summaries with a trainer", "surfaces", "tags by adapters", "texts by unmasking", "the best of many", "things around a car",
                "translations on request", "trees of sentences", "vectors of pictures", "vocoder", "voices with Accelerate",
                "words and sounds", "words that are wrong", "words that skip layers", "world model"}
