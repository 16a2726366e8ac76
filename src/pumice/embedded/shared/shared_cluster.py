"""The settings of an embedded server for a machine that several people share."""

from __future__ import annotations

from dataclasses import replace

from kubesim.api.admission import AdmissionHook
from kubesim.api.client import InProcessClient
from kubesim.server import ServerSettings
from kubesim.storage import Store
from pumice.embedded.admission_hook import EmbeddedAdmission
from pumice.embedded.shared.shared_access import SharedAccess, SharedMachine
from pumice.embedded.shared.shared_admission import SharedAdmission


def with_people(settings: ServerSettings, machine: SharedMachine) -> ServerSettings:
    """Add the users of the machine to the settings that ``with_pumice`` has made."""
    rules, prepare = settings.admission, settings.prepare

    def hook(store: Store) -> AdmissionHook:
        assert rules is not None
        embedded = rules(store)
        assert isinstance(embedded, EmbeddedAdmission)
        return SharedAdmission(embedded, machine)

    async def prepare_all(api: InProcessClient) -> None:
        if prepare is not None:
            await prepare(api)
        await machine.claim_default_namespace(api)

    return replace(
        settings,
        admission=hook,
        prepare=prepare_all,
        access=lambda api: SharedAccess(machine, api),
        announce=machine.announce,
    )
