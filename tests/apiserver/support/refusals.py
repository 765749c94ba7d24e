"""A plugin of pytest that notes each cause of each refusal: lines of JSON in the file that REFUSALS names."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from tests.apiserver.support.apiclient import Api, Response

REFUSALS = "KINDLING_TEST_REFUSALS"


@pytest.fixture(scope="session", autouse=True)
def noted_refusals() -> Any:
    ask = Api.request
    with Path(os.environ[REFUSALS]).open("a") as file, pytest.MonkeyPatch.context() as patch:

        def request(self: Api, *args: Any, **options: Any) -> Response:
            answer = ask(self, *args, **options)
            if answer.status == 422:
                details = answer.body.get("details") or {}
                for cause in details.get("causes") or ():
                    file.write(json.dumps([details["group"], details["kind"], cause["message"]]) + "\n")
            return answer

        patch.setattr(Api, "request", request)
        yield
