"""Six simulated models of known threshold, calibration and sensitivity: the tables find what is planted."""

from __future__ import annotations

from pathlib import Path

import pytest
from planted_limits import SIX, by_model, handmade, study

from chexqa.eval.confidence.confidence_tables import ALL, confidences
from chexqa.eval.scoring.sample import scored_sample
from chexqa.eval.thresholds.stress_tables import stress
from chexqa.eval.thresholds.threshold_table import thresholds


@pytest.mark.long
def test_what_is_planted_is_found(tmp_path: Path) -> None:
    graded, planted = study(handmade(tmp_path), SIX, 1)
    sample = scored_sample(graded)
    depths, sure = by_model(thresholds(sample), "seen_in"), by_model(confidences(sample)["confidence"], "level")
    changed = by_model(stress(sample), "stress")
    missed = 0
    for model in SIX:
        due = planted[model.name]
        for row in depths[model.name].values():
            if due["threshold"] > 1000:
                assert row["reads"].startswith(">")
            else:
                missed += not row["threshold_low"] <= due["threshold"] <= row["threshold_high"]
        row = sure[model.name][ALL]
        assert row["ece"] == pytest.approx(due["ece"], abs=0.02)
        assert row["overconfidence"] == pytest.approx(due["overconfidence"], abs=0.02)
        assert row["auroc"] == pytest.approx(due["auroc"], abs=0.03)
        for kind in ("noise", "blur", "contrast"):
            assert changed[model.name][kind]["flips"] == pytest.approx(due[kind], abs=0.06)
        for kind in ("wording", "history"):
            assert changed[model.name][kind]["flips"] == pytest.approx(due[kind], abs=0.15)
    assert missed <= 3, "of 15 intervals; more would be unlikely (p < 0.01) if 95 % hold the threshold"
