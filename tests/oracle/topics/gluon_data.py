"""``mx.gluon.data``: samplers, batches, datasets from files, image transforms."""

from __future__ import annotations

import gzip
import random
import struct
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from oracle.topics.images import png, write_records

__all__ = [
    "EPOCHS",
    "LOADERS",
    "PARTS",
    "SAMPLERS",
    "TRANSFORMS",
    "epochs",
    "folder_items",
    "image",
    "indices",
    "mnist_items",
    "part",
    "record",
    "record_items",
    "text_items",
    "transformed",
    "write_folder",
    "write_mnist",
    "write_texts",
]

EPOCHS = 3
SEED = 5

SAMPLERS: dict[str, Callable[[Any], Any]] = {
    "sequential": lambda data: data.SequentialSampler(5),
    "sequential_from": lambda data: data.SequentialSampler(4, start=3),
    "random": lambda data: data.RandomSampler(9),
    "filter": lambda data: data.FilterSampler(lambda x: x % 3 == 0, list(range(10, 24))),
}

PARTS: dict[str, Callable[[Any], Any]] = {
    "filter": lambda dataset: dataset.filter(lambda x: x % 2),
    "shard0": lambda dataset: dataset.shard(3, 0),
    "shard1": lambda dataset: dataset.shard(3, 1),
    "shard2": lambda dataset: dataset.shard(3, 2),
    "take": lambda dataset: dataset.take(4),
    "take_none": lambda dataset: dataset.take(0),
    "take_all": lambda dataset: dataset.take(None),
    "take_more": lambda dataset: dataset.take(99),
    "transform": lambda dataset: dataset.transform(lambda x: 3 * x),
    "eager": lambda dataset: dataset.transform(lambda x: 3 * x, lazy=False),
    "first": lambda dataset: dataset.transform_first(lambda x: x + 1),
    "chain": lambda dataset: dataset.take(9).transform(lambda x: x * x).filter(lambda x: x % 2),
}
"""Of the numbers from 0 to 10."""

LOADERS: dict[str, dict[str, Any]] = {
    "keep": {"last_batch": "keep"},
    "discard": {"last_batch": "discard"},
    "rollover": {"last_batch": "rollover"},
    "shuffled": {"shuffle": True},
    "shuffled_rollover": {"shuffle": True, "last_batch": "rollover"},
    "workers": {"shuffle": True, "num_workers": 2},
    "workers_rollover": {"num_workers": 2, "last_batch": "rollover", "prefetch": 1},
    "threads": {"shuffle": True, "num_workers": 2, "thread_pool": True},
}

TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "cast": lambda t: t.Cast("float16"),
    "to_tensor": lambda t: t.ToTensor(),
    "normalize": lambda t: t.Compose([t.ToTensor(), t.Normalize((0.1, 0.2, 0.3), (0.5, 0.25, 2))]),
    "normalize_alike": lambda t: t.Compose([t.ToTensor(), t.Normalize(0.5, 0.25)]),
    "resize": lambda t: t.Resize((7, 5)),
    "resize_square": lambda t: t.Resize(9),
    "resize_short": lambda t: t.Resize(7, keep_ratio=True),
    "resize_nearest": lambda t: t.Resize(7, True, 0),
    "resize_cubic": lambda t: t.Resize((20, 23), interpolation=2),
    "center_crop": lambda t: t.CenterCrop((6, 4)),
    "center_crop_larger": lambda t: t.CenterCrop(20),
    "center_crop_cubic": lambda t: t.CenterCrop((5, 17), interpolation=2),
    "crop": lambda t: t.CropResize(3, 2, 6, 5),
    "crop_resize": lambda t: t.CropResize(3, 2, 6, 5, (4, 9), 1),
    "random_resized_crop": lambda t: t.RandomResizedCrop((6, 7)),
    "random_resized_crop_square": lambda t: t.RandomResizedCrop(8, (0.3, 0.5), (0.5, 2), 2),
    "rotate": lambda t: t.Compose([t.ToTensor(), t.Rotate(30)]),
    "rotate_in": lambda t: t.Compose([t.ToTensor(), t.Rotate(-50, zoom_in=True)]),
    "rotate_out": lambda t: t.Compose([t.ToTensor(), t.Rotate(110, False, True)]),
    "random_rotation": lambda t: t.Compose([t.ToTensor(), t.RandomRotation((-40, 60))]),
    "random_rotation_rare": lambda t: t.Compose(
        [t.ToTensor(), t.RandomRotation((-40, 60), rotate_with_proba=0.5)]
    ),
    "random_apply": lambda t: t.RandomApply(t.Resize(5), p=0.5),
    "no_brightness": lambda t: t.RandomBrightness(0),
    "no_contrast": lambda t: t.RandomContrast(0),
    "no_saturation": lambda t: t.RandomSaturation(0),
    "no_lighting": lambda t: t.RandomLighting(0),
    "chain": lambda t: t.Compose(
        [t.Resize(14, True), t.CenterCrop(8), t.RandomBrightness(0), t.ToTensor(), t.Normalize(0.5)]
    ),
}

BATCHES = ("to_tensor", "normalize", "resize", "resize_short", "crop", "crop_resize", "rotate")
"""Those that take several images stacked."""


def image(seed: int = 0, *stacked: int) -> np.ndarray:
    """Return pixels (12, 15, 3) uint8, smooth and noisy."""
    y, x = np.mgrid[:12, :15]
    smooth = np.stack([9 * y + x, 3 * y + 7 * x, 5 * (x + y)], axis=-1)
    noise = np.random.RandomState(seed).randint(0, 90, (*stacked, *smooth.shape))
    return (smooth + noise).astype("uint8")


def indices(mx: Any, name: str) -> dict[str, np.ndarray]:
    """Return the samples of two epochs, and the sampler's length."""
    np.random.seed(SEED)
    sampler = SAMPLERS[name](mx.gluon.data)
    return {
        "rounds": np.array([list(sampler) for _ in range(2)]),
        "length": np.array(len(sampler)),
    }


def part(mx: Any, name: str) -> dict[str, np.ndarray]:
    """Return the examples of a derived dataset."""
    dataset = PARTS[name](mx.gluon.data.SimpleDataset(list(range(11))))
    return {"examples": np.array([dataset[place] for place in range(len(dataset))], "int64")}


def epochs(mx: Any, name: str) -> dict[str, np.ndarray]:
    """Return all batches of some epochs, and the length announced before each."""
    np.random.seed(SEED)
    data = np.arange(33, dtype="float32").reshape(11, 3)
    dataset = mx.gluon.data.ArrayDataset(mx.nd.array(data), np.arange(11))
    loader = mx.gluon.data.DataLoader(dataset, 4, **LOADERS[name])
    results = {}
    for epoch in range(EPOCHS):
        results[f"{epoch}_length"] = np.array(len(loader))
        for place, (images, labels) in enumerate(loader):
            results[f"{epoch}_{place}_data"] = images.asnumpy()
            results[f"{epoch}_{place}_label"] = labels.asnumpy()
    return results


def transformed(mx: Any, name: str) -> dict[str, np.ndarray]:
    """Return what a transform makes of three images in turn, and of a stack of them."""
    random.seed(SEED)
    np.random.seed(SEED)
    transform = TRANSFORMS[name](mx.gluon.data.vision.transforms)
    results = {
        f"image{seed}": transform(mx.nd.array(image(seed), dtype="uint8")).asnumpy()
        for seed in range(3)
    }
    if name in BATCHES:
        stacked = mx.nd.array(image(3, 2), dtype="uint8")
        results["stacked"] = transform(stacked).asnumpy()
    return results


def write_folder(folder: Path) -> None:
    """Write an image folder with two classes, and files to be skipped."""
    for number, name in enumerate(("cat/b.png", "cat/a.PNG", "ant/c.png")):
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_bytes(png(image(number)))
    (folder / "ant" / "read.me").write_text("no image")
    (folder / "labels.txt").write_text("no folder")


def folder_items(mx: Any, folder: Path, **options: Any) -> dict[str, np.ndarray]:
    """Return all images and labels of a folder."""
    dataset = mx.gluon.data.vision.ImageFolderDataset(str(folder), **options)
    found = _items(dataset)
    return {**found, "classes": np.array(dataset.synsets)}


def record_items(mx: Any, folder: Path, labels: int) -> dict[str, np.ndarray]:
    """Return all images and labels of a RecordIO file."""
    _, records = write_records(mx, folder, labels)
    return _items(mx.gluon.data.vision.ImageRecordDataset(records))


def write_mnist(folder: Path, count: int = 3) -> None:
    """Write digits as MNIST's files."""
    for part_name in ("train", "t10k"):
        pixels = np.random.RandomState(len(part_name)).randint(0, 256, (count, 28, 28))
        heads = {"images-idx3": (2051, count, 28, 28), "labels-idx1": (2049, count)}
        contents = {"images-idx3": pixels, "labels-idx1": pixels[:, 0, 0] % 10}
        for kind, head in heads.items():
            packed = gzip.compress(
                struct.pack(f">{len(head)}I", *head) + contents[kind].astype("uint8").tobytes()
            )
            (folder / f"{part_name}-{kind}-ubyte.gz").write_bytes(packed)


def mnist_items(mx: Any, folder: Path, train: bool) -> dict[str, np.ndarray]:
    """Return all digits and labels of MNIST's files."""
    return _items(mx.gluon.data.vision.MNIST(str(folder), train))


def write_texts(folder: Path) -> None:
    """Write lines of words as WikiText's files, some blank, words with more than one byte."""
    random = np.random.RandomState(SEED)
    words = ["the", "of", "= Élan =", "whale", "@-@", "n\u2019t", "<unk>", "sea"]
    for name, lines in (("train", 20), ("valid", 6), ("test", 3)):
        drawn = [random.choice(words, random.randint(0, 9)) for _ in range(lines)]
        text = "".join(f" {' '.join(line)} \n" for line in drawn)
        (folder / f"wiki.{name}.tokens").write_text(text, encoding="utf-8")


def text_items(mx: Any, folder: Path) -> dict[str, np.ndarray]:
    """Return the sequences of two segments, the second with the first's vocabulary, and it."""
    published = mx.gluon.contrib.data.text
    train = published.WikiText2(str(folder), "train", seq_len=4)
    valid = published.WikiText103(str(folder), "validation", train.vocabulary, 3)
    results = {
        f"{name}_{part_name}": np.array([sequence.asnumpy() for sequence in parts])
        for name, dataset in (("train", train), ("valid", valid))
        for part_name, parts in zip(("data", "label"), zip(*dataset, strict=True), strict=True)
    }
    counted = sorted(train.frequencies.items())
    return {
        **results,
        "length": np.array(len(valid)),
        "tokens": np.array(train.vocabulary.idx_to_token),
        "counted": np.array([token for token, _ in counted]),
        "counts": np.array([count for _, count in counted], "int64"),
    }


def record(mx: Any) -> dict[str, np.ndarray]:
    """Return what is stored."""
    results: dict[str, np.ndarray] = {}
    for kind, names, compute in (
        ("sampler", SAMPLERS, indices),
        ("part", PARTS, part),
        ("loader", LOADERS, epochs),
        ("transform", TRANSFORMS, transformed),
    ):
        for name in names:
            _add(results, f"{kind}/{name}", compute(mx, name))
    with tempfile.TemporaryDirectory() as folder:
        write_folder(Path(folder))
        _add(results, "folder", folder_items(mx, Path(folder)))
        _add(results, "folder_grey", folder_items(mx, Path(folder), flag=0))
    with tempfile.TemporaryDirectory() as folder:
        _add(results, "records", record_items(mx, Path(folder), 1))
        _add(results, "records_labels", record_items(mx, Path(folder), 2))
    with tempfile.TemporaryDirectory() as folder:
        write_mnist(Path(folder))
        mx.gluon.data.vision.datasets.download = lambda url, path, sha1_hash: str(
            Path(path) / url.rpartition("/")[2]
        )
        for train in (True, False):
            _add(results, f"mnist_{train}", mnist_items(mx, Path(folder), train))
    with tempfile.TemporaryDirectory() as folder:
        write_texts(Path(folder))
        mx.gluon.contrib.data.text.check_sha1 = lambda filename, sha1_hash: True
        _add(results, "text", text_items(mx, Path(folder)))
    return results


def _items(dataset: Any) -> dict[str, np.ndarray]:
    results = {}
    for place in range(len(dataset)):
        pixels, label = dataset[place]
        results[f"{place}_image"] = pixels.asnumpy()
        results[f"{place}_label"] = np.asarray(label)
    return results


def _add(results: dict[str, np.ndarray], name: str, found: dict[str, np.ndarray]) -> None:
    results.update({f"{name}/{key}": value for key, value in found.items()})
