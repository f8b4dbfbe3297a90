"""Some of transformers' model types, as tests/accuracy/models.py compares all of them: docs/models.md."""
import os

from harness import Case
from models import SUMMARY, configure, rows_of, rows_of_page, run_all, section, summary

# Decoders with a formula for their parameters and without, an encoder, an encoder-decoder, images, sounds, texts beside images, a state-space model.
TYPES = ("aimv2", "bert", "gemma3_text", "gpt2", "llama", "mamba", "qwen3", "t5", "vit", "wav2vec2", "whisper")
BY_FORMULA = {"bert", "gemma3_text", "gpt2", "llama", "qwen3", "t5", "vit"}


class Sample(Case):
    def test_parameters_and_peaks(self):
        traces = os.path.join(self.dir, "traces")
        kinds, failed = configure(self.dir, ",".join(TYPES))
        self.assertEqual((set(kinds), failed), (set(TYPES), {}))
        run_all(self.dir, kinds, traces, None)
        rows = {row["type"]: row for row in rows_of(self.dir, kinds, failed, traces)}
        self.assertEqual({kind: row["error"] for kind, row in rows.items() if "error" in row}, {})
        for kind, row in rows.items():
            self.assertLess(abs(row["recorded"] / row["peak_bytes"] - 1), 0.001, kind)
            if kind in BY_FORMULA:
                self.assertEqual(row["formula"], row["parameters"], kind)
            if row["has_formula"]:
                self.assertLess(abs(row["estimated"] / row["peak_bytes"] - 1), 0.001, kind)
        self.assertEqual({kind for kind, row in rows.items() if row["has_formula"]}, {"bert", "gemma3_text", "gpt2", "llama", "qwen3", "t5", "vit"})

    def test_summary(self):
        """The table of docs/accuracy.md is that of the rows of docs/models.md."""
        with open(SUMMARY, encoding="utf-8") as f:
            written = section(f.read())[1]
        self.assertEqual(written, "\n".join(summary(list(rows_of_page()))) + "\n")
