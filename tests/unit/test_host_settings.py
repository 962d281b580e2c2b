"""A setting has one meaning: the limits of a model's trial and those of an image share no name."""

from __future__ import annotations

from typing import Any

from dbinfer_udf.image.file import image_limits
from dbinfer_udf.model.trial import Limits


class Asked(dict[str, str]):
    """Settings without a value, which note what they were asked for."""

    def __init__(self) -> None:
        super().__init__()
        self.names: set[str] = set()

    def get(self, key: str, default: Any = None) -> Any:
        self.names.add(key)
        return default

    def __contains__(self, key: object) -> bool:
        self.names.add(str(key))
        return False


def test_trial_and_image_limits_read_different_settings() -> None:
    trial, image = Asked(), Asked()
    Limits.from_settings(trial)
    image_limits(image)
    assert trial.names
    assert image.names
    assert trial.names & image.names == set()
