"""The component `Operator`: what a release installs, by the components its manifests are rendered from."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn, TypedDict

import pulumi

from infra import image_references
from infra.components.installation import install
from infra.settings import OperatorSettings, read_operator, stack_files, validators
from infra.settings.config_reader import ConfigReader

OPERATOR = "operator"
IMAGES = Path(__file__).parent / "images.json"
"""The images of a release by name; a checkout has none."""


class OperatorArgs(TypedDict, total=False):
    """What an Operator can be given: every input is optional, and none can be computed."""

    replicas: int
    """How many Pods run, of which one leads: 2 by default."""
    log_level: str
    """What the operator logs: "debug", "info", "warning" or "error"."""
    watch_namespaces: list[str]
    """The namespaces that are served. By default all of them."""
    scope: str
    """How far the operator's rights reach: "cluster", or "namespaces" for those that are served."""
    kinds: list[str]
    """The kinds that are served. By default all of them."""
    operator_pod: dict[str, Any]
    """Labels, nodeSelector, tolerations, resources and the like of the operator's Pods."""
    images: dict[str, str]
    """Images by name, in place of those of the release."""
    image_pull_secrets: list[str]
    """Secrets by which nodes pull the images, of the namespaces where the Pods are."""
    protect: bool
    """Whether Pulumi refuses to delete definitions and namespace, and all data with them. By default true."""


class Operator(pulumi.ComponentResource):
    """The definitions of the kinds, the operator with its rights, and the policies: once in a cluster."""

    namespace: pulumi.Output[str]
    """The namespace of the operator."""
    image: pulumi.Output[str]
    """The operator's image."""

    def __init__(self, name: str, args: OperatorArgs, opts: pulumi.ResourceOptions | None = None) -> None:
        super().__init__("kindling:index:Operator", name, {}, opts)
        source = _Inputs(args)
        settings = read_operator(source)
        made = install(
            parent=self,
            images=_images(source, settings),
            settings=settings,
            pull_secrets=source.parsed("imagePullSecrets", validators.secrets, "a list of names of Secrets"),
            protect=args.get("protect") is not False,
        )
        self.namespace, self.image = made.namespace, made.image
        self.register_outputs({"namespace": self.namespace, "image": self.image})


@dataclass(frozen=True)
class _Images:
    operator: pulumi.Output[str]
    operands: Mapping[str, pulumi.Output[str]]


class _Inputs(ConfigReader):
    """The inputs as the settings of a stack, whose names, defaults and rules they have."""

    def __init__(self, args: OperatorArgs) -> None:
        given: dict[str, Any] = {"samples": False}
        for key, value in args.items():
            if value is not None and key != "protect":
                first, *rest = key.split("_")
                given[first + "".join(map(str.capitalize, rest))] = value
        if "imagePullSecrets" in given:
            given["imagePullSecrets"] = [{"name": name} for name in given["imagePullSecrets"]]
        if isinstance(given.get("replicas"), float) and given["replicas"].is_integer():
            given["replicas"] = int(given["replicas"])  # Pulumi's numbers are all floats.
        texts = {key: stack_files.text(value) for key, value in given.items()}
        super().__init__(
            lambda key: texts.get(key, stack_files.default(key)), stack="", default=stack_files.default
        )

    def wrong(self, key: str, allowed: str) -> NoReturn:
        raise pulumi.InputPropertyError(key, f"cannot be `{self._get(key)}`: set it to {allowed}")


def _images(source: _Inputs, settings: OperatorSettings) -> _Images:
    known = (OPERATOR, *image_references.RUN_BY)
    released = json.loads(IMAGES.read_text(encoding="utf-8")) if IMAGES.exists() else {}
    given = source.parsed(
        "images",
        lambda text: validators.given(text, known),
        f"references, with a tag or a digest, by these names: {', '.join(known)}",
    )
    found = {**released, **given}
    run = {name for name in image_references.RUN_BY if image_references.is_run_by(name, settings.kinds)}
    if missing := sorted({OPERATOR, *run} - set(found)):
        reason = f"lacks {', '.join(missing)}: name them, or use the plugin of a release"
        raise pulumi.InputPropertyError("images", reason)
    references = {name: pulumi.Output.from_input(reference) for name, reference in found.items()}
    return _Images(references[OPERATOR], {name: references[name] for name in sorted(run)})
