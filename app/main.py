"""The application: the parts of the server, and how they are connected."""

from __future__ import annotations

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from functools import partial
from importlib.metadata import version
from typing import Any

import structlog
from fastapi import Depends, FastAPI

from app.api.audit import Audit
from app.api.body_memory import BodyMemory
from app.api.conditional import ConditionalGet
from app.api.decoder_pool import DecoderPool
from app.api.dependencies import refuse_coding, refuse_part, refuse_unknown_query
from app.api.heads import heads_of
from app.api.locations import PrefixedLocations
from app.api.middleware import RequestContext
from app.api.openapi import build_openapi
from app.api.pages import install_pages
from app.api.problems import install_error_handlers
from app.api.routers import ROUTERS
from app.api.security.cross_origin import CrossOrigin, Preflights
from app.api.security.fast_path_keys import FastPathKeys
from app.api.security.key_guard import KeyGuard, require_scope
from app.api.security.origins import OriginCheck
from app.api.v1.predict_fast_path import PredictFastPath
from app.api.v1.raw_inputs import RawInputs
from app.api.v2.infer import InferFastPath
from app.api.v2.inference import Inferences
from app.api.v2.routers import ROUTERS as PROTOCOL_ROUTERS
from app.errors.redaction import redacted_values
from app.files.configured_key import given_key
from app.files.key_file import KeyFile
from app.files.length_counts import LengthCountFiles
from app.link.client import ExecutorClient
from app.link.inprocess import InProcessClient
from app.link.process import ProcessOptions
from app.link.supervisor import OnLoss, RestartPolicy, Restore, Supervisor
from app.logs import quoted_value, send_log
from app.services.access.key_ring import KeyRing
from app.services.access.sessions import Sessions
from app.services.jobs.dispatcher import Dispatcher
from app.services.jobs.history import History
from app.services.jobs.job_attempts import JobAttempts
from app.services.jobs.job_files import JobFiles
from app.services.jobs.job_queue import JobQueue
from app.services.jobs.jobs import JobService
from app.services.jobs.submissions import JobDefaults
from app.services.modules.model_making import ModelMaker
from app.services.modules.model_repository import ModelRepository
from app.services.modules.module_access import ModuleAccess
from app.services.modules.module_commands import ModuleCommands
from app.services.modules.param_summaries import ParamSummaries
from app.services.modules.record_watch import RecordWatch
from app.services.modules.restoration import Restoration
from app.services.modules.restore_log import RestoreLog
from app.services.modules.unsaved_modules import UnsavedModules
from app.services.modules.version_files import VersionFiles
from app.services.modules.versions import Versions
from app.services.operations.background_tasks import in_thread
from app.services.operations.executor_locks import ExecutorLocks
from app.services.operations.executors import Executors
from app.services.operations.recovery_report import RecoveryReport
from app.services.operations.storage import Storage, StorageOptions, open_storage
from app.services.predictions.instances import Instances
from app.services.predictions.observed_lengths import ObservedLengths
from app.services.predictions.predictions import Predictions
from app.services.predictions.statistics import Statistics
from app.services.services import Services
from app.settings import Settings

__all__ = ["configure_logging", "create_app", "openapi_text", "storage_options"]

_log = logging.getLogger(__name__)

_DESCRIPTION = """Train, fine-tune and serve MXNet Module models.

A module is created from its symbol JSON, bound to shapes, initialized or loaded, trained by jobs
that survive a crash, and asked for predictions. Tensors travel as JSON, npy, npz or safetensors;
without a Content-Type, a body's format is recognized by its first bytes.
Errors are RFC 9457 problem details that name the field, what was got, what was expected and what
to do.
"""

_EXECUTOR = ("app.executor",)
"""The program of executor processes."""

_TAGS = [
    {"name": "modules", "description": "Symbols with their shapes, parameters and optimizer."},
    {"name": "parameters", "description": "Parameters and the optimizer."},
    {"name": "predict", "description": "Outputs for examples; nothing changes."},
    {"name": "versions", "description": "Which checkpoints answer predictions."},
    {"name": "steps", "description": "Training step by step."},
    {"name": "jobs", "description": "Training, evaluation and prediction over datasets."},
    {"name": "checkpoints", "description": "Saved states, in MXNet's files."},
    {"name": "datasets", "description": "Uploaded data."},
    {"name": "errors", "description": "Error codes, and what to do about each."},
    {"name": "models", "description": "What the models folder holds."},
    {
        "name": "inference protocol",
        "description": "The Open Inference Protocol (KServe V2), as Triton's clients speak it.",
    },
    {"name": "operations", "description": "Health, metrics and executors."},
]


_OF_EVERY_ROUTE = (require_scope, refuse_coding, refuse_part, refuse_unknown_query)


def create_app(settings: Settings) -> FastAPI:
    """Return the application; nothing is opened or started until its lifespan begins."""
    app = FastAPI(
        title="modserve",
        version=version("modserve"),
        description=_DESCRIPTION,
        openapi_tags=_TAGS,
        lifespan=_lifespan,
        openapi_url=None,  # see app.api.document
        redirect_slashes=False,
        dependencies=[Depends(one) for one in _OF_EVERY_ROUTE],
        generate_unique_id_function=lambda route: route.name,
    )
    app.root_path = settings.root_path  # the argument is deprecated, and logged
    app.state.settings = settings
    app.state.body_memory = BodyMemory(settings.max_bodies_bytes)
    given = given_key(settings.api_key_text, settings.api_key_file)
    keys, audit = KeyRing(KeyFile(settings.data_dir), given), Audit()
    app.state.keys, app.state.lane_keys = keys, FastPathKeys(keys, audit, settings)
    app.state.sessions = sessions = Sessions(keys)
    # The last one added sees a request first: RequestContext gives it its id, OriginCheck refuses
    # other sites before anything else, and Preflights answers those, which carry no key.
    app.add_middleware(KeyGuard, ring=keys, sessions=sessions, audit=audit)
    if settings.allowed_origins:
        app.add_middleware(Preflights, allowed=settings.allowed_origins)
    app.state.site_guard = OriginCheck(app, settings)
    if settings.root_path:
        app.add_middleware(PrefixedLocations, root_path=settings.root_path)
    app.add_middleware(ConditionalGet)
    app.add_middleware(OriginCheck, settings=settings)
    cross_origin = app.state.cross_origin = CrossOrigin(settings.allowed_origins)
    app.add_middleware(RequestContext, cross_origin=cross_origin)
    install_error_handlers(app)
    for router in (*ROUTERS, *PROTOCOL_ROUTERS):
        app.include_router(router)
    for router in (*ROUTERS, *PROTOCOL_ROUTERS):
        app.include_router(heads_of(router))
    install_pages(app)
    app.openapi = lambda: build_openapi(app)  # type: ignore[method-assign]
    return app


def openapi_text() -> str:
    """Return the OpenAPI document as it is in openapi/openapi.json."""
    document = build_openapi(create_app(Settings()))
    return json.dumps(document, indent=2, sort_keys=True) + "\n"


@asynccontextmanager
async def _lifespan(app: FastAPI) -> AsyncIterator[None]:
    settings: Settings = app.state.settings
    configure_logging(settings)
    settings.data_dir.mkdir(0o700, parents=True, exist_ok=True)
    keys: KeyRing = app.state.keys
    async with AsyncExitStack() as stack:
        await asyncio.to_thread(keys.open)
        keys.start()
        stack.push_async_callback(keys.stop)
        app.state.decoders = DecoderPool(
            settings.decoder_processes, settings.decoder_memory_bytes, settings.decoder_seconds
        )
        stack.push_async_callback(app.state.decoders.close)
        services = app.state.services = await _open_services(settings, stack)
        raw_inputs = app.state.raw_inputs = RawInputs(
            services.access, app.state.decoders, settings.max_image_pixels
        )
        inferences = app.state.inferences = Inferences(services.predictions, services.versions)
        app.state.fast_paths = [
            *InferFastPath(inferences, raw_inputs).openers(),
            *PredictFastPath(
                *(services.predictions, services.versions, raw_inputs), settings
            ).openers(),
        ]
        yield


async def _open_services(settings: Settings, stack: AsyncExitStack) -> Services:
    """Open the store, start the executors and the dispatcher; the stack closes them in reverse."""
    locks = ExecutorLocks(settings.data_dir / "executors")
    locks.take(settings.devices)
    stack.callback(locks.release)
    storage = open_storage(storage_options(settings), stack.enter_context(ExitStack()))
    recovery = asyncio.create_task(asyncio.to_thread(_recover, storage), name="recover")
    notifiers = storage.notifiers
    defaults = JobDefaults(
        lease_seconds=settings.lease_seconds, max_attempts=settings.job_max_attempts
    )
    jobs = JobService(
        storage.store,
        notifiers,
        defaults,
        files=JobFiles(storage.checkpoints, storage.resume_points),
    )
    executors = Executors()
    restores = RestoreLog(storage.store, notifier=notifiers.events)
    modules, checkpoints = storage.modules, storage.checkpoints
    restoration = Restoration(restores, modules, checkpoints, executors)
    access = ModuleAccess(modules, checkpoints, executors, restoration)
    version_files = VersionFiles(checkpoints)
    instances = Instances(access, version_files, executors, restores)
    commands = ModuleCommands(
        *(modules, checkpoints, executors, restoration, access), settings.max_graph_nodes
    )
    queue = JobQueue(
        storage.store,
        notifiers,
        storage.liveness,
        keep_progress_events=settings.keep_progress_events,
        before_loss=storage.resume_points.lose_attempt,
    )
    loop = asyncio.get_running_loop()

    def on_prepared(record: Any) -> None:
        # Called in the thread that prepares a job; the cache of records belongs to the loop.
        loop.call_soon_threadsafe(access.refresh, record)

    dispatcher = Dispatcher(
        executors,
        queue,
        JobAttempts(
            *(queue, modules, storage.datasets, checkpoints, storage.resume_points), on_prepared
        ),
        notifiers,
        jobs_per_executor=settings.jobs_per_executor,
        lease_seconds=settings.lease_seconds,
        restoration=restoration,
    )

    async def restore(client: ExecutorClient) -> None:
        await asyncio.shield(recovery)  # the processes start in the meantime
        await dispatcher.executor_started(client)  # the jobs of the previous process are lost
        await restoration.executor_started(client.name)
        instances.executor_started(client.name)

    async def note_loss(name: str, reason: str) -> None:
        await in_thread(restores.executor_lost, name, reason)

    for name in settings.devices:
        executors.add(_make_executor(name, settings, restore, note_loss))
    stack.push_async_callback(executors.stop)
    try:
        await executors.start()
    finally:
        recovered = await recovery
    if settings.executor_form == "in_process":
        for name in settings.devices:
            restores.executor_started(name)
    stack.push_async_callback(restoration.stop)
    # Called after the dispatcher has stopped, when no job changes modules any longer, and before
    # the executors stop.
    unsaved = UnsavedModules(modules, checkpoints, executors, access)
    stack.push_async_callback(unsaved.save)
    await dispatcher.start()
    stack.push_async_callback(dispatcher.stop)
    history = History(jobs, settings.keep_jobs, settings.keep_job_days, settings.keep_events)
    history.start()
    stack.push_async_callback(history.stop)
    watch = RecordWatch(modules, access)
    watch.start()
    stack.push_async_callback(watch.stop)
    versions = Versions(access, checkpoints, version_files, instances)
    stack.push_async_callback(instances.close)
    stack.push_async_callback(versions.close)
    lengths = ObservedLengths(modules, LengthCountFiles(settings.data_dir))
    await lengths.start()
    stack.push_async_callback(lengths.stop)
    statistics = Statistics()
    predictions = Predictions(
        access, versions, executors, instances, lengths, statistics, settings.max_predictions
    )
    stack.push_async_callback(predictions.close)
    maker = ModelMaker(executors, access, commands)
    models = ModelRepository(
        settings.models_dir,
        settings.models_poll_seconds,
        modules=modules,
        checkpoints=checkpoints,
        executors=executors,
        access=access,
        commands=commands,
        maker=maker,
        predictions=predictions,
        versions=versions,
    )
    stack.push_async_callback(models.stop)
    await models.start()
    return Services(
        modules=modules,
        restores=restores,
        access=access,
        commands=commands,
        executors=executors,
        instances=instances,
        checkpoints=checkpoints,
        datasets=storage.datasets,
        jobs=jobs,
        predictions=predictions,
        lengths=lengths,
        maker=maker,
        models=models,
        statistics=statistics,
        summaries=ParamSummaries(access, storage.checkpoints),
        versions=versions,
        space=storage.space,
        recovered=recovered,
    )


def storage_options(settings: Settings) -> StorageOptions:
    """Return the settings of the store and the data directory."""
    return StorageOptions(
        url=settings.store_url,
        data_dir=settings.data_dir,
        executor=settings.devices[0],
        max_dataset_bytes=settings.max_dataset_bytes,
        max_checkpoint_bytes=settings.max_checkpoint_bytes,
        max_symbol_bytes=settings.max_body_bytes,
        dataset_folders=settings.dataset_folders,
        keep_checkpoints=settings.keep_checkpoints,
    )


def _recover(storage: Storage) -> RecoveryReport:
    if storage.knows_nothing:
        _log.info("the database is empty: importing the contents of the data directory")
    report = storage.recovery.run(rebuild=storage.knows_nothing)
    report.log()
    return report


def _make_executor(
    name: str, settings: Settings, restore: Restore, on_loss: OnLoss
) -> ExecutorClient:
    if settings.executor_form == "in_process":
        from app.executor.main import (
            make_loop,  # importing it loads the engine, which this process does not need otherwise
        )

        return InProcessClient(name, partial(make_loop, budget_bytes=settings.memory_budget))
    options = ProcessOptions(
        program=(*_EXECUTOR, *_memory_options(name, settings)),
        threads=settings.threads,
        sharers=len(settings.devices),
        log_level=settings.log_level.upper(),
        log_format=settings.log_format,
        environ={"MODSERVE_MATH": settings.math},
    )
    policy = RestartPolicy(call_seconds=settings.max_call_seconds)
    return Supervisor(name, options, restore, policy, on_loss=on_loss)


def _memory_options(name: str, settings: Settings) -> list[str]:
    # CPU executors share the machine's memory; each GPU has its own.
    sharers = sum(one.startswith("cpu") for one in settings.devices) if name[0] == "c" else 1
    executors = len(settings.devices)
    options = [f"--sharers={sharers}", f"--executors={executors}"]
    if settings.memory_budget is not None:
        options.append(f"--memory-budget={settings.memory_budget}")
    if settings.max_answers_bytes is not None:
        options.append(f"--answers-bytes={settings.max_answers_bytes // executors}")
    return options


def configure_logging(settings: Settings) -> None:
    """Send all log lines of this process to standard error, in one format."""
    level = logging.getLevelNamesMapping()[settings.log_level.upper()]
    send_log(level, settings.log_format)
    structlog.configure(
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.stdlib.LoggerFactory(),
        processors=[
            redacted_values,
            _as_fields if settings.log_format == "json" else _as_line,
        ],
    )


def _as_line(logger: Any, method: str, event: structlog.typing.EventDict) -> Any:
    """Turn a structured event into a text record, with the traceback below it."""
    error = event.pop("exc_info", None)
    words = [str(event.pop("event"))]
    words += [f"{name}={quoted_value(value)}" for name, value in event.items()]
    return ("%s", " ".join(words)), {"exc_info": error}


def _as_fields(logger: Any, method: str, event: structlog.typing.EventDict) -> Any:
    """Turn a structured event into a record whose values are fields."""
    error = event.pop("exc_info", None)
    message = str(event.pop("event"))
    return ("%s", message), {"exc_info": error, "extra": {"fields": event}}
