"""``mx.image``: cropping, rotating and random augmentation, and its iterators."""

from __future__ import annotations

import json
import random
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from oracle.topics.images import png, write_records

__all__ = ["CASES", "DUMPS", "make_images", "record", "run_case", "write_boxes"]

SHAPE = (3, 8, 10)
RATIOS = (0.75, 1.33)


def picture(number: int = 0, dtype: str = "uint8") -> np.ndarray:
    """Return an image (height, width, 3)."""
    y, x = np.mgrid[: 24 + number, : 30 - number]
    noise = np.random.RandomState(number).randint(0, 40, (*y.shape, 3))
    return (np.stack([7 * y + x, 3 * y + 5 * x, 4 * (x + y)], -1) + noise).astype(dtype)


def boxes() -> np.ndarray:
    """Return the labels of two objects."""
    return np.array([[1, 0.1, 0.2, 0.6, 0.7], [2, 0.5, 0.4, 0.9, 0.95]])


def _image(mx: Any, dtype: str = "float32") -> Any:
    return mx.nd.array(picture(dtype="uint8").astype(dtype), dtype=dtype)


def _planes(mx: Any, count: int = 0) -> Any:
    image = picture().transpose(2, 0, 1).astype("float32")
    return mx.nd.array(image if not count else np.stack([image, image[:, ::-1]][:count]))


EIGEN = (np.array([55.46, 4.794, 1.148]), np.eye(3) / 2 + 0.1)

IMAGE_CASES: dict[str, Callable[[Any], Any]] = {
    "resize_short": lambda mx: mx.image.resize_short(_image(mx, "uint8"), 11),
    "resize_short_area": lambda mx: mx.image.resize_short(_image(mx, "uint8"), 11, 9),
    "fixed_crop": lambda mx: mx.image.fixed_crop(_image(mx, "uint8"), 3, 4, 9, 8),
    "fixed_crop_sized": lambda mx: mx.image.fixed_crop(_image(mx), 3, 4, 9, 8, (12, 5), 1),
    "random_crop": lambda mx: mx.image.random_crop(_image(mx, "uint8"), (9, 7))[0],
    "random_crop_small": lambda mx: mx.image.random_crop(_image(mx, "uint8"), (40, 7))[0],
    "center_crop": lambda mx: mx.image.center_crop(_image(mx, "uint8"), (9, 8))[0],
    "random_size_crop": lambda mx: mx.image.random_size_crop(
        _image(mx, "uint8"), (9, 7), 0.3, RATIOS, 3
    )[0],
    "random_size_crop_never": lambda mx: mx.image.random_size_crop(
        _image(mx, "uint8"), (9, 7), (1.0, 1.0), (3.0, 4.0)
    )[0],
    "color_normalize": lambda mx: mx.image.color_normalize(
        _image(mx), mx.nd.array([1, 2, 3]), mx.nd.array([4, 5, 6])
    ),
    "imrotate": lambda mx: mx.image.imrotate(_planes(mx), 20),
    "imrotate_in": lambda mx: mx.image.imrotate(_planes(mx), -35, zoom_in=True),
    "imrotate_out": lambda mx: mx.image.imrotate(_planes(mx), 35, zoom_out=True),
    "imrotate_batch": lambda mx: mx.image.imrotate(_planes(mx, 2), mx.nd.array([10, -80])),
    "random_rotate": lambda mx: mx.image.random_rotate(_planes(mx), (-30, 30)),
    "random_rotate_batch": lambda mx: mx.image.random_rotate(_planes(mx, 2), (-30, 30)),
}

AUGMENTERS: dict[str, Callable[[Any], Any]] = {
    "resize": lambda mx: mx.image.ResizeAug(12, 1),
    "force_resize": lambda mx: mx.image.ForceResizeAug((9, 20), 9),
    "random_crop": lambda mx: mx.image.RandomCropAug((9, 8)),
    "center_crop": lambda mx: mx.image.CenterCropAug((9, 8)),
    "sized_crop": lambda mx: mx.image.RandomSizedCropAug((9, 8), (0.2, 0.9), RATIOS, 10),
    "flip": lambda mx: mx.image.HorizontalFlipAug(0.7),
    "cast": lambda mx: mx.image.CastAug("float64"),
    "brightness": lambda mx: mx.image.BrightnessJitterAug(0.4),
    "contrast": lambda mx: mx.image.ContrastJitterAug(0.4),
    "saturation": lambda mx: mx.image.SaturationJitterAug(0.4),
    "hue": lambda mx: mx.image.HueJitterAug(0.4),
    "jitter": lambda mx: mx.image.ColorJitterAug(0.2, 0.3, 0.4),
    "lighting": lambda mx: mx.image.LightingAug(0.3, *EIGEN),
    "normalize": lambda mx: mx.image.ColorNormalizeAug(np.array([1.0, 2, 3]), None),
    "grey": lambda mx: mx.image.RandomGrayAug(1.0),
    "sequence": lambda mx: mx.image.SequentialAug(
        [mx.image.ResizeAug(12), mx.image.HorizontalFlipAug(1)]
    ),
}

LISTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "all": {
        "resize": 14,
        "rand_crop": True,
        "rand_resize": True,
        "rand_mirror": True,
        "mean": True,
        "std": True,
        "brightness": 0.1,
        "contrast": 0.2,
        "saturation": 0.3,
        "hue": 0.1,
        "pca_noise": 0.1,
        "rand_gray": 0.5,
        "inter_method": 1,
    },
    "means": {"rand_crop": True, "mean": np.array([1.0, 2.0, 3.0])},
}

DETECTING: dict[str, Callable[[Any], Any]] = {
    "borrow": lambda mx: mx.image.DetBorrowAug(mx.image.ForceResizeAug((9, 8), 1)),
    "flip": lambda mx: mx.image.DetHorizontalFlipAug(1.0),
    "crop": lambda mx: mx.image.DetRandomCropAug(min_object_covered=0.3, area_range=(0.2, 0.9)),
    "crop_fixed": lambda mx: mx.image.DetRandomCropAug(0.1, 1.0, (0.3, 0.5), 0.2, 20),
    "pad": lambda mx: mx.image.DetRandomPadAug(area_range=(1.5, 3.0), pad_val=(1, 2, 3)),
    "select": lambda mx: mx.image.DetRandomSelectAug(
        [mx.image.DetHorizontalFlipAug(1.0), mx.image.DetRandomPadAug()], 0.2
    ),
    "crops": lambda mx: mx.image.CreateMultiRandCropAugmenter(
        [0.1, 0.5], area_range=[(0.2, 1.0), (0.4, 1.0)], skip_prob=0.1
    ),
}

DETECTION_LISTS: dict[str, dict[str, Any]] = {
    "plain": {},
    "all": {
        "resize": 20,
        "rand_crop": 0.7,
        "rand_pad": 0.7,
        "rand_mirror": True,
        "rand_gray": 0.3,
        "mean": True,
        "std": True,
        "brightness": 0.1,
        "contrast": 0.1,
        "saturation": 0.1,
        "hue": 0.1,
        "pca_noise": 0.1,
        "inter_method": 1,
        "min_object_covered": [0.1, 0.3],
    },
}

DUMPS = {
    **{f"image/{name}": make for name, make in AUGMENTERS.items()},
    **{f"detection/{name}": make for name, make in DETECTING.items()},
}

ITERATORS: dict[str, dict[str, Any]] = {
    "records": {},
    "indexed": {"path_imgidx": True, "shuffle": True},
    "part": {"path_imgidx": True, "num_parts": 2, "part_index": 1, "batch_size": 1},
    "discard": {"last_batch_handle": "discard"},
    "roll_over": {"path_imgidx": True, "last_batch_handle": "roll_over"},
    "list_file": {"path_imglist": True, "shuffle": True},
    "list": {"imglist": True, "last_batch_handle": "roll_over"},
    "labels": {"imglist": 2, "label_width": 2},
    "augmented": {"path_imgidx": True, "rand_crop": True, "rand_mirror": True, "mean": True},
    "detection": {"boxes": True},
    "detection_rolled": {"boxes": True, "last_batch_handle": "roll_over", "rand_mirror": True},
}

CASES = [
    *(f"function/{name}" for name in IMAGE_CASES),
    *(f"augmenter/{name}" for name in AUGMENTERS),
    *(f"list/{name}" for name in LISTS),
    *(f"detection/{name}" for name in DETECTING),
    *(f"detection_list/{name}" for name in DETECTION_LISTS),
    *(f"iterator/{name}" for name in ITERATORS),
]


def run_case(mx: Any, case_id: str) -> dict[str, np.ndarray]:
    """Return the arrays of a case, from fixed seeds."""
    kind, _, name = case_id.partition("/")
    random.seed(11)
    np.random.seed(12)
    if kind == "function":
        return {"out": IMAGE_CASES[name](mx).asnumpy()}
    if kind == "augmenter":
        augmenter = AUGMENTERS[name](mx)
        dtype = "uint8" if name in ("resize", "force_resize", "sized_crop") else "float32"
        return {f"out{i}": augmenter(_image(mx, dtype)).asnumpy() for i in range(3)}
    if kind == "list":
        return {"out": _applied(mx.image.CreateAugmenter(SHAPE, **LISTS[name]), mx)}
    if kind == "iterator":
        return _iterate(mx, dict(ITERATORS[name]))
    if kind == "detection":
        augmenters = [DETECTING[name](mx)]
    else:
        augmenters = mx.image.CreateDetAugmenter(SHAPE, **DETECTION_LISTS[name])
    results = {}
    for number in range(3):
        image, label = _image(mx, "uint8"), boxes()
        for one in augmenters:
            image, label = one(image, label)
        results[f"image{number}"], results[f"boxes{number}"] = image.asnumpy(), label
    return results


def _applied(augmenters: list[Any], mx: Any) -> np.ndarray:
    image = _image(mx, "uint8")
    for one in augmenters:
        image = one(image)
    return image.asnumpy()


def make_images(folder: Path, count: int = 5) -> list[str]:
    """Write some images; return their names."""
    names = [f"{number}.png" for number in range(count)]
    for number, name in enumerate(names):
        (folder / name).write_bytes(png(picture(number)))
    return names


def write_boxes(mx: Any, folder: Path) -> str:
    """Write records of images with one to three objects; return the file's path."""
    path = str(folder / "boxes.rec")
    writer = mx.recordio.MXRecordIO(path, "w")
    for number in range(5):
        objects = [
            [k, 0.1 * k, 0.2, 0.1 * k + 0.3, 0.2 + 0.1 * k] for k in range(1, 2 + number % 3)
        ]
        label = np.array([2, 5, *np.ravel(objects)], dtype="float32")
        header = mx.recordio.IRHeader(0, label, number, 0)
        writer.write(mx.recordio.pack(header, png(picture(number))))
    writer.close()
    return path


def _iterate(mx: Any, options: dict[str, Any]) -> dict[str, np.ndarray]:
    options = {"batch_size": 2, "data_shape": SHAPE, **options}
    with tempfile.TemporaryDirectory() as path:
        folder = Path(path)
        if options.pop("boxes", False):
            options["path_imgrec"] = write_boxes(mx, folder)
            return _batches(mx.image.ImageDetIter(**options))
        _add_source(mx, folder, options)
        return _batches(mx.image.ImageIter(**options))


def _add_source(mx: Any, folder: Path, options: dict[str, Any]) -> None:
    if "path_imglist" in options or "imglist" in options:
        names, width = make_images(folder), options.get("label_width", 1)
        labels = [[number + part / 2 for part in range(width)] for number in range(len(names))]
        if "imglist" in options:
            options["imglist"] = [[*own, name] for own, name in zip(labels, names, strict=True)]
        else:
            lines = [f"{7 * i}\t{own[0]}\t{names[i]}\n" for i, own in enumerate(labels)]
            (folder / "x.lst").write_text("".join(lines))
            options["path_imglist"] = str(folder / "x.lst")
        options["path_root"] = str(folder)
        return
    index, options["path_imgrec"] = write_records(mx, folder)
    if options.get("path_imgidx"):
        options["path_imgidx"] = index


def _batches(iterator: Any) -> dict[str, np.ndarray]:
    shapes = [list(shape) for _, shape in (*iterator.provide_data, *iterator.provide_label)]
    results = {"shapes": np.array(json.dumps(shapes))}
    for number in range(2):
        for place, batch in enumerate(iterator):
            key = f"round{number}_batch{place}"
            results[f"{key}_data"] = batch.data[0].asnumpy().astype("float32")
            results[f"{key}_label"] = batch.label[0].asnumpy()
            results[f"{key}_pad"] = np.array(batch.pad)
        iterator.reset()
    return results


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return the arrays of every case, and the augmenters' dumps."""
    results = {
        f"{case_id}/{key}": value
        for case_id in CASES
        for key, value in run_case(mx, case_id).items()
    }
    for name, make in DUMPS.items():
        results[f"dumps/{name}"] = np.array(json.dumps(make(mx).dumps()))
    return results
