"""Targets of the fuzzer: for each kind of file, the folders to copy, the files to damage, and the commands to run.

A try runs one of a target's command lines, chosen at random; ``;`` separates the successive commands of a line.
"""

from __future__ import annotations

from typing import NamedTuple


class Target(NamedTuple):
    """Target of the fuzzer: a try changes one of ``files`` and runs one of ``commands``.

    - ``kind``: the kind of file; if it begins with ``server``, a try changes a server's reply instead.
    - ``folders``: the names of the corpus folders that a try copies, separated by spaces.
    - ``files``: patterns of paths in the copy, such as ``masks/*.csv``.
    - ``weight``: the relative frequency of the target.
    """

    kind: str
    folders: str
    files: tuple[str, ...]
    commands: tuple[str, ...]
    weight: int = 10


# Commands without a target, and why: they read no file, or other targets reach the same readers.
EXEMPT = {
    "demo": "reads nothing: it runs synth, generate, eval and report one after the other",
    "completion": "reads nothing",
    "heatmaps makers": "reads a list that comes with chexqa",
    "import inspect": "needs Inspect, which is not installed there; tests/with_harnesses gives it damaged logs",
    "models check": "reads a models file, as 'models' does, and sends one question, as 'eval' does",
    "models serve": "reads a models file, as 'models' does",
    "review serve": "reads the pages that 'review export' wrote, and runs until it is stopped",
}

_MASKS = "ingest masks --images masks/images --masks masks/masks -o out.jsonl"
_TABLE = "ingest masks --images masks/images --masks masks/masks --table masks/table.csv -o out.jsonl"
_KEYED = _MASKS + " --anatomy anatomy/chexmask.csv --anatomy-key-column image_id --key-map masks/keys.csv"
_DET = "ingest chestx-det det -o out.jsonl"
_LOCALIZE = "ingest chexlocalize chexlocalize -o out.jsonl"
_ILS = "ingest mimic-ils ils --images ils/files -o out.jsonl"
_COCO = "ingest coco annotated/coco.json --images annotated/images -o out.jsonl"
_BOXES = "ingest boxes annotated/{}.{} --images annotated/images --absent-unmasked -o out.jsonl"
_SIIM = "ingest siim annotated/siim.csv --images annotated/images -o out.jsonl"
_FLAT = "ingest masks --images annotated/images --flat --absent annotated/none.csv -o out.jsonl"
_LABELLED = "ingest masks --images annotated/images --masks annotated/maps --label 3=effusion -o out.jsonl"
_LUNGS_OF = "anatomy outlined --onnx annotated/lungs.onnx --channel lungs=0"
_LUNGS = " --anatomy anatomy/masks"
_RLE = " --anatomy anatomy/chexmask.csv --anatomy-key-column image_id"
_MAPS = "heatmaps grade maps --benchmark bench --allow-partial -o out"
_MAKE = "heatmaps make bench --plugin maker/plain.py --maker plain --prompts maker/prompts.yaml"
_OUTLINED = "heatmaps grade outlined-maps --masks chexlocalize/gt_segmentations_val.json --allow-partial -o out"

# Readers of a manifest, the pictures and the masks it names.
_CASES = (
    "validate masks", "validate masks/cases.jsonl", "review export masks --what masks -o out --reviewers a,b",
    "review export masks --what masks -o out --reviewers a,b --format csv",
    "heatmaps grade case-maps --masks masks/cases.jsonl --allow-partial -o out", "generate masks -o out --recipe grid",
    "review apply masks mask-sheets-done/verdicts.jsonl -o out.jsonl",
    "review agreement masks mask-sheets-done/verdicts.jsonl",
    "heatmaps make masks --plugin {corpus}/maker/plain.py --maker plain -o out",
)  # fmt: skip
_GENERATE = (
    "validate phantoms", "generate phantoms -o out --recipe grid", "generate phantoms -o out",
    "generate phantoms -o out --recipe strict --with-controls",
)  # fmt: skip
# Readers of a benchmark folder.
_BENCH = (
    "validate {b}", "show {b} {case} -o out.png", "show {b} {item} -o out.png",
    "eval {b} --models baseline/oracle,baseline/chance -o out",
    "eval {b} --models baseline/blind-prior --protocol independent --rotate 2 -o out", "estimate {b} --models all",
    "eval {b} --models gpt-5.4 --limit 1 --dry-run out", "export {b} --format chexpercept -o out",
    "export {b} --format huggingface --split-key -o out", "export {b} --format vlmevalkit -o out.tsv",
    "export {b} --format vlmevalkit -o out",
    "export {b} --no-key -o out",
    "review export {b} -o out --reviewers a,b --overlap 0.5", "review export {b} --what masks -o out --reviewers a,b",
    "review export {b} --blind-answers -o out --reviewers a,b",
    "review study {b} -o out --readers a,b --sample 2 --training 1", "grade {run} --benchmark {b}", "audit {b} -o out",
    "report {run} --benchmark {b} -o out",
    "compare {run} {run} --models baseline/oracle,baseline/chance --benchmark {b}",
    "power {b}", "power {b} --patients 50 --json", "plan {b} --models baseline/oracle,baseline/chance -o out.json",
    "plan {b} --models a,b --limit 2 --on fine -o out.json",
    "run export {run} --benchmark {b} --format predictions -o out.jsonl",
    "freshen {b} --cases phantoms --seed 9 -o out",
)  # fmt: skip
_RESULTS_OF = "run export {run} --benchmark {b} --format chexpercept -o out"
_SECOND = "second-reader bench --second-masks phantoms"
_OF_BENCH = tuple(line.replace("{b}", "bench").replace("{run}", "run") for line in (*_BENCH, _MAPS, _RESULTS_OF))
_OF_SMALL = tuple(line.replace("{b}", "small").replace("{run}", "run-small") for line in _BENCH)
_REVIEWED = (
    "review agreement small sheets-done/verdicts.jsonl --cross --pairs",
    "review carry small small sheets-done/verdicts.jsonl -o out.jsonl",
    "review validity small sheets-done/verdicts.jsonl --cross", "review readers small study-done/verdicts.jsonl",
    "review adjudicate small sheets-done/verdicts.jsonl -o out",
    "review apply small sheets-done/verdicts.jsonl -o out",
    "review wordings small -o out.xlsx --reviewer a", "review wordings small --returned sheets-done",
    "review status sheets-done", "review open sheets-done --benchmark small", "review import sheets-done --benchmark small",
)  # fmt: skip
_RUN = (
    "validate run-small", "run status run-small", "run status run-small --json", "run repair run-small",
    "grade run-small --benchmark small", "grade run-small --benchmark small --allow-partial -o out",
    "grade run-small --benchmark small --json",
    "compare run-small run-small --models baseline/oracle,baseline/chance --benchmark small",
    "eval small --models baseline/oracle,baseline/chance --protocol independent -o run-small",
    "report run-small --benchmark small --allow-partial -o out",
    "run export run-small --benchmark small --format predictions -o out.jsonl",
    "run export run-small --benchmark small --format every-eval-ever -o out",
    "leaderboard add out run-small --benchmark small",
)  # fmt: skip
_SERVED = (
    "validate run-served", "run status run-served", "run repair run-served",
    "grade run-served --benchmark small --allow-partial", "grade run-served --benchmark small --allow-partial --json",
    "compare run-served run-served --benchmark small --out out.csv",
    "report run-served --benchmark small --allow-partial -o out",
    "run export run-served --benchmark small --format predictions -o out.jsonl",
)  # fmt: skip
_TOLD = (
    "validate told/told.jsonl", "grade told/told.jsonl --benchmark small",
    "grade told/told.jsonl run-small --benchmark small",
    "grade told/told.jsonl --benchmark small --allow-partial --json",
    "report told/told.jsonl --benchmark small --allow-partial -o out",
)  # fmt: skip
_IMPATIENT = "--limit 2 --attempts 2 --timeout 4 --give-up-after 0.05 --max-minutes 0.25"
_ASK = "eval small --model-id m --api-base {url} " + _IMPATIENT + " -o out"
_RESULTS = "results/gemini_gemini-3.1-pro/oracle_implicit/all_results.json"
_MARKS = "heatmaps grade --masks chexlocalize/gt_segmentations_val.json -o out"
_AFTER = "run status out; grade out --benchmark small --allow-partial"

TARGETS = (
    # Cases and their pictures.
    Target("manifest", "masks case-maps mask-sheets-done", ("masks/cases.jsonl",), _CASES, 20),
    Target("manifest, phantoms", "phantoms", ("phantoms/cases.jsonl",), _GENERATE, 10),
    Target("radiograph PNG", "masks case-maps mask-sheets-done", ("masks/images/*.png",), (*_CASES[:4], _MASKS), 15),
    Target("radiograph JPEG", "masks case-maps mask-sheets-done", ("masks/images/*.jpg",), (*_CASES[:4], _MASKS), 10),
    Target("radiograph DICOM", "masks case-maps mask-sheets-done", ("masks/images/*.dcm",), (*_CASES[:4], _MASKS), 25),
    Target("mask PNG", "masks phantoms case-maps mask-sheets-done", ("masks/masks/*/*.png",), (*_CASES[:6], _MASKS),
           10),
    Target("phantom pictures", "phantoms", ("phantoms/images/*.png", "phantoms/masks/*/*.png"), _GENERATE[:3], 4),
    # Annotations of tools and data sets.
    Target("COCO JSON", "annotated", ("annotated/coco.json",), (_COCO, _COCO + " --absent-unmasked"), 10),
    Target("boxes", "annotated", ("annotated/vindr.csv", "annotated/nih.csv", "annotated/padchest.json"),
           (_BOXES.format("vindr", "csv"), _BOXES.format("nih", "csv"), _BOXES.format("padchest", "json")), 10),
    Target("SIIM run lengths", "annotated", ("annotated/siim.csv",), (_SIIM,), 5),
    Target("label maps and flat masks", "annotated",
           ("annotated/maps/*.png", "annotated/images/*.png", "annotated/none.csv"), (_FLAT, _LABELLED), 5),
    Target("NIfTI", "annotated", ("annotated/nifti/*.nii.gz",), (_LABELLED.replace("/maps", "/nifti"),), 5),
    Target("segmentation model", "annotated outlined", ("annotated/lungs.onnx", "outlined/cases.jsonl"),
           (_LUNGS_OF + " -o outlined/new.jsonl", _LUNGS_OF + " --fit pad --values -1 1 -o outlined/new.jsonl"), 5),
    # Recipes, banks, models.
    Target("recipe", "phantoms yaml", ("yaml/recipe.yaml", "yaml/grid.yaml"),
           ("validate yaml/recipe.yaml", "validate yaml/grid.yaml",
            "generate phantoms -o out --recipe yaml/recipe.yaml",
            "generate phantoms -o out --recipe yaml/grid.yaml"), 15),
    Target("question bank", "phantoms yaml", ("yaml/bank.yaml",),
           ("validate yaml/bank.yaml", "validate yaml/bank.yaml", "generate phantoms -o out --bank yaml/bank.yaml"),
           15),
    Target("models file", "small run-small yaml", ("yaml/models.yaml",),
           ("validate yaml/models.yaml", "models --models-file yaml/models.yaml",
            "models --json --models-file yaml/models.yaml",
            "estimate small --models own,other --models-file yaml/models.yaml",
            "grade run-small --models-file yaml/models.yaml",
            "eval small --models other --dry-run out --models-file yaml/models.yaml"), 25),
    Target("stopped generation", "stopped", ("stopped/bench.partial/*.json", "stopped/bench.partial/*.jsonl"),
           ("generate stopped --image-root {corpus}/phantoms -o stopped/bench --recipe chexpercept",), 4),
    # Benchmarks.
    Target("benchmark.json", "bench run maps", ("bench/benchmark.json",), _OF_BENCH, 25),
    Target("items.jsonl", "bench run maps", ("bench/items.jsonl",), _OF_BENCH, 40),
    Target("answers.jsonl", "bench run maps", ("bench/answers.jsonl",), _OF_BENCH, 50),
    Target("items.jsonl, imported", "small run-small sheets-done", ("small/items.jsonl",), (*_OF_SMALL, *_REVIEWED),
           30),
    Target("answers.jsonl, imported", "small run-small sheets-done", ("small/answers.jsonl",),
           (*_OF_SMALL, *_REVIEWED), 30),
    Target("skipped.jsonl", "bench run maps", ("bench/skipped.jsonl",), _OF_BENCH[:1] * 3 + _OF_BENCH, 6),
    Target("benchmark's picture", "small run-small", ("small/images/*/*.png",), _OF_SMALL, 25),
    Target("second reader's masks", "bench phantoms",
           ("phantoms/cases.jsonl", "phantoms/masks/*/*.png", "bench/answers.jsonl", "bench/benchmark.json"),
           (_SECOND, _SECOND + "/cases.jsonl --json", _SECOND + " --recipe chexpercept"), 15),
    Target("thumbnail", "bench run maps", ("bench/thumbs/*/*.jpg",), ("validate bench",
        "report run --benchmark bench -o out"), 6),
    # Runs.
    Target("run.json", "small run-small", ("run-small/run.json",), _RUN, 30),
    Target("turn log", "small run-small", ("run-small/turns/*.jsonl",), _RUN, 40),
    Target("turn log, served", "small run-served", ("run-served/turns/*.jsonl", "run-served/run.json"), _SERVED, 40),
    Target("lock", "small run-small", ("run-small/run.lock", "run-small/turns/*.lock"), _RUN, 4),
    Target("plan", "small run-small planned", ("planned/plan.json",),
           ("validate planned/plan.json", "grade run-small --benchmark small --plan planned/plan.json",
            "report run-small --benchmark small --plan planned/plan.json -o out"), 10),
    Target("predictions", "small run-small told", ("told/told.jsonl",), _TOLD, 25),
    # Files that the tool wrote, and checks or replaces.
    Target("leaderboard", "small told board", ("board/leaderboard.json", "told/told.jsonl"),
           ("validate board", "leaderboard remove board other", "leaderboard add board told/told.jsonl --benchmark small",
            "validate told/told.jsonl --benchmark small"), 15),
    Target("report.json", "small run-small report", ("report/*.json",),
           ("validate report", "report run-small --benchmark small -o report"), 6),
    Target("heatmaps.json", "graded-maps", ("graded-maps/*.json",), ("validate graded-maps",), 6),
    Target("maps that were made", "bench maker made-maps",
           ("made-maps/*.json", "made-maps/*.npz", "made-maps/*.csv", "maker/prompts.yaml", "bench/items.jsonl"),
           (_MAKE + " -o made-maps", _MAKE + " -o out", "heatmaps grade made-maps --benchmark bench -o out"), 12),
    Target("dry run", "dry", ("dry/*/*.json",), ("validate dry/own-model",), 6),
    # Reviews.
    Target("review.json", "small masks sheets-done study-done csv-sheets-done",
           ("sheets-done/review.json", "study-done/review.json"),
           ("review import sheets-done --benchmark small", "review import study-done --benchmark small",
            "review status sheets-done",
            "review status study-done --json", "validate sheets-done", "review import csv-sheets-done"), 20),
    Target("sheet, items", "small sheets decided",
           ("sheets/*/*.xlsx", "decided/*.xlsx", "decided/*/*.xlsx"),
           ("review import sheets --benchmark small", "review import sheets --skip-bad --benchmark small",
            "review import decided --benchmark small"), 40),
    Target("sheet, masks", "masks mask-sheets", ("mask-sheets/*/*.xlsx",),
           ("review import mask-sheets --skip-bad",), 10),
    Target("sheet, study", "small study", ("study/*/*.xlsx",), ("review import study --skip-bad --benchmark small",),
           15),
    Target("sheet, csv", "masks csv-sheets", ("csv-sheets/*/*.csv",),
           ("review import csv-sheets", "review import csv-sheets --skip-bad"), 20),
    Target("page, saved", "small pages", ("pages/*.json",),
           ("review import pages/anna-2.json --batch pages --benchmark small", "validate pages"), 20),
    Target("verdicts", "small sheets-done", ("sheets-done/verdicts.jsonl",),
           (*_REVIEWED, "validate sheets-done/verdicts.jsonl"), 30),
    Target("verdicts, study", "small study-done", ("study-done/verdicts.jsonl", "study-done/run/run.json"),
           ("review agreement small study-done/verdicts.jsonl", "review import study-done --benchmark small",
            "review status study-done"), 8),
    Target("verdicts, masks", "masks mask-sheets-done", ("mask-sheets-done/verdicts.jsonl",),
           ("review apply masks mask-sheets-done/verdicts.jsonl -o out.jsonl", "review status mask-sheets-done",
            "review agreement masks mask-sheets-done/verdicts.jsonl"), 10),
    # Heat maps.
    Target("heat map npy, npz, png, pkl", "bench maps", ("maps/*.npy", "maps/*.npz", "maps/*.png", "maps/*.pkl"),
           (_MAPS,), 30),
    Target("heat map pkl", "chexlocalize outlined-maps", ("outlined-maps/*.pkl",), (_OUTLINED,), 30),
    Target("thresholds", "bench maps", ("maps/thresholds.csv",), (_MAPS + " --thresholds maps/thresholds.csv",), 8),
    Target("readers' marks", "chexlocalize", ("chexlocalize/hb_*.json", "chexlocalize/gt_segmentations_val.json"),
           (_MARKS + " --points chexlocalize/hb_salient_pt.json",
            _MARKS + " --outlines chexlocalize/hb_annotations.json"), 15),
    # Data sets of others.
    Target("table of masks", "masks", ("masks/table.csv",), (_TABLE,), 20),
    Target("key map", "masks anatomy", ("masks/keys.csv",), (_KEYED,), 10),
    Target("CheXmask csv", "masks det ils anatomy chexlocalize", ("anatomy/chexmask.csv",),
           (_KEYED, _DET + _RLE, _LOCALIZE + _RLE, _ILS + _RLE), 20),
    Target("anatomy masks", "det ils anatomy chexlocalize", ("anatomy/masks/*/*.png",),
           (_DET + _LUNGS, _LOCALIZE + _LUNGS, _ILS + _LUNGS), 8),
    Target("CheXlocalize", "chexlocalize outlined-maps", ("chexlocalize/gt_*.json",),
           (_LOCALIZE, _LOCALIZE + " --labels chexlocalize/labels.csv", _OUTLINED), 25),
    Target("CheXpert's labels", "chexlocalize", ("chexlocalize/labels.csv",),
           (_LOCALIZE + " --labels chexlocalize/labels.csv",), 12),
    Target("ChestX-Det", "det", ("det/*.json",), (_DET, _DET + " --findings effusion,edema"), 25),
    Target("MIMIC-ILS", "ils", ("ils/*.json",), (_ILS,), 25),
    Target("data sets' pictures", "det ils chexlocalize", ("det/*/*.png", "ils/*/*/*/*/*.jpg",
                                                           "ils/lesion_mask/*/*.png", "chexlocalize/*/*/*/*/*.jpg"),
           (_DET, _LOCALIZE, _ILS), 8),
    Target("run lengths in a manifest", "outlined", ("outlined/cases.jsonl",),
           ("validate outlined", "review export outlined --what masks -o out --reviewers a"), 15),
    Target("CheXpercept's release", "release", ("release/chexpercept.json",),
           ("import chexpercept release -o out", "audit release -o out"),
           25),
    Target("release's pictures", "release", ("release/chexpercept/*/*/*.png", "release/chexpercept/*/*/*/*.png"),
           ("import chexpercept release -o out; validate out",), 8),
    Target("another's table", "dataset", ("dataset/small.tsv",), ("audit dataset/small.tsv -o out",), 8),
    Target("another's dataset", "dataset", ("dataset/data/*.parquet", "dataset/README.md"), ("audit dataset -o out",),
           8),
    Target("CheXpercept's results", "results small", ("results/*/*/all_results.json",),
           (f"import chexpercept-results {_RESULTS} --benchmark small -o out; grade out --benchmark small",), 25),
    # The output folder already exists as something else.
    Target("place to write", "masks small run-small phantoms", ("out",),
           ("synth out --cases 1 --size 256", "generate phantoms -o out --recipe grid",
            _MASKS.replace("out.jsonl", "out"),
            "eval small --models baseline/chance -o out", "export small --format huggingface -o out",
            "export small --format vlmevalkit -o out", "review export small -o out --reviewers a",
            "grade run-small --benchmark small -o out",
            "report run-small --benchmark small -o out",
            "compare run-small run-small --models baseline/oracle,baseline/chance -o out",
            "audit small -o out", "show small {small-case} -o out", "review import csv-sheets -o out"), 8),
    # Servers.
    Target("server", "small", (), (_ASK + "; " + _AFTER,), 45),
    Target("server, then a report", "small", (), (_ASK + "; report out --benchmark small --allow-partial -o report",),
           6),
)  # fmt: skip
