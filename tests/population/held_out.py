"""Families of jobs and groups of faults that nobody looks at while the rules are written: they show how right the rules are about jobs that
nobody has met."""
FAMILIES = {"encoder-decoder", "GAN", "recurrent", "recommender", "inference"}
GROUPS = {"lists", "frozen", "generation", "trainer"}
# Written when the rules were there, by people who had not read them; the draws of docs/population.md are the first that the rules met of them.
NEW = {"habits_h", "fields_h", "habits_i", "fields_i"}
NEW_FAMILIES = {"activations rescaled", "an actor and two critics", "clips from noise", "clips that are searched", "clusters of views",
                "code search with Accelerate", "code with one key", "crystals", "events of music", "forms with boxes",
                "frames that are hidden", "gated memory", "guided words", "interests of people", "likes and dislikes",
                "loads with Lightning", "many environments", "margins of a teacher", "masked words with a trainer", "masks by queries",
                "molecules from noise", "observer and performer", "paraphrases that agree", "pictures among words",
                "pictures scale by scale", "products of small matrices", "rewards of steps", "scaled logits", "scans laid over",
                "several goals of a feed", "slices of a mesh", "surfaces", "the best of many", "things around a car", "trees of sentences",
                "words and sounds", "words that are wrong", "words that skip layers"}
