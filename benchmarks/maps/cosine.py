"""Speed of cosine maps by a ViT-B/16 of random weights, compared with bare forward passes of the model.

A round times the forward passes alone, then ``make_all``, which also reads and writes files. The best rounds are
compared. The script needs the environment of ``make test-torch``:

PYTHONPATH=build/torch/maps-only build/torch/bin/python benchmarks/maps/cosine.py [PICTURES] [ROUNDS]
"""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import torch

from chexqa.eval.map_makers.cases_to_map import read_cases
from chexqa.eval.map_makers.make_maps import make_all, origin
from chexqa.eval.map_makers.prompts import read_prompts
from chexqa.eval.map_makers.registry import Loading
from chexqa.eval.map_models import clip_maps
from chexqa.phantoms import write_cases

sys.path.append(str(Path(__file__).parents[2] / "tests" / "support"))
THREADS = torch.get_num_threads()
import tiny_map_models  # noqa: E402

torch.set_num_threads(THREADS)  # the module above limits torch to one thread, because tests run in parallel

BATCH, FINDINGS, VIT_B_16 = 16, ("effusion", "opacity"), {"hidden_size": 768, "intermediate_size": 3072,
                                                         "num_hidden_layers": 12, "num_attention_heads": 12,
                                                         "image_size": 224, "patch_size": 16}  # fmt: skip


def now() -> np.ndarray:
    """Return the wall clock and the processor time of this process, in seconds."""
    return np.array([time.perf_counter(), time.process_time()])


def main(pictures: int, rounds: int) -> None:
    """Compare the time of the maps with the time of the forward passes alone.

    Print both times of each round, then the shortest time of the maps divided by the shortest time of the passes.
    """
    prompts = read_prompts(None)
    with tempfile.TemporaryDirectory() as name:
        home = Path(name)
        tiny_map_models.VISION, tiny_map_models.SIDE = VIT_B_16, VIT_B_16["image_size"]
        (home / "weights").mkdir()
        weights = tiny_map_models.clip(home / "weights")
        write_cases(home / "cases", pictures, size=512, seed=3, findings=FINDINGS)
        cases = read_cases(home / "cases")
        shown = len({case.picture for case in cases.cases})
        maker = clip_maps.load(Loading(weights, "cpu", prompts))
        model = maker._model  # type: ignore[attr-defined]
        about = origin("vit-b-16", "clip-cosine", "general", None, prompts, cases)
        ready = torch.randn(BATCH, 3, 224, 224)
        ours, bare = [], []
        for _ in range(rounds):
            begun = now()
            with torch.inference_mode():
                for first in range(0, shown, BATCH):
                    model.whole(ready[: min(BATCH, shown - first)])
            bare.append(now() - begun)
            begun = now()
            make_all(lambda: maker, about, cases, prompts, home / "maps", BATCH)
            ours.append(now() - begun)
            shutil.rmtree(home / "maps")
    print(f"{len(cases.cases):,} maps of {shown:,} radiographs of 512 px, with {torch.get_num_threads()} torch threads")
    for place, clock in enumerate(("wall", "processor")):
        both = [[float(one[place]) for one in each] for each in (bare, ours)]
        told = [", ".join(f"{one:.1f}" for one in each) for each in both]
        print(f"{clock} time of each round: forward passes alone {told[0]} s; maps {told[1]} s; shortest time of maps "
              f"divided by shortest time of passes: {min(both[1]) / min(both[0]):.2f} (limit 1.3)")  # fmt: skip


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 500, int(sys.argv[2]) if len(sys.argv) > 2 else 2)
