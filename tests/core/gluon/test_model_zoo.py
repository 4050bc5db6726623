"""Networks of ``mx.gluon.model_zoo``: parameters and graphs match MXNet's, and pretrained files."""

from __future__ import annotations

import json
import zlib
from pathlib import Path

import numpy as np
import pytest

import core as mx
from core.gluon.model_zoo import vision

# Of networks of MXNet 1.9.1 with ten classes: how many parameters there are, a checksum of their
# names (without the network's prefix) and shapes, and one of the graph's operators.
NETWORKS = {
    "alexnet": (16, 1966123487, 873486516),
    "resnet101_v1": (588, 2292923047, 1137803263),
    "resnet101_v2": (514, 2774531386, 963108124),
    "resnet152_v1": (877, 1411604320, 582292057),
    "resnet152_v2": (769, 3346421744, 135022698),
    "resnet18_v1": (102, 3083476207, 2203441974),
    "resnet18_v2": (98, 2914095894, 396938844),
    "resnet34_v1": (182, 4036781347, 4021166084),
    "resnet34_v2": (178, 2600218737, 2215473392),
    "resnet50_v1": (299, 2921234316, 2311774505),
    "resnet50_v2": (259, 4080175121, 2537415487),
    "vgg11": (22, 2866885647, 2511118300),
    "vgg11_bn": (54, 958202257, 804032202),
    "vgg13_bn": (66, 1357710251, 637914702),
    "vgg16": (32, 2830523789, 441130567),
    "vgg19_bn": (102, 1056468378, 4063215090),
    "densenet121": (606, 1591586061, 857948416),
    "densenet161": (806, 3574383507, 3940044912),
    "densenet169": (846, 1172756694, 2923048492),
    "densenet201": (1006, 2155147686, 2068275079),
    "inceptionv3": (472, 2817925565, 2659325354),
    "mobilenet0.25": (137, 1222132332, 2112405759),
    "mobilenet0.5": (137, 3455467610, 2112405759),
    "mobilenet0.75": (137, 1125084120, 2112405759),
    "mobilenet1.0": (137, 1741568447, 2112405759),
    "mobilenetv2_0.25": (266, 4170695248, 2698497182),
    "mobilenetv2_0.5": (266, 465454566, 2698497182),
    "mobilenetv2_0.75": (266, 1306384547, 2698497182),
    "mobilenetv2_1.0": (266, 451304733, 2698497182),
    "squeezenet1.0": (52, 1173195979, 415092818),
    "squeezenet1.1": (52, 2066338529, 2234422124),
}


@pytest.mark.parametrize("name", NETWORKS)
def test_parameters_and_graphs_match_mxnets(name: str) -> None:
    net = vision.get_model(name, classes=10)
    parameters = net.collect_params()
    named = [[key.split("_", 1)[1], list(one.shape)] for key, one in parameters.items()]
    nodes = json.loads(net(mx.sym.Variable("data")).tojson())["nodes"]
    found = (
        len(named),
        zlib.crc32(json.dumps(named).encode()),
        zlib.crc32(" ".join(node["op"] for node in nodes).encode()),
    )
    assert found == NETWORKS[name]


@pytest.mark.parametrize("version", [1, 2])
def test_thumbnail_networks_keep_the_image_size_in_the_first_layer(version: int) -> None:
    net = vision.get_resnet(version, 18, thumbnail=True, classes=4, prefix="small_")
    net.initialize(mx.init.Xavier())
    assert net.features[version - 1].name == "small_conv0"
    x = mx.nd.array(np.random.default_rng(1).random((2, 3, 16, 16)))
    plain = net(x).asnumpy()
    assert plain.shape == (2, 4)
    net.hybridize()
    np.testing.assert_allclose(net(x).asnumpy(), plain, rtol=1e-4, atol=1e-5)


def test_pretrained_parameters_come_from_local_files(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="nothing is downloaded"):
        vision.resnet18_v1(pretrained=True, root=str(tmp_path))
    net = vision.resnet18_v1(classes=3)
    net.initialize()
    x = mx.nd.ones((1, 3, 32, 32))
    expected = net(x).asnumpy()
    net.save_parameters(str(tmp_path / "resnet18_v1-0a1b2c3d.params"))
    again = vision.get_model("ResNet18_v1", classes=3, pretrained=True, root=str(tmp_path))
    np.testing.assert_array_equal(again(x).asnumpy(), expected)


def test_unknown_networks_are_refused() -> None:
    with pytest.raises(ValueError, match=r"resnet18_v3 is not supported.*resnet18_v1"):
        vision.get_model("resnet18_v3")
    with pytest.raises(AssertionError, match="number of layers"):
        vision.get_resnet(1, 19)
    with pytest.raises(AssertionError, match="version"):
        vision.get_resnet(3, 18)
