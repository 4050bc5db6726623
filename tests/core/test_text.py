"""Vocabularies and embeddings of ``mx.contrib.text``."""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

import core as mx
from core.contrib import text

COUNTS = Counter(["some", "words", "and", "words", "and", "words"])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "vectors.txt"
    path.write_text("words 1 2\nand 3 4\n<none> 5 6\n")
    return path


def test_tokens_are_counted() -> None:
    counted = text.utils.count_tokens_from_str(" One two \n two ")
    assert counted == Counter({"two": 2, "One": 1})
    again = text.utils.count_tokens_from_str("one*two|Two", r"\*", r"\|", True, counted)
    assert again is counted
    assert counted == Counter({"two": 4, "One": 1, "one": 1})


def test_a_vocabulary_lists_frequent_tokens_first() -> None:
    vocabulary = text.vocab.Vocabulary(COUNTS, reserved_tokens=["<pad>"])
    assert vocabulary.idx_to_token == ["<unk>", "<pad>", "words", "and", "some"]
    assert len(vocabulary) == 5
    assert vocabulary.to_indices(["some", "other"]) == [4, 0]
    assert vocabulary.to_tokens([2, 0]) == ["words", "<unk>"]
    assert vocabulary.to_tokens(vocabulary.to_indices("and")) == "and"
    with pytest.raises(ValueError, match="index 5"):
        vocabulary.to_tokens(5)


@pytest.mark.parametrize(
    ("options", "tokens"),
    [
        ({"min_freq": 2}, ["<unk>", "words", "and"]),
        ({"most_freq_count": 1}, ["<unk>", "words"]),
        ({"most_freq_count": 1, "reserved_tokens": ["words"]}, ["<unk>", "words", "and"]),
        ({"unknown_token": "and"}, ["and", "words", "some"]),
    ],
)
def test_max_size_and_min_freq_limit_the_vocabulary(
    options: dict[str, object], tokens: list[str]
) -> None:
    assert text.vocab.Vocabulary(COUNTS, **options).idx_to_token == tokens


@pytest.mark.parametrize(
    "options",
    [{"min_freq": 0}, {"reserved_tokens": ["a", "a"]}, {"reserved_tokens": ["<unk>"]}],
)
def test_invalid_vocabularies_are_refused(options: dict[str, object]) -> None:
    with pytest.raises(AssertionError):
        text.vocab.Vocabulary(COUNTS, **options)


def test_vectors_are_read_from_a_file(file: Path) -> None:
    embedding = text.embedding.CustomEmbedding(str(file), init_unknown_vec=mx.nd.ones)
    assert (len(embedding), embedding.vec_len) == (4, 2)
    assert embedding.idx_to_vec.asnumpy().tolist() == [[1, 1], [1, 2], [3, 4], [5, 6]]
    assert embedding.get_vecs_by_tokens("AND").asnumpy().tolist() == [1, 1]
    assert embedding.get_vecs_by_tokens("AND", lower_case_backup=True).asnumpy()[0] == 3
    known = text.embedding.CustomEmbedding(str(file), unknown_token="<none>")
    assert known.get_vecs_by_tokens(["what", "and"]).asnumpy().tolist() == [[5, 6], [3, 4]]


def test_vectors_for_a_vocabulary_and_from_several_embeddings(file: Path) -> None:
    first = text.embedding.CustomEmbedding(str(file))
    second = text.embedding.CustomEmbedding(str(file), unknown_token="<none>")
    vocabulary = text.vocab.Vocabulary(COUNTS, reserved_tokens=["<pad>"])
    both = text.embedding.CompositeEmbedding(vocabulary, [first, second])
    assert both.idx_to_token == vocabulary.idx_to_token
    assert both.reserved_tokens == ["<pad>"]
    expected = [[0, 0, 5, 6], [0, 0, 5, 6], [1, 2, 1, 2], [3, 4, 3, 4], [0, 0, 5, 6]]
    assert both.idx_to_vec.asnumpy().tolist() == expected
    one = text.embedding.CustomEmbedding(str(file), vocabulary=vocabulary)
    np.testing.assert_array_equal(one.idx_to_vec.asnumpy(), np.array(expected)[:, :2])


def test_vectors_can_be_updated(file: Path) -> None:
    embedding = text.embedding.CustomEmbedding(str(file))
    embedding.update_token_vectors(["and", "<unk>"], mx.nd.array([[7, 7], [8, 8]]))
    embedding.update_token_vectors("words", mx.nd.array([9, 9]))
    assert embedding.idx_to_vec.asnumpy()[:, 0].tolist() == [8, 9, 7, 5]
    with pytest.raises(ValueError, match="other is unknown"):
        embedding.update_token_vectors("other", mx.nd.array([9, 9]))
    for wrong in (mx.nd.zeros((2, 2)), mx.nd.zeros(3), [1, 2]):
        with pytest.raises(AssertionError, match="new_vectors"):
            embedding.update_token_vectors("and", wrong)


@pytest.mark.parametrize("line", ["alone", "short 1 2 3"])
def test_malformed_lines_are_refused(file: Path, line: str) -> None:
    with file.open("a") as lines:
        lines.write(f"{line}\n")
    with pytest.raises(AssertionError, match="At line 4"):
        text.embedding.CustomEmbedding(str(file))


def test_headers_and_repeated_tokens_are_skipped(tmp_path: Path) -> None:
    path = tmp_path / "vectors.txt"
    path.write_text("2 2\nand 3 4\nand 5 6\n")
    with pytest.warns(UserWarning, match="likely a header|a second time"):
        embedding = text.embedding.CustomEmbedding(str(path))
    assert embedding.idx_to_vec.asnumpy().tolist() == [[0, 0], [3, 4]]
    with pytest.raises(ValueError, match="valid path"):
        text.embedding.CustomEmbedding(str(tmp_path / "missing"))


def test_published_vectors_are_read_from_local_files(tmp_path: Path) -> None:
    glove, fasttext = tmp_path / "glove", tmp_path / "fasttext"
    glove.mkdir()
    fasttext.mkdir()
    # As published: tokens with the delimiter or a line separator of other alphabets in them.
    lines = "the 1 2\n. . . 3 4\nat name@domain.com 5 6\nx\x85y 7 8\n"
    (glove / "glove.6B.50d.txt").write_text(lines, encoding="utf8")
    found = text.embedding.create(
        "glove", pretrained_file_name="glove.6B.50d.txt", embedding_root=str(tmp_path)
    )
    assert found.idx_to_token == ["<unk>", "the", ". . .", "at name@domain.com", "x\x85y"]
    assert found.idx_to_vec.asnumpy().tolist() == [[0, 0], [1, 2], [3, 4], [5, 6], [7, 8]]
    (fasttext / "wiki.simple.vec").write_text("2 2\nwords 1 2\nand 3 4\n")
    vocabulary = text.vocab.Vocabulary(COUNTS)
    with pytest.warns(UserWarning, match="likely a header"):
        named = text.embedding.FastText(
            embedding_root=str(tmp_path), vocabulary=vocabulary, init_unknown_vec=mx.nd.ones
        )
    assert named.idx_to_token == ["<unk>", "words", "and", "some"]
    assert named.idx_to_vec.asnumpy().tolist() == [[1, 1], [1, 2], [3, 4], [1, 1]]
    (fasttext / "mine.vec").write_text("words 1 2\n")  # published by nobody, but there
    assert text.embedding.FastText("mine.vec", str(tmp_path)).vec_len == 2


def test_published_vectors_are_read_from_their_archive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MXNET_HOME", str(tmp_path))
    folder = tmp_path / "embeddings" / "glove"
    folder.mkdir(parents=True)
    for archive, name in (
        ("glove.6B.zip", "glove.6B.100d.txt"),
        ("glove.twitter.27B.zip", "glove.twitter.27B.25d.txt"),
        ("glove.840B.300d.zip", "glove.840B.300d.txt"),
    ):
        with zipfile.ZipFile(folder / archive, "w") as files:
            files.writestr(name, "words 1 2\n")
            files.writestr("../outside.txt", "words 1 2\n")
        assert text.embedding.GloVe(name).vec_len == 2
        assert (folder / name).exists()
    assert not (folder.parent / "outside.txt").exists()
    assert text.embedding.GloVe().idx_to_token == ["<unk>", "words"]


def test_missing_published_vectors_are_named_with_their_address(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match=r"wiki\.de\.zip, from https://fasttext\.cc"):
        text.embedding.FastText("wiki.de.vec", str(tmp_path))
    with pytest.raises(KeyError, match=r"did you mean 'glove\.6B\.50d\.txt'"):
        text.embedding.GloVe("glove.6B.50.txt", str(tmp_path))
    names = text.embedding.get_pretrained_file_names()
    assert len(names["glove"]) == 10
    assert len(names["fasttext"]) == 327  # as in MXNet
    assert "wiki.multi.de.vec" in text.embedding.get_pretrained_file_names("fasttext")


def test_a_line_without_numbers_is_refused(file: Path) -> None:
    with file.open("a") as lines:
        lines.write("only words\n")
    with pytest.raises(ValueError, match=r"At line 4 .* only is followed by no numbers"):
        text.embedding.CustomEmbedding(str(file))


def test_custom_embeddings_are_registered_by_name(file: Path) -> None:
    @text.embedding.register
    class Mine(text.embedding._TokenEmbedding):
        pretrained_file_name_sha1: ClassVar[dict[str, str]] = {"mine.vec": "0"}

    assert isinstance(text.embedding.create("mine"), Mine)
    assert text.embedding.get_pretrained_file_names("mine") == ["mine.vec"]
    assert text.embedding.get_pretrained_file_names()["mine"] == ["mine.vec"]
    with pytest.raises(KeyError, match="nothing"):
        text.embedding.get_pretrained_file_names("nothing")
    created = text.embedding.create("CustomEmbedding", pretrained_file_path=str(file))
    assert len(created) == 4


def test_custom_registries_find_classes_by_name_and_alias() -> None:
    class Base:
        pass

    class Derived(Base):
        pass

    mx.registry.get_register_func(Base, "thing")(Derived)
    mx.registry.get_alias_func(Base, "thing")("other")(Derived)
    assert isinstance(mx.registry.get_create_func(Base, "thing")("OTHER"), Derived)
    assert mx.registry.get_registry(Base) == {"derived": Derived, "other": Derived}
    assert mx.registry.get_registry(mx.init.Initializer)["xavier"] is mx.init.Xavier
