"""Copies, files, listings and binding; expected text is MXNet 1.9.1's."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path
from typing import Any

import pytest

import core as mx
from core.errors import FormatError
from core.symbol import symbol as symbol_module


@pytest.fixture(autouse=True)
def _names_from_zero() -> Any:
    with mx.name.NameManager():
        yield


def dense(data: Any = None, name: str = "fc", **attrs: Any) -> Any:
    return mx.sym.FullyConnected(data, num_hidden=10, name=name, **attrs)


def parts(name: str = "sc") -> Any:
    return mx.sym.SliceChannel(mx.sym.var("x"), num_outputs=3, name=name)


# -- files and copies -----------------------------------------------------------------------


def test_copies_are_independent() -> None:
    net = dense(mx.sym.var("a"))
    for other in (copy.copy(net), copy.deepcopy(net), pickle.loads(pickle.dumps(net))):
        assert other.tojson() == net.tojson()
        other._set_attr(__note__="1")
        other.get_children()[0]._set_attr(__note__="1")
        assert net.attr("__note__") is None
        assert net.get_children()[0].attr("__note__") is None


def test_files_record_np_shape_mode() -> None:
    net = mx.sym.var("a")
    with mx.np_shape(True):
        text = net.tojson()
    assert text.endswith(
        """  "heads": [[0, 0, 0]], 
  "attrs": {
    "is_np_shape": ["int", 1], 
    "mxnet_version": ["int", 10901]
  }
}"""
    )
    assert "is_np_shape" not in net.tojson()
    assert mx.sym.load_json(text).tojson() == net.tojson()


def test_a_saved_symbol_is_its_json(tmp_path: Path) -> None:
    net = dense(mx.sym.var("gr\u00fc\u00dfe", __note__="\u65e5\u672c"))
    path = str(tmp_path / "net-symbol.json")
    net.save(path)
    assert Path(path).read_bytes() == net.tojson().encode()
    assert mx.sym.load(path).tojson() == net.tojson()


def test_invalid_files_are_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="fname"):
        dense().save(3)
    with pytest.raises(TypeError, match="fname"):
        mx.sym.load(3)
    with pytest.raises(TypeError, match="fname"):
        mx.sym.load_json(b"{}")
    with pytest.raises(mx.MXNetError, match="cannot read"):
        mx.sym.load(str(tmp_path / "missing"))
    (tmp_path / "binary").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(FormatError, match="not UTF-8 text"):
        mx.sym.load(str(tmp_path / "binary"))


def test_amp_casts_can_be_left_out_of_json() -> None:
    a, b = mx.sym.var("a"), mx.sym.var("b")
    inner = mx.sym.amp_cast(mx.sym.amp_cast(a, dtype="float32"), dtype="float16", name="cast")
    both = mx.sym.amp_multicast(inner, b, num_outputs=2, name="multi")
    net = both[0] + both[1]
    assert "amp" not in net.tojson()
    assert '"name": "_plus0", \n      "inputs": [[0, 0, 0], [1, 0, 0]]' in net.tojson()
    assert "amp_multicast" in net.tojson(remove_amp_cast=False)
    assert mx.sym.amp_cast(a, dtype="float16").tojson().count("amp_cast") == 2
    assert "amp_multicast" in pickle.loads(pickle.dumps(net)).tojson(remove_amp_cast=False)


def test_debug_str_matches_mxnets() -> None:
    sc = parts()
    net = mx.sym.FullyConnected(sc[1], num_hidden=3, no_bias=True, name="fc")
    assert mx.sym.Group([net, mx.sym.var("d")]).debug_str() == (
        "Symbol Outputs:\n"
        "\toutput[0]=fc(0)\n"
        "\toutput[1]=d(0)\n"
        "Variable:x\n"
        "--------------------\n"
        "Op:SliceChannel, Name=sc\n"
        "Inputs:\n"
        "\targ[0]=x(0) version=0\n"
        "Attrs:\n"
        "\tnum_outputs=3\n"
        "Variable:fc_weight\n"
        "--------------------\n"
        "Op:FullyConnected, Name=fc\n"
        "Inputs:\n"
        "\targ[0]=sc(1)\n"
        "\targ[1]=fc_weight(0) version=0\n"
        "Attrs:\n"
        "\tno_bias=True\n"
        "\tnum_hidden=3\n"
        "Variable:d\n"
    )
    assert mx.sym.var("a").debug_str() == "Variable:a\n"


# -- execution ------------------------------------------------------------------------------


def _bind(symbol: Any, ctx: Any, args: Any, **options: Any) -> Any:
    return "bind", symbol, ctx, args, options


def _simple_bind(symbol: Any, ctx: Any, *, shapes: Any, **options: Any) -> Any:
    return "simple_bind", symbol, ctx, shapes, options


def test_binding_is_handed_to_the_executor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(symbol_module, "bind", _bind)
    monkeypatch.setattr(symbol_module, "simple_bind", _simple_bind)
    net = dense()
    kind, symbol, ctx, args, options = net.bind(mx.cpu(), {"fc_data": 1}, grad_req="add")
    assert (kind, symbol is net, ctx, args) == ("bind", True, mx.cpu(), {"fc_data": 1})
    assert options == {
        "args_grad": None,
        "grad_req": "add",
        "aux_states": None,
        "group2ctx": None,
        "shared_exec": None,
    }
    kind, symbol, ctx, shapes, options = net.simple_bind(
        mx.cpu(1), grad_req="null", type_dict={"fc_data": "float16"}, fc_data=(2, 3)
    )
    assert (kind, symbol is net, ctx, shapes) == (
        "simple_bind",
        True,
        mx.cpu(1),
        {"fc_data": (2, 3)},
    )
    assert options == {
        "grad_req": "null",
        "type_dict": {"fc_data": "float16"},
        "stype_dict": None,
        "group2ctx": None,
        "shared_arg_names": None,
        "shared_exec": None,
        "shared_buffer": None,
    }


def test_in_files_without_np_shape_0_means_unknown() -> None:
    """MXNet reads them so in np-shape mode, too; files of that mode write -1, and 0 is a length."""
    weight = mx.sym.var("w", shape=(3, 0))
    classic = mx.sym.FullyConnected(mx.sym.var("data"), weight, num_hidden=3).tojson()
    with mx.np_shape(True):
        loaded = mx.sym.load_json(classic)
        assert loaded.attr_dict()["w"]["__shape__"] == "(3, -1)"
        assert loaded.infer_shape(data=(2, 10))[0][1] == (3, 10)
        empty = mx.sym.load_json(mx.sym.var("v", shape=(10, 0)).tojson())
        assert empty.attr_dict()["v"]["__shape__"] == "(10, 0)"
    assert mx.sym.load_json(classic).attr_dict()["w"]["__shape__"] == "(3, 0)"
