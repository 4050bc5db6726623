"""Csv files as spreadsheets and programs write them. Expected values: by hand, and Python's csv."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.domain.dataset import MAX_CLASSES, TEXT
from app.errors.tree import Damaged
from app.files.csv_files import inspect_csv, load_csv, preview_csv

LIMIT = 1 << 20
TABLE = "sepal,petal,kind\n5.1,1.4,setosa\n7.0,4.7,versicolor\n6.3,6.0,setosa\n"
VALUES = {"sepal": [5.1, 7.0, 6.3], "petal": [1.4, 4.7, 6.0], "kind": [0, 1, 0]}


def read(tmp_path: Path, content: bytes | str) -> dict[str, list[Any]]:
    """Return the arrays of a file, after comparing their descriptions with them."""
    path = tmp_path / "file.csv"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    infos = inspect_csv(path, LIMIT)
    loaded = load_csv(path, [one.name for one in infos])
    for info in infos:
        assert loaded[info.name].shape == info.shape
        assert loaded[info.name].dtype.name == info.dtype
    return {name: values.tolist() for name, values in loaded.items()}


@pytest.mark.parametrize(
    "content",
    {
        "plain": TABLE,
        "byte order mark": b"\xef\xbb\xbf" + TABLE.encode(),
        "UTF-16, little": b"\xff\xfe" + TABLE.encode("utf-16-le"),
        "UTF-16, big": b"\xfe\xff" + TABLE.encode("utf-16-be"),
        "UTF-16 with tabs, as Excel's Unicode text": TABLE.replace(",", "\t").encode("utf-16"),
        "carriage returns": TABLE.replace("\n", "\r\n"),
        "of an old Macintosh": TABLE.replace("\n", "\r"),
        "semicolons": TABLE.replace(",", ";"),
        "semicolons and decimal commas": TABLE.replace(",", ";").replace(".", ","),
        "tabs": TABLE.replace(",", "\t"),
        "declared separator": "sep=;\r\n" + TABLE.replace(",", ";"),
        "quotes": TABLE.replace("setosa", '"setosa"').replace("sepal", '"sepal"'),
        "spaces": TABLE.replace(",", ", "),
        "empty rows of a spreadsheet": TABLE + ",,\n,,\n",
    }.items(),
    ids=lambda case: case[0],
)
def test_forms_of_one_table(tmp_path: Path, content: tuple[str, bytes | str]) -> None:
    assert read(tmp_path, content[1]) == VALUES


@pytest.mark.parametrize("separator", [",", ";"])
def test_digits_around_an_underscore_are_a_text(tmp_path: Path, separator: str) -> None:
    table = "month,sales\n2020_01,5\n2020_02,6\n".replace(",", separator)
    assert read(tmp_path, table) == {"month": [0, 1], "sales": [5, 6]}


def test_classes_are_sorted_and_previewed_as_texts(tmp_path: Path) -> None:
    path = tmp_path / "file.csv"
    path.write_text("y,x\nno,1\nyes,2\nmaybe,3\n")
    y, x = inspect_csv(path, LIMIT)
    assert (y.name, y.dtype, y.classes) == ("y", "int64", ("maybe", "no", "yes"))
    assert (x.name, x.dtype, x.classes) == ("x", "float64", ())
    assert load_csv(path, ["y"])["y"].tolist() == [1, 2, 0]
    head = {name: values.tolist() for name, values in preview_csv(path, 2).items()}
    assert head == {"y": ["no", "yes"], "x": [1, 2]}


def test_a_byte_order_mark_before_numbers(tmp_path: Path) -> None:
    """It made a header of the first row."""
    assert read(tmp_path, b"\xef\xbb\xbf1,2\n3,4\n") == {"data": [[1, 2], [3, 4]]}


def test_a_first_row_of_numbers_and_texts_above_its_like_is_no_header(tmp_path: Path) -> None:
    found = read(tmp_path, "5.1,1.4,setosa\n7.0,4.7,versicolor\n")
    assert found == {"column1": [5.1, 7], "column2": [1.4, 4.7], "column3": [0, 1]}


def test_a_header_may_contain_years(tmp_path: Path) -> None:
    assert read(tmp_path, "name,2019\n1,2\n") == {"name": [1], "2019": [2]}


def test_quoted_cells_contain_separators_and_line_ends(tmp_path: Path) -> None:
    content = 'x,note\n1,"one, or\ntwo"\n2,"three ""or"" four"\n3,"one, or\ntwo"\n'
    assert read(tmp_path, content) == {"x": [1, 2, 3], "note": [0, 1, 0]}
    path = tmp_path / "file.csv"
    assert inspect_csv(path, LIMIT)[1].classes == ("one, or\ntwo", 'three "or" four')


@pytest.mark.parametrize(("count", "extra"), [(MAX_CLASSES + 1, ""), (100, "x" * 900)])
def test_too_many_texts_are_no_classes(tmp_path: Path, count: int, extra: str) -> None:
    path = tmp_path / "file.csv"
    rows = "".join(f"{n},name {n}{extra}\n" for n in range(count))
    path.write_text(f"x,name\n{rows}")
    x, name = inspect_csv(path, LIMIT)
    assert x.dtype == "float64"
    assert (name.dtype, name.classes) == (TEXT, ())


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("a,b\n1,2\n3\n", r"line 3: got 1 cells, expected 2"),
        ("a,b\n1,2\n3,x\n", r"line 3, column 'b'.*'x'.*expected a number"),
        ("a,b\n1,2\n\n3,\n", r"line 4, column 'b'.*an empty cell.*expected a number"),
        ("a,b\n1,x\n2,\n", r"line 3, column 'b'.*an empty cell.*expected the name of a class"),
        ('a,b\n1,"x\ny"\n2,"x\n', r"line 4.*unexpected end of data"),
        ('a,b\n1,2\n3,"4"5\n', r"line 3.*double quotes"),
        (",a\n0,1\n", r"no name for column 1.*index=False"),
        ("a;b\n1,5;2\n1.5;2\n", r"line 3, column 'a'.*same decimal mark"),
        ("a;b\n1,5;2\n1.234,5;2\n", r"line 3, column 'a'.*none between thousands"),
        ('a,b\n"1,234",5\n', r"line 2, column 'a'.*'1,234'.*none between thousands"),
        ("a;b\n1.234.567;5\n", r"line 2, column 'a'.*none between thousands"),
        (b"a,b\n1,caf\xe9\n", r"line 2.*byte 0xe9.*UTF-8.*CSV UTF-8"),
        ("a,b\n1,2\n".encode("utf-16-le"), r"line 1.*zero byte.*byte order mark"),
        (b"\xff\xfea\x00,\x00\x00\xd8", r"UTF-16"),
        ("a\n" + "x" * (1 << 18) + "\n", r"line 2.*field larger"),
        ("a\n" + "x" * 1001 + "\n", r"line 2, column 'a'.*1,001 characters"),
    ],
)
def test_what_cannot_be_meant_is_refused(tmp_path: Path, content: str | bytes, said: str) -> None:
    with pytest.raises(Damaged, match=said):
        read(tmp_path, content)


@settings(
    max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    rows=st.lists(
        st.tuples(
            st.floats(allow_nan=False, allow_infinity=False),
            st.text(st.characters(exclude_categories=["C", "Z"]), min_size=1).map("t{}".format),
        ),
        min_size=1,
    ),
    separator=st.sampled_from(",;\t"),
    end=st.sampled_from(["\n", "\r\n"]),
)
def test_what_python_writes_is_read(
    tmp_path: Path, rows: list[tuple[float, str]], separator: str, end: str
) -> None:
    stream = io.StringIO()
    writer = csv.writer(stream, delimiter=separator, lineterminator=end)
    writer.writerow(["number", "text"])
    writer.writerows([(repr(number), text) for number, text in rows])
    found = read(tmp_path, stream.getvalue())
    names = sorted({text for _, text in rows})
    assert found["text"] == [names.index(text) for _, text in rows]
    np.testing.assert_array_equal(found["number"], [number for number, _ in rows])
