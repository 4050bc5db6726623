"""Records as files: read back unchanged, or recognized as damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.domain.checkpoint import CheckpointTag
from app.domain.module import (
    SINGLE,
    BindSpec,
    InputDesc,
    ModuleRecord,
    OptimizerSpec,
    ParamsSource,
)
from app.errors.tree import Damaged, NotFound
from app.files.json_records import decode_record, encode_record, read_record

RECORD = ModuleRecord(
    name="a",
    symbols={SINGLE: '{"nodes": []}', "[10,20]": "{}"},
    bind=BindSpec(data_shapes=(InputDesc(name="data", shape=(2, 3)),), grad_req={"w": "add"}),
    optimizer=OptimizerSpec(name="adam", options={"learning_rate": 0.1}),
    compression_params={"type": "2bit", "threshold": 0.5},
    params=ParamsSource.CHECKPOINT,
    checkpoint=CheckpointTag(3, 120),
    created_at=1763800000.123456,
)


def test_a_record_is_read_back_as_written() -> None:
    assert decode_record(ModuleRecord, encode_record(RECORD), "here") == RECORD


@given(st.data())
def test_any_changed_byte_is_detected_or_harmless(data: st.DataObject) -> None:
    content = bytearray(encode_record(RECORD))
    position = data.draw(st.integers(0, len(content) - 1))
    content[position] ^= 1 << data.draw(st.integers(0, 7))
    try:
        read = decode_record(ModuleRecord, bytes(content), "here")
    except Damaged:
        return
    assert read == RECORD


def test_unreadable_is_distinguished_from_missing(tmp_path: Path) -> None:
    with pytest.raises(NotFound):
        read_record(ModuleRecord, tmp_path / "module.json")
    (tmp_path / "module.json").mkdir()
    with pytest.raises(Damaged, match=r"module\.json"):
        read_record(ModuleRecord, tmp_path / "module.json")
