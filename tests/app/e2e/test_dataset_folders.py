"""An operator's file registered as a dataset over HTTP, trained on, and left in place."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from app.cli.demo.tour import MNIST
from app.client import Client, ClientError
from app.client.local_server import running_server
from served import lenet
from served.processes import ENVIRONMENT


def test_a_fit_reads_a_file_in_place(tmp_path: Path) -> None:
    folder = tmp_path / "operator"
    folder.mkdir()
    file = folder / "mnist.npz"
    shutil.copy(MNIST, file)
    environment = {**ENVIRONMENT, "MODSERVE_DATASET_FOLDERS": json.dumps([str(folder)])}
    with (
        running_server(tmp_path / "server", environment=environment) as server,
        Client(server.url) as client,
    ):
        added = client.add_dataset("mnist", str(file))
        assert added["path"] == str(file)
        lenet.create(client, "lenet")
        job = client.wait(lenet.fit(client, "lenet", epochs=1))
        assert job["status"] == "succeeded"
        for path in (str(MNIST), "/etc/passwd", "mnist.npz"):
            with pytest.raises(ClientError, match="MODSERVE_DATASET_FOLDERS") as refused:
                client.add_dataset("other", path)
            assert refused.value.status == 422
        file.write_bytes(file.read_bytes()[:-1] + b"?")
        job = client.wait(lenet.fit(client, "lenet", epochs=1))
        assert (job["status"], job["error"]["code"]) == ("failed", "conflict")
        assert "has changed since it was added" in job["error"]["message"]
        with pytest.raises(ClientError, match="has changed since it was added"):
            client.preview_dataset("mnist")
        client.delete_dataset("mnist")
        assert file.exists()
        assert client.datasets() == []
