"""Source pixels of a page: the samples of a radiograph in its original size and bit depth, in one script for each case.

A page that is opened from disk can load only scripts and pictures, and browsers do not let it read the pixels of a
picture. The samples are therefore written as a script, which passes zlib data in base64 to the function
``sourcePixels``. The page loads the script when it needs the samples.
"""

from __future__ import annotations

import base64
import json
import zlib
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from chexqa.contract.cases import Case, image_key
from chexqa.files.errors import InputError
from chexqa.files.jsonio import sha256, write_bytes
from chexqa.files.opening import read_whole
from chexqa.imaging.read import Samples, read_samples
from chexqa.review.sheets.masks_sheet import Masks
from chexqa.review.sheets.questions import Questions

SOURCE = "source"
_MOST_BYTES = 2**30  # largest script that is read; the largest pictures give a fifth of this
_LEVEL = 5  # compression level of zlib; higher levels take longer and save little


class PutSource(NamedTuple):
    """Script file with the pixel samples of a case's radiograph, in the folder of a page.

    ``name`` has no extension. ``added`` is the number of bytes written, 0 if the file existed already.
    """

    name: str
    added: int


def put_source(material: Questions | Masks, case_id: str, home: Path, work: Path) -> PutSource:
    """Write into ``home`` the script file with the pixel samples of a case's radiograph.

    A copy is written into ``work``, from which later pages get the script.

    Raises ``InputError`` if the radiograph's file is unknown, or if the file is not the radiograph in the benchmark.
    """
    case = material.source(case_id)
    if case is None:
        raise InputError(
            f"--source-pixels: the radiograph of case '{case_id}' is not known; give --manifest with the manifest that "
            "the case comes from."
        )
    kept = work / SOURCE / sha256(str(case.image).encode())
    if not kept.exists():
        if isinstance(material, Questions):
            _check_same(material, case_id, case)
        kept.parent.mkdir(exist_ok=True)
        write_bytes(kept, script(read_samples(case.image)))
    data = read_whole(kept, _MOST_BYTES, work)
    name = json.loads(data[data.index(b"(") + 1 : data.index(b",")])
    file = home / SOURCE / f"{name}.js"
    if file.exists():
        return PutSource(name, 0)
    file.parent.mkdir(exist_ok=True)
    write_bytes(file, data)
    return PutSource(name, len(data))


def _check_same(material: Questions, case_id: str, case: Case) -> None:
    _, keys = material.bench.key("the source pixels")
    expected = keys[case_id].measures.get("image_key")
    if expected is not None and image_key(case) != expected:
        raise InputError(
            f"{case.manifest}, line {case.line}: the radiograph differs from the one in the benchmark; give --manifest "
            "with the manifest that the benchmark was made from."
        )


def script(samples: Samples) -> bytes:
    """Return the script that gives a page the samples of one radiograph.

    The script's data are compressed by zlib and written in base64. The data begin with a grey level for each sample
    value. The differences between neighbouring samples follow: first all high bytes, then all low bytes. Each sample is
    compared with the sample at its left or, in the first column, with the sample above. Differences are coded so that
    small negative and small positive differences both become small numbers.
    """
    values = samples.values
    steps = np.empty_like(values)
    steps[:, 1:] = values[:, 1:] - values[:, :-1]
    steps[1:, 0] = values[1:, 0] - values[:-1, 0]
    steps[0, 0] = values[0, 0]
    signed = steps.view(np.int16)
    folded: npt.NDArray[np.uint16] = ((signed << 1) ^ (signed >> 15)).view(np.uint16)
    planes = [samples.shades, (folded >> 8).astype(np.uint8), (folded & 255).astype(np.uint8)]
    packed = zlib.compress(b"".join(plane.tobytes() for plane in planes), _LEVEL)
    about = {
        "height": values.shape[0], "width": values.shape[1], "top": len(samples.shades) - 1,
        "low": round(samples.low, 2), "high": round(samples.high, 2),
        "data": base64.b64encode(packed).decode(),
    }  # fmt: skip
    return f'sourcePixels("{sha256(packed)[:20]}",{json.dumps(about, separators=(",", ":"))});\n'.encode()
