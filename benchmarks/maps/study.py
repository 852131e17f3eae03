"""Test of the heat-map study on 300 phantoms, with six map makers of known quality and five with random weights.

    python benchmarks/maps/study.py FOLDER [CASES]

- The six makers are in ``planted.py``. The script prints their known effects beside those that the study finds.
- The five makers are models with random weights, one for each model family. They need torch, transformers, open_clip
  and torchvision; without torch they are left out.

The maps, the tables and the page ``graded/maps.html`` stay in FOLDER.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path
from statistics import NormalDist
from typing import Any

import polars as pl
from planted import PLANTED, chance

from chexqa.cli.main import run
from chexqa.eval.heatmaps import conclusions, recognition

HERE = Path(__file__).parent
LABELS = ["Effusion", "edema", "Lung Opacity", "Pneumothorax", "Consolidation", "Atelectasis", "Pneumonia",
          "Lung Lesion", "Cardiomegaly", "Enlarged Cardiomediastinum"]  # fmt: skip


def command(*arguments: object) -> None:
    """Run a command of chexqa; end if it fails."""
    print("chexqa", *arguments, flush=True)
    if run([str(one) for one in arguments]):
        raise SystemExit(1)


def random_makers(folder: Path) -> dict[str, Path]:
    """Write random weights for each family of models into ``folder``; return their paths, keyed by family.

    Without torch, the result is empty.
    """
    if importlib.util.find_spec("torch") is None:
        print("torch is not installed, so the map models with random weights are left out")
        return {}
    sys.path.insert(0, str(HERE.parents[1] / "tests" / "support"))
    import tiny_map_models as tiny

    builders = {
        "clip-cosine": tiny.clip, "clip-gradcam": lambda path: tiny.open_clip(path, "resnet", 2),
        "classifier-gradcam": lambda path: tiny.classifier(path, LABELS), "local-contrastive": tiny.local_contrastive,
        "query-decoder": tiny.query_decoder,
    }  # fmt: skip
    found = {}
    for family, build in builders.items():
        path = folder / "weights" / family
        path.mkdir(parents=True, exist_ok=True)
        found[family] = build(path)
    return found


def found(row: dict[str, Any], name: str, truth: float | None) -> str:
    """Return as text an estimate with its interval, the known value, and whether the interval contains this value."""
    low, high = row[f"{name}_low"], row[f"{name}_high"]
    if low is None or high is None:
        text = f"{row[name]:.3f} (too few cases for an interval)"
        return text if truth is None else f"{text}, true value {truth:.3f}"
    text = f"{row[name]:.3f} ({low:.3f} to {high:.3f})"
    if truth is None:
        return text
    return f"{text}, true value {truth:.3f}: {'inside' if low <= truth <= high else 'OUTSIDE'}"


def told(graded: Path) -> None:
    """Print the effects that each maker of maps was built to have, beside those that the study found."""
    sizes = pl.read_csv(graded / "lesion_size.csv", comment_prefix="#")
    gaps = sizes.filter(pl.col("size") == conclusions.SMALL_MINUS_LARGE)
    known = pl.read_csv(graded / "recognition.csv", comment_prefix="#").filter(pl.col("finding") == recognition.MACRO)
    rows = pl.read_parquet(graded / "heatmaps.parquet")
    lesions = rows.filter(pl.col("model") == rows["model"][0]).group_by("finding").len()
    counts = lesions.filter(pl.col("len") >= len(conclusions.THIRDS))["len"]
    for row in gaps.sort("model").to_dicts():
        name, gap, area = row["model"], None, None
        if name in PLANTED:
            _, skill, shift = PLANTED[name]
            each = []
            for count in counts:
                chances = [chance(skill, rank, count) for rank in range(count)]
                thirds = [[one for rank, one in enumerate(chances) if 3 * rank // count == end] for end in (0, 2)]
                each.append(sum(thirds[0]) / len(thirds[0]) - sum(thirds[1]) / len(thirds[1]))
            gap, area = sum(each) / len(each), NormalDist().cdf(shift / 2**0.5)
        recognized = known.row(by_predicate=pl.col("model") == name, named=True)
        print(f"{name}: pointing score, small minus large lesions: {found(row, 'pointing', gap)}; AUROC of recognising "
              f"the finding: {found(recognized, 'recognition_auc', area)}")  # fmt: skip
    domains = pl.read_csv(graded / "domains.csv", comment_prefix="#").select(
        "domain", "models", "pointing", "recognition_auc"
    )
    print(domains)
    over = pl.read_csv(graded / "correlations.csv", comment_prefix="#").filter(pl.col("scope") == "models")
    print(over.select("scope", "points", "correlation", "least_without_one", "greatest_without_one"))


def main(folder: Path, cases: int) -> None:
    phantoms, plugin = folder / "phantoms", HERE / "planted.py"
    if not phantoms.exists():
        command("synth", phantoms, "--cases", cases, "--findings", "all", "--size", 256)
    os.environ["CHEXQA_PLANTED"] = str(phantoms / "cases.jsonl")
    maps = [folder / "maps" / name for name in PLANTED]
    for path in maps:
        command("heatmaps", "make", phantoms, "--plugin", plugin, "--maker", path.name, "-o", path)
    for family, weights in random_makers(folder).items():
        maps.append(folder / "maps" / f"random-{family}")
        command("heatmaps", "make", phantoms, "--maker", family, "--weights", weights, "-o", maps[-1])
    command("heatmaps", "grade", *maps, "--masks", phantoms / "cases.jsonl", "-o", folder / "graded")
    told(folder / "graded")


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]) if len(sys.argv) > 2 else 300)
