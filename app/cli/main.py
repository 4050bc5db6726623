"""The command ``modserve``."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli import commands
from app.cli.output import AsJson, error_as_json
from app.errors.tree import StartError
from app.garbage import collector_paused

if TYPE_CHECKING:
    from app.settings import Settings

__all__ = ["app", "main"]

_GROUPS = ("modules", "datasets", "checkpoints", "jobs")

# Without a default for --help, typer imports pydantic for each group, which takes 0.1 s.
_NO_HELP = {"help": False} | {name: {"help": False} for name in ("keys", *_GROUPS)}

app = typer.Typer(
    name="modserve",
    no_args_is_help=True,
    add_completion=False,  # modserve completion prints the script instead
    rich_markup_mode=None,  # rich text would double the time of --help and errors
    context_settings={"max_content_width": 120, "default_map": _NO_HELP},
)

_CLICK_ERROR: Any = typer.BadParameter.__mro__[2]
"""Base class of all command-line errors, which typer does not export."""
_INTERRUPTED = 130

_OPTIONS = {"models_dir": "models", "devices": "device"}
"""Settings whose options have different names."""
keys = typer.Typer(help="API keys of a server.", no_args_is_help=True)
app.add_typer(keys, name="keys")

DataDir = Annotated[Path | None, typer.Option(help="Folder of everything durable.")]


def _show_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"modserve {version('modserve')}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_show_version, is_eager=True, help="Show the version and exit."
        ),
    ] = False,
) -> None:
    """Train, fine-tune and serve MXNet Module models over HTTP, without MXNet."""


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[
        int | None, typer.Option(help="Port to listen on; 0 chooses a free one.")
    ] = None,
    data_dir: DataDir = None,
    models: Annotated[
        Path | None, typer.Option(help="Folder with one folder for each model to serve.")
    ] = None,
    device: Annotated[
        list[str] | None,
        typer.Option(help="cpu, gpu or gpu(1); repeat it for several devices."),
    ] = None,
    log_level: Annotated[str | None, typer.Option(help="debug, info, warning or error.")] = None,
    tls_cert: Annotated[Path | None, typer.Option(help="Certificate chain, for HTTPS.")] = None,
    tls_key: Annotated[Path | None, typer.Option(help="Its private key.")] = None,
    insecure: Annotated[
        bool,
        typer.Option("--insecure", help="Do not create an API key when listening beyond loopback."),
    ] = False,
) -> None:
    """Serve until Ctrl-C. Options not given come from MODSERVE_* or their defaults."""
    with collector_paused():
        from app.server import run_server

    given: dict[str, Any] = {
        "host": host,
        "port": port,
        "data_dir": data_dir,
        "models_dir": models,
        "devices": tuple(device) if device else None,
        "log_level": log_level,
        "tls_cert": tls_cert,
        "tls_key": tls_key,
    }
    settings = _read_settings({name: one for name, one in given.items() if one is not None})
    _check_restored(settings.data_dir)
    _ensure_key(settings, is_needed=not (insecure or _is_loopback(settings.host)))
    try:
        raise typer.Exit(run_server(settings))
    except OSError as error:
        where = f"{settings.host}:{settings.port}"
        raise typer.BadParameter(f"{where}: {error.strerror}", param_hint="--port") from None
    except StartError as error:
        raise typer.BadParameter(str(error), param_hint="--tls-cert") from None


def _check_restored(data_dir: Path) -> None:
    """Refuse a directory that is half restored, before a key is written there."""
    from app.cli.maintenance import check_restored
    from app.errors.tree import StartError

    try:
        check_restored(data_dir)
    except StartError as error:
        raise typer.BadParameter(str(error), param_hint="--data-dir") from None


def _ensure_key(settings: Settings, *, is_needed: bool) -> None:
    """Refuse to serve other machines if no key is required."""
    from app.cli.maintenance import ensure_key, given_key
    from app.errors.tree import StartError

    try:
        given = given_key(settings.api_key_text, settings.api_key_file)
        if given is None and is_needed:
            ensure_key(settings.data_dir)
    except StartError as error:
        raise typer.BadParameter(str(error), param_hint="API key") from None


def _is_loopback(host: str) -> bool:
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return host.lower() == "localhost"


def _read_settings(given: Mapping[str, Any]) -> Settings:
    """Return the settings; end the command if one is invalid, naming the option or variable."""
    from pydantic import ValidationError
    from pydantic_settings import SettingsError

    from app.settings import Settings, unknown_variables

    for warning in unknown_variables(os.environ).values():
        typer.echo(f"WARNING: {warning}", err=True)
    try:
        return Settings(**given)
    except ValidationError as error:
        rows = {
            str(row["loc"][0]): row["msg"].removeprefix("Value error, ") for row in error.errors()
        }
        if os.environ.get("MODSERVE_PORT", "").startswith("tcp://") and "port" in rows:
            rows["port"] += (
                "; Kubernetes sets it beside a Service named modserve: set enableServiceLinks to "
                "false, or give --port"
            )
        faults = [f"{_source(name, given)}: {text}" for name, text in rows.items()]
        raise typer.BadParameter("; ".join(faults), param_hint="settings") from None
    except SettingsError as error:
        hint = 'a list is JSON: MODSERVE_DEVICES=\'["gpu(0)", "gpu(1)"]\''
        raise typer.BadParameter(f"{error}; {hint}", param_hint="settings") from None


@contextmanager
def _engine_settings() -> Iterator[None]:
    """End the command with a line if the engine, imported here, refuses a setting."""
    try:
        yield
    except ValueError as error:
        raise typer.BadParameter(str(error), param_hint="settings") from None


def _source(name: str, given: Mapping[str, Any]) -> str:
    if name not in given:
        return f"MODSERVE_{name.upper()}"
    return f"--{_OPTIONS.get(name, name.replace('_', '-'))}"


@app.command()
def demo(
    port: Annotated[int, typer.Option(help="Port to serve on; 0 chooses a free one.")] = 0,
    once: Annotated[bool, typer.Option("--once", help="Exit after the tour.")] = False,
) -> None:
    """Train LeNet on MNIST digits over HTTP, ask it about one, and keep serving."""
    # Both end on Ctrl-C: the server must not outlive the demo, nor stop before it. Background
    # processes of shell scripts ignore Ctrl-C, but the server does not.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.default_int_handler)
    from app.cli.demo import run_demo

    raise typer.Exit(run_demo(port, once))


@app.command()
def bench(
    cases: Annotated[list[str] | None, typer.Argument(help="Cases to run; all by default.")] = None,
    seconds: Annotated[float, typer.Option(help="Seconds to measure each case.")] = 3.0,
    as_json: AsJson = False,
    profile: Annotated[
        bool, typer.Option("--profile", help="Show where the time goes; write Chrome traces.")
    ] = False,
    traces: Annotated[Path, typer.Option(help="Folder for the traces.")] = Path("traces"),
    suite: Annotated[
        str | None,
        typer.Option(help="Cases to run, each in its own process: engine, all or serving."),
    ] = None,
    peer: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=URL", help="With serving: a server to compare with."),
    ] = None,
    perf_analyzer: Annotated[
        Path | None,
        typer.Option(help="With serving: path of Triton's load generator, to use it, too."),
    ] = None,
) -> None:
    """Time training steps and predictions on this machine."""
    with _engine_settings():
        from app.cli.bench import run_bench, run_serving, run_suite

    if suite == "serving":
        peers = dict(one.split("=", 1) for one in peer or () if "=" in one)
        if len(peers) < len(peer or ()):
            raise typer.BadParameter("give NAME=URL, each name once", param_hint="--peer")
        raise typer.Exit(run_serving(seconds, peers, perf_analyzer, as_json))
    if peer or perf_analyzer:
        raise typer.BadParameter("give it with --suite serving", param_hint="--peer")
    if suite is not None:
        if cases or profile:
            raise typer.BadParameter("give no cases and no --profile with it", param_hint="--suite")
        raise typer.Exit(run_suite(suite, seconds, as_json))
    raise typer.Exit(run_bench(cases or [], seconds, as_json, traces if profile else None))


@app.command()
def doctor(
    model: Annotated[
        str | None,
        typer.Argument(
            help="A file of the model, the common prefix of its files, or their folder."
        ),
    ] = None,
    checkpoint: Annotated[
        tuple[str, int] | None,
        typer.Option(
            metavar="PREFIX EPOCH", help="The prefix in PREFIX-symbol.json, PREFIX-0001.params."
        ),
    ] = None,
    shape: Annotated[
        list[str] | None, typer.Option(help="Shape of an input: name=1,3,224,224.")
    ] = None,
    device: Annotated[str, typer.Option(help="Device to run on.")] = "cpu(0)",
    data_dir: DataDir = None,
    host: Annotated[
        str | None, typer.Option(help="Address on which the server would listen.")
    ] = None,
    port: Annotated[int | None, typer.Option(help="Port on which the server would listen.")] = None,
    as_json: AsJson = False,
) -> None:
    """Examine a model on disk: its format, and whether it loads, binds and runs here.

    Without a model, examine this machine. The exit status is 0 if all is well, 1 if not, and 3 if
    shapes of a model must be given first.
    """
    with _engine_settings():
        from app.cli.doctor import run_doctor, run_doctor_of, run_machine_doctor

    if model is not None and checkpoint is not None:
        raise typer.BadParameter("give none beside a model", param_hint="--checkpoint")
    if model is not None:
        raise typer.Exit(run_doctor_of(model, shape or [], device, as_json))
    if checkpoint is not None:
        raise typer.Exit(run_doctor(*checkpoint, shape or [], device, as_json))
    given = {"data_dir": data_dir, "host": host, "port": port}
    settings = _read_settings({name: one for name, one in given.items() if one is not None})
    status = run_machine_doctor(settings.data_dir, settings.host, settings.port, as_json)
    raise typer.Exit(status)


@app.command()
def recover(
    data_dir: DataDir = None,
    check: Annotated[bool, typer.Option("--check", help="Only report; change nothing.")] = False,
    as_json: AsJson = False,
) -> None:
    """Import the files of a data directory into the database; report what could not be imported."""
    from app.cli.maintenance import run_recover
    from app.main import storage_options

    settings = _read_settings({} if data_dir is None else {"data_dir": data_dir})
    raise typer.Exit(run_recover(storage_options(settings), check=check, as_json=as_json))


@app.command()
def backup(
    target: Annotated[Path, typer.Argument(help="A new or empty folder.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Copy a data directory, also while a server trains in it."""
    from app.cli.maintenance import run_backup

    settings = _read_settings({} if data_dir is None else {"data_dir": data_dir})
    raise typer.Exit(run_backup(settings.data_dir, settings.store_url, target, as_json=as_json))


@app.command()
def restore(
    source: Annotated[Path, typer.Argument(help="A folder written by modserve backup.")],
    data_dir: Annotated[
        Path | None, typer.Option(help="A new or empty data directory, or a half restored one.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Restore a data directory from a backup, after verifying every byte."""
    from app.cli.maintenance import run_restore

    settings = _read_settings({} if data_dir is None else {"data_dir": data_dir})
    has_own_url = settings.database_url is not None
    status = run_restore(source, settings.data_dir, has_own_url=has_own_url, as_json=as_json)
    raise typer.Exit(status)


@keys.command("add")
def keys_add(
    name: Annotated[str, typer.Option(help="Name of the key's owner.")],
    scope: Annotated[
        list[str], typer.Option(help="metrics, read, infer, train or admin; may be repeated.")
    ],
    expires: Annotated[
        str | None, typer.Option(help="Expiry: 90d, 12h, or an ISO date; never by default.")
    ] = None,
    rate: Annotated[
        float | None, typer.Option(help="Maximum number of requests per second.")
    ] = None,
    concurrency: Annotated[
        int | None, typer.Option(help="Maximum number of concurrent requests.")
    ] = None,
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Create a key and print it, only this once. A running server accepts it within a second."""
    from app.cli.maintenance import KeyOptions, run_keys_add

    options = KeyOptions(
        name=name, scopes=scope, expires=expires, rate=rate, concurrency=concurrency
    )
    raise typer.Exit(run_keys_add(_data_dir(data_dir), options, as_json=as_json))


@keys.command("generate")
def keys_generate(as_json: AsJson = False) -> None:
    """Print a new key for MODSERVE_API_KEY or MODSERVE_API_KEY_FILE of a server; store nothing."""
    from app.cli.maintenance import run_keys_generate

    raise typer.Exit(run_keys_generate(as_json=as_json))


@keys.command("ls")
def keys_ls(data_dir: DataDir = None, as_json: AsJson = False) -> None:
    """List the keys: ids, names, scopes; never the keys themselves."""
    from app.cli.maintenance import run_keys_ls

    raise typer.Exit(run_keys_ls(_data_dir(data_dir), as_json=as_json))


@keys.command("revoke")
def keys_revoke(
    key: Annotated[list[str], typer.Argument(help="Ids or names of keys.")],
    data_dir: DataDir = None,
    as_json: AsJson = False,
) -> None:
    """Revoke keys. A running server refuses them within a second."""
    from app.cli.maintenance import run_keys_revoke

    raise typer.Exit(run_keys_revoke(_data_dir(data_dir), key, as_json=as_json))


def _data_dir(given: Path | None) -> Path:
    return _read_settings({} if given is None else {"data_dir": given}).data_dir


@app.command(
    context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False},
)
def run(
    arguments: Annotated[
        list[str],
        typer.Argument(
            metavar="SCRIPT...",
            help="As for python: a script, -m MODULE or -, and its arguments.",
        ),
    ],
    old_numpy: Annotated[
        bool,
        typer.Option("--old-numpy", help="Restore names that NumPy removed, such as np.float."),
    ] = False,
    cpu: Annotated[bool, typer.Option("--cpu", help="Use the CPU for mx.gpu().")] = False,
) -> None:
    """Run a script written for MXNet as python would; import mxnet loads the engine."""
    from app.cli.scripts import ArgumentError, run_script

    try:
        run_script(arguments, old_numpy=old_numpy, cpu=cpu)
    except ArgumentError as error:
        raise typer.BadParameter(str(error), param_hint="SCRIPT") from None


@app.command()
def openapi(path: Annotated[Path, typer.Argument(help="File to write.")]) -> None:
    """Write the OpenAPI document of the REST surface."""
    from app.main import openapi_text

    path.write_text(openapi_text())


app.command()(commands.train)
app.command()(commands.predict)
app.command()(commands.health)
app.command()(commands.zoo)
app.command()(commands.completion)
for _name in _GROUPS:
    app.add_typer(getattr(commands, _name), name=_name)


def main() -> None:
    """Entry point of the installed command."""
    if commands.COMPLETE_VARIABLE in os.environ:
        from typer.completion import completion_init  # type: ignore[attr-defined]

        completion_init()
    if "--json" not in sys.argv[1:]:
        app()  # exits
    # Otherwise errors of the command line itself are printed as JSON, too.
    try:
        sys.exit(app(standalone_mode=False))
    except _CLICK_ERROR as error:
        typer.echo(error_as_json(error.format_message()), err=True)
        sys.exit(error.exit_code)
    except typer.Abort:
        sys.exit(_INTERRUPTED)
