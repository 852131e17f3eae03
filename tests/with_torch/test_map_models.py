"""Map makers of every family on tiny models with random weights: against plain second ways and pytorch-grad-cam."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import cv2
import numpy as np
import polars as pl
import pytest
import tiny_map_models as tiny
import torch
from torch.nn.functional import normalize

from chexqa.eval.heatmaps.map_files import map_name, read_map
from chexqa.eval.map_makers.prompts import read_prompts
from chexqa.eval.map_makers.registry import Loading, Maker
from chexqa.eval.map_models import clip_models, gradients, model_list

Cli = Callable[..., tuple[int, str, str]]
WORDS = ["pleural effusion", "pulmonary edema"]
LABELS = ["Effusion", "edema", "Lung Opacity"]
MAKERS: dict[str, tuple[str, Callable[[Path], Path]]] = {
    "clip": ("clip-cosine", tiny.clip),
    "siglip": ("clip-cosine", tiny.siglip),
    "open_clip vit": ("clip-cosine", lambda folder: tiny.open_clip(folder, "vit")),
    "open_clip resnet": ("clip-cosine", lambda folder: tiny.open_clip(folder, "resnet")),
    "open_clip timm": ("clip-cosine", lambda folder: tiny.open_clip(folder, "timm")),
    "gradcam clip": ("clip-gradcam", tiny.clip),
    "gradcam siglip": ("clip-gradcam", tiny.siglip),
    "gradcam vit": ("clip-gradcam", lambda folder: tiny.open_clip(folder, "vit")),
    "gradcam resnet": ("clip-gradcam", lambda folder: tiny.open_clip(folder, "resnet", 2)),
    "gradcam timm": ("clip-gradcam", lambda folder: tiny.open_clip(folder, "timm")),
    "classifier": ("classifier-gradcam", lambda folder: tiny.classifier(folder, LABELS)),
    "attention": ("local-contrastive", tiny.local_contrastive),
    "local cosine": ("local-contrastive", lambda folder: tiny.local_contrastive(folder, "cosine")),
    "query": ("query-decoder", tiny.query_decoder),
}


def pictures(count: int = 3, shape: tuple[int, int] = (90, 120)) -> list[np.ndarray]:
    random = np.random.default_rng(1)
    return [cv2.GaussianBlur(random.integers(0, 256, shape).astype(np.uint8), (5, 5), 0) for _ in range(count)]


@pytest.fixture(scope="module")
def folder_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    made: dict[Any, Path] = {}

    def make(name: str) -> Path:
        builder = MAKERS[name][1]
        if name not in made:
            made[name] = builder(tmp_path_factory.mktemp(name.replace(" ", "-")))
        return made[name]

    return make


def load(name: str, folder: Path) -> Any:
    return model_list.choose(MAKERS[name][0], folder).load("cpu", read_prompts(None))


@pytest.mark.parametrize("name", MAKERS)
def test_a_batch_gives_the_maps_of_single_pictures_and_every_family_can_see(
    name: str, folder_of: Callable[[str], Path]
) -> None:
    maker = load(name, folder_of(name))
    shown = pictures()
    batch = maker.batch(shown, [WORDS, WORDS[:1], WORDS[1:]])
    assert [len(maps) for maps in batch] == [2, 1, 1]
    for picture, maps, wanted in zip(shown, batch, (WORDS, WORDS[:1], WORDS[1:]), strict=True):
        for (values, score), words in zip(maps, wanted, strict=True):
            alone, own = maker(picture, words)
            assert np.isfinite(values).all()
            assert values == pytest.approx(alone, abs=1e-4 * max(1.0, float(np.abs(alone).max())))
            assert score == pytest.approx(own, abs=1e-5)
            assert 0 <= score <= 1
    # Grad-CAM is 0 everywhere if the gradient is negative everywhere, so not every map varies.
    assert max(values.std() for maps in batch for values, _ in maps) > 0
    assert not np.allclose(batch[0][0][0], batch[0][1][0])
    assert not np.allclose(batch[0][0][0], batch[1][0][0])


def text_of(model: Any, words: str) -> torch.Tensor:
    """The ensemble of a finding's sentences, one sentence at a time."""
    each = [normalize(model.texts([text])[0], dim=0) for text in read_prompts(None).positive(words)]
    return normalize(torch.stack(each).mean(0), dim=0)


def plain_patches(name: str, model: Any, pixels: torch.Tensor) -> torch.Tensor:
    """The patches of one picture in the common space, written out from the published definition."""
    inner = model._model
    if name == "clip":
        states = inner.vision_model(pixels, output_hidden_states=True).hidden_states[-1]
        return inner.vision_model.post_layernorm(states[0, 1:]) @ inner.visual_projection.weight.T
    if name == "siglip":
        states = inner.vision_model(pixels).last_hidden_state[0]
        return torch.stack([inner.vision_model.head(state[None, None])[0] for state in states])
    if name == "open_clip vit":
        inner.visual.output_tokens = True
        try:
            return inner.visual(pixels)[1][0] @ inner.visual.proj
        finally:
            inner.visual.output_tokens = False
    if name == "open_clip timm":
        return inner.visual.head(inner.visual.trunk.forward_features(pixels)[0, 1:])
    features: list[torch.Tensor] = []
    hook = inner.visual.layer4.register_forward_hook(lambda module, given, output: features.append(output))
    inner.visual(pixels)
    hook.remove()
    pool = inner.visual.attnpool
    places = features[0][0].flatten(1).T
    return (places @ pool.v_proj.weight.T + pool.v_proj.bias) @ pool.c_proj.weight.T + pool.c_proj.bias


COSINES = [name for name, (family, _) in MAKERS.items() if family == "clip-cosine"]


@pytest.mark.parametrize("name", COSINES)
def test_cosine_maps_equal_a_plain_second_implementation(name: str, folder_of: Callable[[str], Path]) -> None:
    folder = folder_of(name)
    model = clip_models.read_clip(folder, "cpu")
    side = model.format.side
    (picture,) = pictures(1, side)  # of the input's size, so that nothing is cropped
    values, score = load(name, folder)(picture, WORDS[0])
    with torch.no_grad():
        pixels = torch.from_numpy(model.format.to_input(picture)[0])[None]
        patches = plain_patches(name, model, pixels)
        text = text_of(model, WORDS[0])
        expected = [float(patch @ text / patch.norm() / text.norm()) for patch in patches]
    assert values.ravel() == pytest.approx(expected, abs=1e-5)
    assert 0 < score < 1


@pytest.mark.parametrize("name", ["clip", "siglip"])
def test_the_picture_given_to_a_model_is_that_of_its_own_processor(name: str, folder_of: Callable[[str], Path]) -> None:
    from transformers import AutoImageProcessor

    folder = folder_of(name)
    model = clip_models.read_clip(folder, "cpu")
    for shape in ((90, 120), (200, 71), (64, 64)):
        (picture,) = pictures(1, shape)
        theirs = AutoImageProcessor.from_pretrained(folder, local_files_only=True)(
            np.repeat(picture[..., None], 3, axis=2), return_tensors="np"
        )["pixel_values"][0]
        ours = model.format.to_input(picture)[0]
        assert ours.shape == theirs.shape
        assert np.abs(ours - theirs).max() < 0.05  # a grey level and a half: another implementation of bicubic


GRADIENTS = ["gradcam clip", "gradcam siglip", "gradcam vit", "gradcam resnet", "gradcam timm"]


@pytest.mark.parametrize("name", GRADIENTS)
def test_grad_cam_equals_pytorch_grad_cams(name: str, folder_of: Callable[[str], Path]) -> None:
    folder = folder_of(name)
    model = clip_models.read_clip(folder, "cpu")
    shown = pictures(2, model.format.side)
    ours = load(name, folder).batch(shown, [WORDS, WORDS])
    text = {words: text_of(model, words).detach() for words in WORDS}

    class Similarity(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.inner = model._model

        def forward(self, pixels: torch.Tensor) -> torch.Tensor:
            whole = normalize(model.whole(pixels), dim=-1)
            return torch.stack([whole @ text[words] for words in WORDS], dim=1)

    pixels = torch.stack([torch.from_numpy(model.format.to_input(picture)[0]) for picture in shown])
    target = model.target()
    theirs = reference_cams(
        Similarity(), target.module, pixels, len(WORDS), None if target.grid is None else target.as_grid
    )
    for row in range(2):
        for column in range(2):
            expected = theirs[column][row]
            assert ours[row][column][0] == pytest.approx(expected, abs=1e-5 * max(1.0, float(expected.max())))


def reference_cams(network: Any, layer: Any, pixels: torch.Tensor, outputs: int, reshape: Any) -> list[np.ndarray]:
    """pytorch-grad-cam's maps of each output, before it stretches them to the picture and to 0 … 1."""
    from pytorch_grad_cam import GradCAM
    from pytorch_grad_cam.utils.model_targets import ClassifierOutputTarget

    network.eval()
    for part in network.parameters():
        part.requires_grad_(True)
    found = []
    with GradCAM(model=network, target_layers=[layer], reshape_transform=reshape) as cam:
        for output in range(outputs):
            targets = [ClassifierOutputTarget(output)] * len(pixels)
            cam(pixels.clone(), targets)
            activations = cam.activations_and_grads.activations[0].cpu().data.numpy()
            gradient = cam.activations_and_grads.gradients[0].cpu().data.numpy()
            found.append(np.maximum(cam.get_cam_image(pixels, layer, targets, activations, gradient), 0))
    return found


def test_the_classifiers_grad_cam_equals_pytorch_grad_cams(folder_of: Callable[[str], Path]) -> None:
    maker = load("classifier", folder_of("classifier"))
    shown = pictures(2, (tiny.SIDE, tiny.SIDE))
    pixels = torch.stack([torch.from_numpy(maker._format.to_input(picture)[0]) for picture in shown])
    assert pixels.shape[1] == 1
    assert float(pixels.abs().max()) <= 1024
    ours = maker.batch(shown, [WORDS, WORDS])
    theirs = reference_cams(maker._network, maker._network[1], pixels, 2, None)
    for row in range(2):
        for column in range(2):
            expected = theirs[column][row]
            assert ours[row][column][0] == pytest.approx(expected, abs=1e-5 * max(1.0, float(expected.max())))
    with torch.no_grad():
        assert ours[1][0][1] == pytest.approx(float(maker._network(pixels)[1, 0].sigmoid()), abs=1e-6)


def test_recording_a_layer_changes_no_output(folder_of: Callable[[str], Path]) -> None:
    maker = load("classifier", folder_of("classifier"))
    pixels = torch.rand(1, 1, 64, 64)
    with torch.no_grad():
        before = maker._network(pixels)
    with gradients.Recorder(maker._network[1]):
        during = maker._network(pixels)
    assert torch.equal(before, during.detach())


@pytest.mark.parametrize(("finding", "count"), [("pleural effusion", 2), ("pneumonia", 1)])
def test_attention_of_words_to_regions_by_loops(finding: str, count: int, folder_of: Callable[[str], Path]) -> None:
    maker = load("attention", folder_of("attention"))
    (picture,) = pictures(1, (tiny.SIDE, tiny.SIDE))
    values, _ = maker(picture, finding)
    with torch.no_grad():
        pixels = torch.from_numpy(maker.format.to_input(picture)[0])[None]
        network = maker._trunk._network
        x = network.maxpool(network.relu(network.bn1(network.conv1(pixels))))
        local = network.layer3(network.layer2(network.layer1(x)))[0].flatten(1).T
        regions = local @ maker._local.weight.T + maker._local.bias
        begin, words = maker._text.words(finding)
        assert len(words) == count  # without the tokens of begin and end
        shares = [[float(torch.exp(region @ word)) for word in (*begin, *words)] for region in regions]
        shares = [[one / sum(row) for one in row] for row in shares]
        columns = []
        for word in range(1, 1 + count):
            powers = [np.exp(maker._temperature * row[word]) for row in shares]
            columns.append([power / sum(powers) for power in powers])
    assert values.ravel() == pytest.approx(np.mean(columns, axis=0), abs=1e-5)
    assert np.ptp(values) > 1e-4  # also for a single word


def test_a_decoders_attention_sums_to_one_and_its_output_is_torchs_own(folder_of: Callable[[str], Path]) -> None:
    from chexqa.eval.map_models.query_decoder import decode

    maker = load("query", folder_of("query"))
    queries, memory = torch.randn(2, 3, 24), torch.randn(2, 16, 24)
    with torch.no_grad():
        output, attention = decode(maker._decoder, queries, memory)
        assert torch.allclose(output, maker._decoder(queries, memory), atol=1e-5)
        first = maker._decoder.layers[0]
        own = first.norm1(queries + first.self_attn(queries, queries, queries, need_weights=False)[0])
        heads = first.multihead_attn(own, memory, memory, average_attn_weights=False)[1]
    assert torch.allclose(attention[0], heads.mean(dim=1), atol=1e-5)
    values, _ = maker(pictures(1, (64, 64))[0], WORDS[0])
    assert values.sum() == pytest.approx(1, abs=1e-5)


def test_the_command_makes_maps_of_cropped_pictures_that_cover_the_whole_radiograph(
    folder_of: Callable[[str], Path], tmp_path: Path, cli: Cli
) -> None:
    lines = []
    for number, picture in enumerate(pictures(2, (96, 160))):
        cv2.imwrite(str(tmp_path / f"{number}.png"), picture)
        lines += [{"case_id": f"{number}/{finding}", "image": f"{number}.png", "finding": finding, "present": False}
                  for finding in ("effusion", "edema")]  # fmt: skip
    (tmp_path / "cases.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    out = tmp_path / "maps"
    code, printed, err = cli("heatmaps", "make", tmp_path, "--maker", "clip-cosine", "--weights", folder_of("clip"),
                             "--domain", "general", "-o", out)  # fmt: skip
    assert (code, err) == (0, "")
    assert "made 4 maps" in printed
    values = read_map(out / map_name("0/effusion", "effusion"))
    assert values.shape[1] / values.shape[0] == pytest.approx(160 / 96, rel=0.1)
    assert (values[:, 0] == values.min()).all()  # the crop's left
    assert pl.read_csv(out / "scores.csv")["score"].is_between(0, 1).all()
    about = json.loads((out / "maker.json").read_text())
    assert about["domain"] == "general"
    assert len(about["weights"]) == 64


def spoil(folder: Path, name: str, change: Callable[[Path], object]) -> str:
    """Return the message for a folder that was changed."""
    from chexqa.files.errors import InputError

    MAKERS[name][1](folder)
    change(folder)
    with pytest.raises(InputError) as caught:
        load(name, folder)
    return str(caught.value)


def rewritten(key: str, tensor: torch.Tensor | None, file: str = "model.pt") -> Callable[[Path], None]:
    def change(folder: Path) -> None:
        state = torch.load(folder / file)
        state.pop(key)
        torch.save(state if tensor is None else {**state, key: tensor}, folder / file)

    return change


def plain_config(folder: Path) -> None:
    (folder / "map_model.json").write_text(json.dumps({"image": {**tiny.IMAGE, "trunk": "densenet121"}}))


def cut_weights(folder: Path) -> None:
    (folder / "model.safetensors").write_bytes(b"x" * 9)


def hide_text(folder: Path) -> None:
    (folder / "text").rename(folder / "words")


BAD: dict[str, tuple[str, Callable[[Path], object], str]] = {
    "empty": ("clip", lambda folder: [path.unlink() for path in folder.iterdir()], "has neither open_clip_config"),
    "cut weights": ("clip", cut_weights, "cannot read the model"),
    "no tokenizer": ("clip", lambda folder: [path.unlink() for path in folder.glob("token*")], "has no tokenizer"),
    "cut state": ("classifier", lambda folder: (folder / "model.pt").write_bytes(b"PK"), "cannot be read as weights"),
    "two files": ("classifier", lambda folder: (folder / "b.pt").write_bytes(b"x"), "must have exactly one file of "
                                                                                    "weights"),
    "no key": ("classifier", rewritten("classifier.bias", None), "missing classifier.bias"),
    "shape": ("classifier", rewritten("classifier.bias", torch.zeros(9)), "the shapes of the weights"),
    "no labels": ("classifier", plain_config, "has no 'labels'"),
    "no config": ("query", lambda folder: (folder / "map_model.json").unlink(), "has no map_model.json"),
    "no text": ("attention", hide_text, "has no folder 'text'"),
    "a module": ("attention", lambda folder: torch.save(torch.nn.Linear(1, 1), folder / "model.pt"), "cannot be read"),
    "open config": (
        "open_clip vit",
        lambda folder: (folder / "open_clip_config.json").write_text('{"model_cfg": {}}'),
        "has no 'model_cfg' with embed_dim",
    ),
    "open keys": (
        "open_clip vit",
        rewritten("visual.proj", None, "open_clip_pytorch_model.bin"),
        "missing visual.proj",
    ),
    "open text": ("open_clip timm", hide_text, "text model somebody/bert is missing"),
}  # fmt: skip


@pytest.mark.parametrize("what", BAD)
def test_a_bad_folder_of_weights_is_one_sentence(what: str, tmp_path: Path) -> None:
    name, change, message = BAD[what]
    said = spoil(tmp_path, name, change)
    assert message in said
    assert "\n" not in said
    assert len(said) < 700


def test_a_finding_without_an_output_and_an_unknown_device_are_told(folder_of: Callable[[str], Path]) -> None:
    from chexqa.files.errors import InputError

    maker: Maker = load("classifier", folder_of("classifier"))
    with pytest.raises(InputError, match="no output for 'pneumothorax'"):
        maker(pictures(1)[0], "pneumothorax")
    chosen = model_list.choose("clip-cosine", folder_of("clip"))
    with pytest.raises(InputError, match="--device warp: this device cannot be used"):
        chosen.load("warp", read_prompts(None))
    assert chosen.family.load is not None
    assert Loading(folder_of("clip"), "cpu", read_prompts(None)).device == "cpu"


def test_a_symmetric_resnet_sees_half_a_cell_to_the_upper_left_of_its_map(tmp_path: Path) -> None:
    """Each halving of a ResNet keeps the first of two pixels, so cell i looks at pixel 16 i, not at the cell's middle.

    Published maps have this shift, too. A fault in putting maps back would add to it.
    """
    folder, side, count = tiny.local_contrastive(tmp_path, "cosine"), 256, 24
    state = torch.load(folder / "model.pt")
    filters = {key: torch.full_like(value, 1 / value[0].numel()) for key, value in state.items()
               if key.startswith("trunk.") and value.ndim == 4}  # fmt: skip
    torch.save({**state, **filters}, folder / "model.pt")
    record = json.loads((folder / "map_model.json").read_text())
    record["image"] |= {"side": [side, side], "policy": "stretch", "mean": [0.0] * 3, "std": [1.0] * 3}
    (folder / "map_model.json").write_text(json.dumps(record))
    random = np.random.default_rng(0)
    shown, middles = [np.full((side, side), 40, np.uint8)], random.integers(88, side - 88, (count, 2))
    for row, column in middles:
        shown.append(shown[0].copy())
        shown[-1][row - 8 : row + 8, column - 8 : column + 8] = 200
    blank, *maps = (made[0][0] for made in load("local cosine", folder).batch(shown, [WORDS[:1]] * (count + 1)))
    change = np.abs(np.stack(maps) - blank)
    cells = np.arange(16) + 0.5
    seen = np.stack([change.sum(axis=axis) @ cells / change.sum(axis=(1, 2)) for axis in (2, 1)], axis=1)
    assert (seen - middles / 16).mean(axis=0) == pytest.approx([0.5 - 0.5 / 16] * 2, abs=0.02)
