"""Search for the picture that the name of a mask or of an annotation stands for.

Shapes are converted to the pixels of this picture.
"""

from __future__ import annotations

import os
import re
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cached_property
from pathlib import Path, PurePosixPath
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np

from chexqa.files.errors import InputError
from chexqa.files.jsonio import is_file
from chexqa.imaging import dicom, masks
from chexqa.imaging.mask_source import proportional, read_segments
from chexqa.sources.anatomy import bare
from chexqa.sources.case_records import PICTURES, Tally, composed, size_of

OWN_SIZE = "pictures"  # value of --drawn-on: the size of the given pictures
_SIZE = re.compile(r"(\d{2,5})x(\d{2,5})")
AS_SHARES = (
    "has no coordinate above 1, so the coordinates seem to be fractions of the picture's sides; multiply x by the "
    "width and y by the height."
)
# Names that tools give to the pictures they export, with the original name as the first group (and its suffix as the
# second): Label Studio's "0a1b2c3d-x.png" and Roboflow's "x_png.rf.0a1b….jpg".
_ROBOFLOW = re.compile(r"(.+)_(png|jpg|jpeg)\.rf\.[0-9A-Za-z]+\.\w+")
_RENAMED = (re.compile(r"[0-9a-f]{8}-(.+)"), _ROBOFLOW)
# Names that data sets give to the mask of x: QaTa-COV19's "mask_x" and Shenzhen's "x_mask".
_OF_MASKS = (re.compile("mask[ _-](.+)", re.I), re.compile("(.+)[ _-](?:mask|seg|segmentation|label)", re.I))
_CHANNEL = "_0000"  # nnU-Net's picture of the mask x is x_0000
_LEAST_IN_CORNER = 20  # pictures with shapes from which their place says something
_SCALED = (
    "of another size than the annotations were drawn on: their shapes are scaled, so check with 'chexqa show' that "
    "they lie where they should"
)


class Annotation(NamedTuple):
    """One shape on a picture, or the statement that a finding is absent.

    - ``image``: the picture's name in the data set.
    - ``label``: the name of the shape's class in the data set.
    - ``source``: the polygons, run lengths or box; None if the finding is absent.
    - ``where``: the place of the annotation, for error messages.
    - ``frame``: the size ``(H, W)`` of the picture on which polygons or a box were drawn; None if it is not stated.
    """

    image: str
    label: str
    source: dict[str, Any] | None
    where: str
    patient_id: str | None = None
    frame: tuple[int, int] | None = None


def file_names(name: str) -> list[str]:
    """Return the file names under which to look for a picture, likeliest first, given its name or its mask's name.

    Parts that data sets and annotation tools add to a name are removed:

    >>> file_names("mask_x.png")[:3]
    ['mask_x.png', 'mask_x', 'x']
    >>> file_names("0a1b2c3d-x.png")[:3]
    ['0a1b2c3d-x.png', '0a1b2c3d-x', 'x.png']
    """
    renamed = [".".join(filter(None, found.groups())) for form in _RENAMED if (found := form.fullmatch(name))]
    return [name, bare(name), *renamed, *_without_mask(name), bare(name) + _CHANNEL]


def of_roboflow(name: str) -> str | None:
    """Return the name that a picture had before Roboflow exported it; None if its name is not one of Roboflow's.

    >>> of_roboflow("train/x_png.rf.0a1b2c3d.jpg"), of_roboflow("x.png")
    ('x.png', None)
    """
    found = _ROBOFLOW.fullmatch(name.replace("\\", "/").rsplit("/", 1)[-1])
    return found and ".".join(found.groups())


def _without_mask(name: str) -> list[str]:
    """Return "x" for the name of a mask, such as "mask_x.png", otherwise nothing."""
    return [found[1] for form in _OF_MASKS if (found := form.fullmatch(bare(name)))]


def files_below(root: Path, other: Path | None) -> Iterator[Path]:
    """Yield each file below ``root`` as a path relative to ``root``; skip hidden files and the subfolder ``other``."""
    apart = None if other is None else Path(os.path.relpath(os.path.realpath(other), os.path.realpath(root)))
    for path in sorted(root.rglob("*")):
        inside = path.relative_to(root)
        if not any(part.startswith(".") for part in inside.parts) and (apart == Path() or apart not in inside.parents):
            yield inside


def shared_folders(path: str, name: str) -> int:
    """Return how many of the last folders of ``path`` and ``name`` are equal.

    ``path`` is a picture's path, ``name`` the name of a picture or mask, with folders. The folders are compared from
    the last one backwards, up to the first difference. File names are not compared.

    >>> shared_folders("set/p1/x.png", "masks/p1/x"), shared_folders("p1/x.png", "p2/x")
    (1, 0)
    """
    own, said = (composed(one).replace("\\", "/").split("/")[-2::-1] for one in (path, name))
    return next((count for count, (one, other) in enumerate(zip(own, said, strict=False)) if one != other),
                min(len(own), len(said)))  # fmt: skip


class Pictures:
    """Lookup of the pictures of a folder by path, by file name, or by file name without suffix."""

    def __init__(self, root: Path, drawn_on: str | None = None, masks_folder: Path | None = None) -> None:
        """Take the folder ``root`` of pictures.

        - ``drawn_on``: the size of the pictures on which shapes without a recorded size were drawn, such as "1024x800"
          (width, height); "pictures" or None for the sizes of the pictures in ``root``.
        - ``masks_folder``: a folder without pictures; if it is ``root``, subfolders with a picture's name have none.
        """
        self.root, self._scaled, self._in_corner = root, dict[str, str](), dict[str, bool]()
        self._masks_folder = masks_folder
        found = _SIZE.fullmatch(drawn_on or "")
        self._frame = (int(found[2]), int(found[1])) if found else None
        if found is None and drawn_on not in (None, OWN_SIZE):
            raise InputError(f"--drawn-on {drawn_on}: write WIDTHxHEIGHT in pixels, such as 1024x1024, or {OWN_SIZE}.")
        self._sizes: dict[str, tuple[int, int] | None] = {}

    def find(self, name: str, uses: Counter[str]) -> str | None:
        """Return the path of the picture with this name, relative to the folder; None if there is no such picture.

        ``uses`` has the number of names that lead to each path. Raises ``InputError`` if the name fits several
        pictures, or if another name leads to the same picture.
        """
        found = self.fitting(name)
        if len(found) > 1:
            raise InputError(
                f"{name}: {len(found)} pictures in {self.root} have this name ({found[0]}, {found[1]}); move "
                "each picture to the path that the annotations name."
            )
        if found and uses[found[0]] > 1 and found[0] != name:
            raise InputError(
                f"{name}: the picture {found[0]} in {self.root} fits this name, and also another name in the "
                "annotations; move each picture to the path that the annotations name."
            )
        return found[0] if found else None

    def first(self, name: str) -> str | None:
        """Return the path, relative to the folder, of the first picture with this name; None if there is none."""
        return next(iter(self.fitting(name)), None)

    def size(self, name: str) -> tuple[int, int] | None:
        """Return the size ``(H, W)``, as displayed, of the first picture with this name; None if it is unknown."""
        if name not in self._sizes:
            found = self.first(name)
            self._sizes[name] = None if found is None else size_of(self.root / found)
        return self._sizes[name]

    def fitted(self, one: Annotation) -> dict[str, Any]:
        """Return an annotation's shape in pixels of its picture, scaled if it was drawn on a picture of another size.

        Raise ``InputError`` if the two pictures have different proportions.
        """
        assert one.source is not None, "shapes without a source are not kept"
        source, size = one.source, self.size(one.image)
        frame = source.get("size") or one.frame or self._frame
        if size is None or frame is None or size == tuple(frame):
            return source
        if "size" not in source and not proportional(frame, size):
            shape = "box was" if "box" in source else "polygons were"
            raise InputError(
                f"{one.where}: its {shape} drawn on a picture of {frame[1]} x {frame[0]} px, but {one.image} has other "
                f"proportions ({size[1]} x {size[0]} px); give the pictures that the annotations were drawn on."
            )
        self._scaled.setdefault(one.image, f"{frame[1]} x {frame[0]} to {size[1]} x {size[0]} px")
        if "size" in source:  # scaled when the mask is read
            return source
        by = np.array([size[1] / frame[1], size[0] / frame[0]])
        if "box" in source:
            return {"box": (np.array(source["box"]) * [*by, *by]).round(3).tolist()}
        return {"polygons": [(np.array(part) * by).round(3).tolist() for part in source["polygons"]]}

    def check_inside(self, one: Annotation) -> None:
        """Raise ``InputError`` if a box or an outline extends beyond the picture on which it was drawn.

        The data set or the user states the size of that picture; if neither does, the size of the picture file is used.
        Also raise ``InputError`` if the data set and the user state different sizes.
        """
        frame = one.frame or self._frame
        if one.frame is not None and self._frame not in (None, one.frame):
            given, stated = (f"{width} x {height} px" for height, width in filter(None, (self._frame, one.frame)))
            raise InputError(
                f"{one.where}: --drawn-on gives the size {given}, but the data set states {stated} for {one.image}; "
                "leave out --drawn-on, or correct the size in the data set."
            )
        size, source = frame or self.size(one.image), one.source
        if source is None or size is None or "size" in source:
            return
        x, y, width, height = source.get("box", (0, 0, 0, 0))
        points = [(x + width, y + height), *(point for polygon in source.get("polygons", ()) for point in polygon)]
        right, bottom = max(x for x, _ in points), max(y for _, y in points)
        margin = masks.OUTSIDE * max(size)
        if right > size[1] + margin or bottom > size[0] + margin:
            raise InputError(
                f"{one.where}: the shape reaches x = {right:g}, y = {bottom:g}, but {one.image} "
                f"{'is said to have' if frame else 'has'} only {size[1]} x {size[0]} px; give the pictures that the "
                "annotations were drawn on, or their size (--drawn-on)."
            )
        in_corner = 2 * right <= size[1] and 2 * bottom <= size[0]
        self._in_corner[one.image] = in_corner and self._in_corner.get(one.image, True)

    def remark(self, remarks: list[str]) -> None:
        """Add a remark if shapes were scaled, and one if all checked shapes lie in a picture's upper left quarter."""
        scaled = Tally()
        for image, sizes in self._scaled.items():
            scaled.add(f"{image} ({sizes})")
        scaled.remark(remarks, "picture", _SCALED)
        if len(self._in_corner) >= _LEAST_IN_CORNER and all(self._in_corner.values()):
            remarks.append(
                f"{len(self._in_corner)} pictures have shapes, all of them in the upper left quarter, as if they were "
                "drawn on smaller pictures than stated: check with 'chexqa show' that they lie where they should, or "
                "correct the pictures' width and height in the file or --drawn-on"
            )

    @cached_property
    def paths(self) -> list[str]:
        """The paths of all pictures below the folder, except hidden ones."""
        found = [path for path in files_below(self.root, self._masks_folder) if path.suffix.lower() in PICTURES]
        if self._masks_folder is not None and self.root.samefile(self._masks_folder):
            folders = {path.with_suffix("") for path in found}
            found = [path for path in found if folders.isdisjoint(path.parents)]
        return [path.as_posix() for path in found]

    @cached_property
    def _by_name(self) -> dict[str, list[str]]:
        found: dict[str, list[str]] = {}
        for path in map(PurePosixPath, self.paths):
            for key in (path.name, path.stem):
                found.setdefault(composed(key), []).append(str(path))
        return found

    def fitting(self, name: str) -> list[str]:
        """Return the paths of the pictures that fit a name best; the name may have folders and may lack the suffix.

        A picture fits if its file name is the same. If several pictures fit, those that share the most folders with the
        name are returned: for ``p1/x``, this is ``set/p1/x.png`` and not ``set/p2/x.png``.
        """
        if ".." not in Path(name).parts and not Path(name).is_absolute() and is_file(self.root / name):
            return [name]
        asked = composed(name).replace("\\", "/")
        # Label Studio escapes names as in web addresses, and puts "?d=" before the path of a local file.
        ways = dict.fromkeys((asked, unquote(asked).rpartition("?d=")[2]))
        keys = ((key, way) for way in ways for key in file_names(way.rsplit("/", 1)[-1]))
        fits, said = next(((self._by_name[key], way) for key, way in keys if key in self._by_name), ([], asked))
        most = max((shared_folders(path, said) for path in fits), default=0)
        return [path for path in fits if shared_folders(path, said) == most]

    def has_picture_of_mask(self, name: str) -> bool:
        """Return True for the name of a mask such as "x_mask" if there is a picture "x"."""
        return any(map(self.fitting, _without_mask(name)))

    @cached_property
    def by_uid(self) -> dict[str, str]:
        """The path of each DICOM picture, by its SOP Instance UID."""
        found = {dicom.about(self.root / path).uid: path for path in self.paths
                 if path.lower().endswith(dicom.SUFFIXES)}  # fmt: skip
        return {str(uid): path for uid, path in found.items() if uid is not None}


def check_box(box: list[float], where: str) -> None:
    """Raise ``InputError`` if a box ``[x, y, width, height]`` seems to be in fractions of the picture, not in pixels.

    This is so if all coordinates of its corners are from 0 to 1.
    """
    if all(0 <= value <= 1 for value in (*box, box[0] + box[2], box[1] + box[3])):
        raise InputError(f"{where}: its box {AS_SHARES}")


def picture_of_segments(path: Path, name: str, files: Pictures) -> tuple[str, bool]:
    """Return a name by which to find a DICOM SEG's picture, and True if the SEG itself refers to this picture.

    - If the SEG refers to one of ``files``: the name of this picture.
    - If ``files`` has a picture with the SEG's file name, but the SEG refers to a different picture: the empty name.
    - In all other cases: ``name``, the name of the SEG's file.
    """
    uid = read_segments(path).picture or ""
    fits = [files.by_uid[uid]] if uid in files.by_uid else files.fitting(uid)
    if fits:
        return (fits[0], True) if len(fits) == 1 else (uid, False)
    # Only a DICOM picture, which has a UID of its own, is known to be another one.
    return "" if uid and {*files.fitting(name)} & {*files.by_uid.values()} else name, False


def paired(
    keys: dict[Path, str], files: Pictures, masks: Path, lost: Tally, leave_out: Callable[[str], None],
    whole: bool = False,
) -> list[tuple[Path, str]]:  # fmt: skip
    """Return each mask with the path of its picture; ``keys`` has the picture's name (with folders) for each mask.

    If at least one mask lies in its picture's folder, masks that lie in another folder than their picture are left out.
    They and the masks without a picture are added to ``lost``.

    - ``leave_out``: called with a reason for each mask whose name fits several pictures.
    - ``whole``: True if each mask file has all shapes of its picture. Then only one mask file is returned for each
      picture: the one whose name is most like the picture's. ``leave_out`` is called for the others.
    """
    found, fitting = [], _fitting(keys, files)
    for path, key in keys.items():
        fits = fitting[key]
        if len(fits) > 1:
            apart = len({PurePosixPath(one).parent for one in fits}) == len(fits)
            way = "put the masks into a folder with the path of their picture"
            way = way if apart else "rename all but one of the pictures, each with its mask"
            leave_out(f"{path}: {len(fits)} pictures in {files.root} have this name ({fits[0]}, {fits[1]}); {way}")
        elif fits:
            found.append((path, fits[0]))
        else:
            lost.add(path.relative_to(masks).as_posix())
    if any(shared_folders(picture, keys[path]) for path, picture in found):
        astray = {path for path, picture in found
                  if "/" in picture and "/" in keys[path] and not shared_folders(picture, keys[path])}  # fmt: skip
        for path in sorted(astray):
            lost.add(path.relative_to(masks).as_posix())
        found = [(path, picture) for path, picture in found if path not in astray]
    return _one_file_each(found, keys, leave_out) if whole else found


def _fitting(keys: dict[Path, str], files: Pictures) -> dict[str, list[str]]:
    """Return the pictures that fit each name of ``keys``.

    If each name that fits a picture also fits one with nnU-Net's "_0000", the latter is meant. If no other name then
    fits the first picture, both are returned.
    """
    exact = {key: files.fitting(key) for key in keys.values()}
    channels = {key: files.fitting(key + _CHANNEL) for key, fits in exact.items() if fits}
    if not all(channels.values()):
        return exact
    used = {picture for fits in channels.values() for picture in fits}
    return exact | {key: list(dict.fromkeys([*(one for one in exact[key] if one not in used), *fits]))
                    for key, fits in channels.items()}  # fmt: skip


def _one_file_each(
    found: list[tuple[Path, str]], keys: dict[Path, str], leave_out: Callable[[str], None]
) -> list[tuple[Path, str]]:
    """Return the one file of each picture whose name is most like the picture's; leave out pictures with several."""
    of_picture: dict[str, list[Path]] = {}
    for path, picture in found:
        of_picture.setdefault(picture, []).append(path)
    kept = []
    for picture, paths in of_picture.items():
        likeness = {path: _likeness(keys[path], picture) for path in paths}
        first, *others = sorted(paths, key=lambda path: likeness[path], reverse=True)
        if others and likeness[first] == likeness[others[0]]:
            leave_out(
                f"{first}: {picture} also has the file {others[0]}, and a picture takes all its masks from one file; "
                "remove the wrong one"
            )
            continue
        for other in others:
            leave_out(f"{other}: {picture} also has the file {first}, whose name fits better; remove the wrong one")
        kept.append((first, picture))
    return kept


def _likeness(key: str, picture: str) -> tuple[bool, bool, int]:
    """Return how like a mask's name ``key`` is to a picture's path: the same path, the same name, the same folders."""
    names = [composed(one) for one in (picture, bare(picture), bare(picture).removesuffix(_CHANNEL))]
    ends = [one.rsplit("/", 1)[-1] for one in names]
    return composed(key) in names, composed(key).rsplit("/", 1)[-1] in ends, shared_folders(picture, key)
