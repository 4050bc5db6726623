"""The views of modules, including state that is not in their records."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import orjson

from app.api.v1.fact_views import LiveModuleView
from app.api.v1.instance_views import instance_views
from app.api.v1.views import ModuleView, module_view
from app.domain.module import ModuleRecord
from app.services.services import Services

__all__ = ["shown", "shown_all"]


async def shown(
    services: Services, record: ModuleRecord, live: dict[str, Any] | None = None
) -> ModuleView:
    """Return the view of a module; ``live`` is its executor's view."""
    (view,) = await shown_all(services, [record])
    if live is None:
        return view
    # Through JSON, because plain values may have tuples where the view has lists.
    facts = LiveModuleView.model_validate_json(orjson.dumps(live | {"name": record.public_name}))
    return view.model_copy(update={"live": facts})


async def shown_all(services: Services, records: Sequence[ModuleRecord]) -> list[ModuleView]:
    """Return the views of modules."""
    statuses = await asyncio.to_thread(services.restores.statuses, records)
    resident = await services.access.resident(records)
    instances = [instance_views(services, record) for record in records]
    facts = zip(records, statuses, resident, instances, strict=True)
    return [module_view(*one) for one in facts]
