"""Which functions a model is for, by its task; what is known without loading it is said before."""

from __future__ import annotations

from .errors import UsageError

FUNCTIONS = {
    "classification": "classify, classify_top or predict",
    "segmentation": "segment or predict",
    "embedding": "embed or predict",
    "detection": "detect or predict",
    "tensor": "predict or predict_tensor",
}


def require_task(model: str, task: str, needed: str, function: str) -> None:
    """Raise unless the model's task is the one that a function needs."""
    if task != needed:
        raise UsageError(
            'model "%s" is for %s, but %s() needs %s' % (model, task, function, needed),
            hint="Call dbinfer.%s with this model. To see all models: SELECT name, task FROM dbinfer.models"
            % FUNCTIONS[task],
        )
