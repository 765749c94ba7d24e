"""`python -m kindling.diff`: what this operator would do to everything that runs, before it is started.

It has the operator's own variables (KINDLING_...) and its credentials: a service account, or KUBECONFIG. It
reads, decides, prints, and ends: 0 whatever it finds, 1 where it could not read (one line says why).
"""

from __future__ import annotations

import argparse
import asyncio
import logging
import sys

import orjson

from kindling.config import Config, InvalidConfig
from kindling.diff import reading, report
from kindling.diff.decision import Decision
from kindling.diff.effects import ResourceDiff, effects
from kindling.engine.optional_types import OptionalTypes
from kindling.engine.store import key_of
from kindling.kube.client import Client
from kindling.kube.credentials import Credentials, NoCredentials, load_credentials
from kindling.kube.errors import ApiError
from kindling.kube.resources import Ref
from kindling.served import served

AT_ONCE = 16
"""Resources that are decided at the same time: each reads its Secrets."""
FORBIDDEN = 403


async def diff(config: Config, credentials: Credentials) -> report.Differences:
    """:raises ApiError: when something cannot be read."""
    known = served(config)
    async with Client(credentials, limit=AT_ONCE, before_write=reading.refuse) as client:
        missing, lacking = [
            [type for type in types if not await client.served(type)]
            for types in (known.resources, known.optional)
        ]
        optional = OptionalTypes(lacking)
        api = reading.ReadOnlyApi(client)
        store = await reading.read(api, config, served=known, missing=[*missing, *lacking])
        dependencies = reading.dependencies(api, store, optional)
        slots = asyncio.Semaphore(AT_ONCE)

        async def of(ref: Ref) -> ResourceDiff:
            key = key_of(ref)
            kind, cr = known.by_name[key.group_kind], store.resource(key)
            assert cr is not None
            async with slots:
                decision = Decision(dependencies=dependencies, key=key, kind=kind, cr=cr)
                return effects(kind, await decision.decide())

        refs = [ref for type in known.resources for ref in sorted(store.refs(type))]
        return report.Differences(resources=await asyncio.gather(*map(of, refs)), not_served=missing)


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m kindling.diff", allow_abbrev=False, description=__doc__)
    parser.add_argument("-o", "--output", choices=("text", "json"), default="text", help="default: text")
    args = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, stream=sys.stderr)
    try:
        found = asyncio.run(diff(Config.load(), load_credentials()))
    except (InvalidConfig, NoCredentials) as error:
        print(f"kindling.diff: {error}", file=sys.stderr)
        return 1
    except ApiError as error:
        remedy = (
            "; docs/guides/preview.md lists the rights that are needed" if error.status == FORBIDDEN else ""
        )
        print(f"kindling.diff: the resources cannot be read: {error}{remedy}", file=sys.stderr)
        return 1
    if args.output == "json":
        sys.stdout.write(orjson.dumps(report.written(found), option=orjson.OPT_INDENT_2).decode() + "\n")
    else:
        sys.stdout.write(report.text(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
