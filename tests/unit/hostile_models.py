"""Models that do more than compute: SavedModels whose initialiser, or whose graph, writes, reads or connects."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

SIZE = 8


def save_hostile(folder: Path, act: Callable[[Any], Any], in_graph: bool = False) -> Path:
    """Write the SavedModel of a classifier that does what `act` makes of the module tensorflow.

    Args:
        act: its operations have effects; what it returns is nobody's input.
        in_graph: they run with each image, not when it is loaded.
    """
    from dbinfer.base.quiet import tensorflow

    tf = tensorflow()

    class Initialised(tf.saved_model.experimental.TrackableResource):  # type: ignore[misc, name-defined]
        """A resource as lookup tables are: its initialiser runs when a SavedModel is loaded."""

        def _create_resource(self) -> Any:
            return tf.raw_ops.StackV2(max_size=1, elem_type=tf.float32)

        @tf.function(input_signature=[])  # type: ignore[untyped-decorator]
        def _initialize(self) -> Any:
            act(tf)
            return tf.constant(1)

    class Classifier(tf.Module):  # type: ignore[misc, name-defined]
        """The mean colour as scores."""

        def __init__(self) -> None:
            super().__init__()
            if not in_graph:
                self.resource = Initialised()

        @tf.function(input_signature=[tf.TensorSpec((1, SIZE, SIZE, 3), tf.float32, "image")])  # type: ignore[untyped-decorator]
        def __call__(self, image: Any) -> Any:
            if in_graph:
                # beside the result: OpenVINO leaves it out, and TensorFlow runs it
                act(tf)
            return tf.nn.softmax(tf.reduce_mean(image, (1, 2)))

    model = Classifier()
    tf.saved_model.save(model, str(folder), signatures={"serving_default": model.__call__})
    return folder
