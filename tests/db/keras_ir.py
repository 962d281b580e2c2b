"""Writes IRs of Keras Applications networks (random weights) as OpenVINO's own ovc makes them; run as a script.

Usage: python keras_ir.py FOLDER NETWORK...
"""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="", TF_ENABLE_ONEDNN_OPTS="0")


def main(folder: Path, names: list[str]) -> None:
    """Write FOLDER/NETWORK.xml for each network."""
    import keras

    from dbinfer.models.ir import import_openvino

    ov = import_openvino()
    for name in names:
        keras.utils.set_random_seed(1)
        network = getattr(keras.applications, name)(weights=None)
        with tempfile.TemporaryDirectory() as saved:
            network.export(saved, format="tf_saved_model", verbose=False)
            ov.save_model(ov.convert_model(saved), folder / f"{name}.xml", compress_to_fp16=False)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2:])
