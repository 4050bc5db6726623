"""Orders, batches, datasets and transforms against MXNet 1.9.1."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import core as mx
from oracle import golden_file
from oracle.topics import gluon_data


def golden(name: str) -> dict[str, np.ndarray]:
    return {
        key.removeprefix(f"{name}/"): value
        for key, value in golden_file.topic("gluon_data").items()
        if key.startswith(f"{name}/")
    }


def check(found: Mapping[str, np.ndarray], name: str, tolerance: float = 0.0) -> None:
    expected = golden(name)
    assert expected
    assert sorted(found) == sorted(expected)
    for key, value in expected.items():
        assert found[key].dtype == value.dtype, key
        if value.dtype.kind == "U":
            assert found[key].tolist() == value.tolist()
        else:
            np.testing.assert_allclose(found[key], value, rtol=0, atol=tolerance, err_msg=key)


@pytest.mark.parametrize("name", gluon_data.SAMPLERS)
def test_samplers_match_mxnets(name: str) -> None:
    check(gluon_data.indices(mx, name), f"sampler/{name}")


@pytest.mark.parametrize("name", gluon_data.PARTS)
def test_dataset_parts_match_mxnets(name: str) -> None:
    check(gluon_data.part(mx, name), f"part/{name}")


@pytest.mark.parametrize("name", gluon_data.LOADERS)
def test_batches_match_mxnets(name: str) -> None:
    check(gluon_data.epochs(mx, name), f"loader/{name}")


@pytest.mark.parametrize("name", gluon_data.TRANSFORMS)
def test_transforms_match_mxnets(name: str) -> None:
    found = gluon_data.transformed(mx, name)
    expected = golden(f"transform/{name}")
    assert sorted(found) == sorted(expected)
    for key, value in expected.items():
        assert found[key].dtype == value.dtype
        assert found[key].shape == value.shape
        # Bytes are equal except where OpenCV sums in single precision.
        atol = 1 if value.dtype == np.uint8 else 1e-5 * float(np.abs(value).max())
        difference = np.abs(found[key].astype("float64") - value.astype("float64"))
        assert difference.max() <= atol, key


@pytest.mark.filterwarnings("ignore:Ignoring ")
def test_image_folders_match_mxnets(tmp_path: Path) -> None:
    gluon_data.write_folder(tmp_path)
    check(gluon_data.folder_items(mx, tmp_path), "folder")
    # Colored files read as grey may differ by one: libraries weigh the colors differently.
    check(gluon_data.folder_items(mx, tmp_path, flag=0), "folder_grey", tolerance=1)


@pytest.mark.parametrize(("name", "labels"), [("records", 1), ("records_labels", 2)])
def test_image_records_match_mxnets(tmp_path: Path, name: str, labels: int) -> None:
    check(gluon_data.record_items(mx, tmp_path, labels), name)


@pytest.mark.parametrize("train", [True, False])
def test_mnist_matches_mxnets(tmp_path: Path, train: bool) -> None:
    gluon_data.write_mnist(tmp_path)
    check(gluon_data.mnist_items(mx, tmp_path, train), f"mnist_{train}")


def test_texts_match_mxnets(tmp_path: Path) -> None:
    gluon_data.write_texts(tmp_path)
    check(gluon_data.text_items(mx, tmp_path), "text")
