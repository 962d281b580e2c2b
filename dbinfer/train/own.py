"""Networks of the user's own: a Python file, a function of a module, or a `.keras` file, as networks like the zoo's.

What makes them is the user's code, which runs in the process that describes them and in each process that trains. What
follows from them, see dbinfer.train.described, is settled once, by the command, and goes to all processes with the job.
"""

from __future__ import annotations

import base64
import inspect
import os
import re
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from importlib import import_module
from pathlib import Path
from typing import Any

from dbinfer.base.errors import ConvertError, TrainError, UsageError
from dbinfer.convert.keras import load_keras
from dbinfer.convert.known import PIXELS
from dbinfer.convert.manifest import stated_beside
from dbinfer.convert.source import telling_line
from dbinfer.train.finetuning import freeze, with_head
from dbinfer.train.objective import fitted_loss, fresh, usual_loss, usual_metrics
from dbinfer.train.options import FILE, TrainJob, own_name
from dbinfer.train.script import Script
from dbinfer_models import NETWORKS, Network
from dbinfer_udf.manifest import Manifest

BUILD, VALUE = "build", "model"
BESIDE = ("manifest", "loss", "metrics")
CLASSES = ("classes", "num_classes", "n_classes", "NUM_CLASSES")  # what people call the number of classes
CODE = (
    "Put what makes the network into a Python file with a function build(...), and train that: it is your code, and it "
    "runs."
)
KINDS = "a file my_network.py, a file my_network.keras, MODULE:FUNCTION, or keras:NAME, for example keras:MobileNetV2"
FETCHED = (
    "Copy the folder ~/.keras/models from a machine that has downloaded them, give a file by --set weights=FILE, or "
    "start without: --set weights=none, without --fine-tune."
)
RESIZING = ("resize", "interpolation", "pad_value", "decode")
APPLICATIONS = {"keras": "keras.applications"}  # keras:NAME


@dataclass(frozen=True)
class Maker:
    """How a network is made.

    Attributes:
        make: returns the Keras model for some options.
        options: the names of these options; None where any is taken.
        defaults: the values that it gives them.
        beside: what else its file says: manifest, loss and metrics, where it has them.
    """

    make: Callable[[dict[str, Any]], Any]
    options: tuple[str, ...] | None = ()
    defaults: Mapping[str, Any] = field(default_factory=dict)
    beside: Mapping[str, Any] = field(default_factory=dict)

    def with_classes(self, options: dict[str, Any], classes: int) -> dict[str, Any]:
        """Return the options with the number of classes, where there is such an option and the user did not set it."""
        name = next((name for name in CLASSES if classes and name in (self.options or ())), "")
        return {name: classes, **options} if name else options

    def pretrained(self, options: dict[str, Any]) -> bool:
        """Return whether it has weights of its own to start from, as Keras Applications call that."""
        return {**self.defaults, **options}.get("weights") is not None

    def as_features(self, options: dict[str, Any]) -> dict[str, Any]:
        """Return the options without the classes of the weights: of Keras Applications, whose head is to be new."""
        known = {"include_top": False, "pooling": "avg"}
        return {**known, **options} if set(known) <= set(self.options or ()) else options

    def check(self, what: str, options: dict[str, Any]) -> None:
        """Raise UsageError for an option that there is not."""
        unknown = [] if self.options is None else [name for name in options if name not in self.options]
        if unknown:
            there = ", ".join(self.options or ()) or "none"
            raise UsageError(f"{what} has no option {unknown[0]!r}", f"Options for --set: {there}.")


def read_file(network: str) -> bytes:
    """Return the content of the file that a network is in; nothing for a function of a module.

    Raises:
        UsageError: it cannot be read.
    """
    if not (found := FILE.fullmatch(network)):
        return b""
    try:
        return Path(found["file"]).read_bytes()
    except OSError as err:
        raise UsageError(f"the network {found['file']} cannot be read: {err.strerror}") from err


def maker_of(network: str, content: bytes) -> Maker:
    """Return how a network is made.

    Args:
        network: FILE.py, FILE.py:NAME, FILE.keras, MODULE:FUNCTION or keras:NAME.
        content: of the file.

    Raises:
        UsageError: the file or module does not define it.
    """
    found = FILE.fullmatch(network)
    if not found:
        return _of_module(*network.split(":"))
    if found["file"].endswith(".keras"):
        beside = _beside(found["file"])
        return Maker(partial(_loaded, found["file"], content), beside={"manifest": lambda: beside})
    return _of_script(found["file"], content, found["name"] or "")


def _beside(path: str) -> dict[str, Any]:
    """Return what the manifest beside a `.keras` file says of the images, as `dbinfer convert` reads it."""
    if path.endswith(".start.keras"):
        return {}  # of a notebook; what an earlier run has left there says nothing of it
    stated = stated_beside(Path(path))
    return {key: value for key, value in stated.items() if key in (*PIXELS, *RESIZING, "labels")}


def _of_module(module: str, name: str) -> Maker:
    # As `python -m` does: modules of this folder count
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    module = APPLICATIONS.get(module, module)
    with users_errors(f"the module {module} cannot be imported", module):
        loaded = import_module(module)
    if not callable(function := getattr(loaded, name, None)):
        raise UsageError(f"the module {module} has no function {name!r} that returns a Keras model")
    return _of_function(function)


def _of_script(path: str, content: bytes, name: str) -> Maker:
    script = Script(content.decode("utf-8", "replace"), path)
    name = name or next((one for one in (BUILD, VALUE) if one in script.names), "")
    if name not in script.names:
        functions = ", ".join(f"{path}:{one}" for one in script.functions)
        raise UsageError(
            f"{path} has no {repr(name) if name else 'function build(...)'} that returns a Keras model"
            + ("" if name else ", and no 'model'"),
            f"Name the function that does: {functions}."
            if functions
            else "Put the lines that make the network into a function: def build(classes): ... return model",
        )
    if not script.is_function(name) and name != BUILD:
        return Maker(lambda options: script.run([name], options)[name], script.constants(name))
    beside = [one for one in BESIDE if name == BUILD and one in script.names]
    with users_errors(f"{path} cannot be run", path):
        defined = script.run([name, *beside], {})
        made = _of_function(defined[name])
    return replace(made, beside={one: defined[one] for one in beside})


def _of_function(function: Callable[..., Any]) -> Maker:
    parameters = inspect.signature(function).parameters
    rest = (inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD)
    names = tuple(name for name, one in parameters.items() if one.kind not in rest)
    takes_any = any(one.kind == one.VAR_KEYWORD for one in parameters.values())
    defaults = {name: one.default for name, one in parameters.items() if one.default is not one.empty}
    return Maker(lambda options: function(**options), None if takes_any else names, defaults)


def _loaded(path: str, content: bytes, options: dict[str, Any]) -> Any:
    with tempfile.TemporaryDirectory(prefix="dbinfer-") as folder:
        file = Path(folder, Path(path).name)
        file.write_bytes(content)
        try:
            return load_keras(file, "a Keras 3 model", compiled=True)
        except ConvertError as err:
            raise TrainError(err.message.replace(str(file), path), CODE) from err


@contextmanager
def users_errors(what: str, where: str, hint: str = "") -> Iterator[None]:
    """Make one sentence of whatever the user's code raises, with its line in the file `where`."""
    try:
        yield
    except (UsageError, TrainError):
        raise
    except Exception as err:
        lines = [frame.lineno for frame in traceback.extract_tb(err.__traceback__) if frame.filename == where]
        place = f" in line {lines[-1]}" if lines else ""
        raise UsageError(f"{what}{place}: {type(err).__name__}: {telling_line(err)}", hint) from err


@dataclass(frozen=True)
class Own(Network):
    """A network of the user's own; its loss and optimizer are known once `build` has been called.

    Attributes:
        source: as the command got it.
        content: of its file.
        options: for build.
        facts: what dbinfer.train.described has found.
        compiled: the loss and the optimizer that the built model was compiled with.
        fine_tune: share of its layers that learn beside the head; None where all do, as they are.
        begin: content of the Keras file whose weights it begins with; empty where `build` gives them.
    """

    name: str = field(init=False)
    doc: str = field(init=False)
    build: Callable[..., Any] = field(init=False)
    manifest: Callable[..., Manifest] = field(init=False)
    loss: str = field(init=False)
    metrics: tuple[str, ...] = field(init=False)
    source: str = ""
    content: bytes = b""
    options: dict[str, Any] = field(default_factory=dict)
    facts: dict[str, Any] = field(default_factory=dict)
    compiled: dict[str, Any] = field(default_factory=dict)
    fine_tune: float | None = None
    begin: bytes = b""

    def __post_init__(self) -> None:
        for name, value in {
            "name": own_name(self.source),
            "doc": "a network of the user's own",
            "build": self.make,
            "manifest": self.make_manifest,
            "loss": self.facts.get("loss", ""),
            "metrics": tuple(self.facts.get("metrics", ())),
        }.items():
            object.__setattr__(self, name, value)  # the way into a frozen dataclass

    @classmethod
    def of(cls, job: TrainJob) -> Own:
        """Return the network that a job names, with what follows from it, where that is known."""
        facts, found = job.described, FILE.fullmatch(job.network)
        # Other hosts may not have the file: `everywhere` gives it to them
        elsewhere = facts and job.hosts and found and not os.path.exists(found["file"])
        content = b"" if elsewhere else read_file(job.network)
        begin = facts.get("begin", "")
        return cls(
            source=job.network,
            content=content,
            options=facts.get("options", job.network_options),
            facts=facts,
            fine_tune=job.fine_tune,
            begin=read_file(begin) if begin and os.path.exists(begin) else b"",
            weights=tuple(job.weights),
        )

    @cached_property
    def maker(self) -> Maker:
        """How it is made; importing it runs the user's code."""
        return maker_of(self.source, self.content)

    def make(self, **options: Any) -> Any:
        """Return the model as a Functional one, uncompiled, and keep what it was compiled with.

        To be fine-tuned, it comes with its head, and the other layers are frozen.
        """
        import keras

        model = self._made(options)
        if not isinstance(model, keras.Model):
            raise UsageError(f"{self.source} gives a {type(model).__name__}, but must give a Keras model")
        if not getattr(model, "inputs", None):
            raise UsageError(
                f"{self.source} gives a model that does not know its input",
                "Begin it with keras.Input((height, width, channels)), and make it of layers: keras.Sequential or "
                "keras.Model(inputs, outputs).",
            )
        for name, many in (("input", model.inputs), ("output", model.outputs)):
            if len(many) > 1:
                raise UsageError(
                    f"{self.source} has {len(many)} {name}s ({', '.join(one.name for one in many)}), but training "
                    f"takes networks of one",
                    f"Give the model one {name}: keras.Model(image, scores).",
                )
        self.compiled.update(_compiled(model))
        # Without its optimizer's state, and with one tensor where some models have lists of one
        name = re.sub(r"\W", "_", model.name).strip("_") or "network"  # TensorFlow takes no others
        model = keras.Model(model.inputs[0], model.outputs[0], name=name)
        return model if self.fine_tune is None else self._to_tune(model)

    def _made(self, options: dict[str, Any]) -> Any:
        self.maker.check(self.source, options)
        file, hint = FILE.fullmatch(self.source), ""
        if self.maker.pretrained(options):
            new = "" if self.fine_tune is not None else "For a new head on the weights: --fine-tune 0.3. "
            hint = f"{new}Start without pre-trained weights: --set weights=none"
        elif self.fine_tune is not None and "weights" in (self.maker.options or ()):
            raise UsageError(
                f"fine_tune is {self.fine_tune}, but {self.source} begins without trained weights",
                "Leave out --fine-tune, or --set weights=none.",
            )
        where = file["file"] if file else self.source
        try:
            with users_errors(f"{self.source} cannot be built with {options}", where, hint):
                return self.maker.make(options)
        except UsageError as err:
            if "URL fetch failure" not in err.message:
                raise
            lost = err.message.partition("URL fetch failure on ")[2]
            raise UsageError(f"the weights of {self.source} cannot be downloaded: {lost}", FETCHED) from err

    def _to_tune(self, model: Any) -> Any:
        """Return the model with a head for the labels and the weights that it begins with; only some layers learn."""
        if self.facts["task"] != "segmentation":
            model, head = with_head(model, self.facts["labels"], self.facts["task"])
            self.facts["head"] = head
            if head:
                self.compiled.pop("loss", None)  # of the old head
        if self.begin:
            with tempfile.TemporaryDirectory(prefix="dbinfer-") as folder:
                file = Path(folder, "begin.keras")
                file.write_bytes(self.begin)
                model.load_weights(file)
        freeze(model, self.fine_tune or 0.0)
        return model

    def make_manifest(self, **options: Any) -> Manifest:
        """Return the manifest that follows; of labels it has the names of a mask's classes, and none of the data's."""
        return Manifest.from_dict(self.facts["manifest"])

    @property
    def given_loss(self) -> Any:
        """The loss of the file, else the one that the model was compiled with, else the one that follows."""
        beside = self.maker.beside
        return beside["loss"] if "loss" in beside else self.compiled.get("loss") or usual_loss(self.facts)

    def make_loss(self) -> Any:
        return fitted_loss(self.given_loss, self.facts, self.weights)

    def make_metrics(self) -> list[Any]:
        beside = self.maker.beside
        return fresh(beside["metrics"]) if "metrics" in beside else usual_metrics(self.facts)

    def make_optimizer(self, rate: float) -> Any:
        """Return a new optimizer of the kind that the model was compiled with, with this rate."""
        import keras

        made = keras.optimizers.deserialize(self.facts["optimizer"])
        return type(made).from_config({**made.get_config(), "learning_rate": rate})


def _compiled(model: Any) -> dict[str, Any]:
    """Return loss and optimizer of a compiled model."""
    if not getattr(model, "compiled", False):
        return {}
    found: dict[str, Any] = {}
    loss = getattr(model, "loss", None)
    while isinstance(loss, dict | list | tuple) and len(loss) == 1:
        loss = next(iter(loss.values() if isinstance(loss, dict) else loss))
    if loss is not None:
        found["loss"] = loss
    if getattr(model, "optimizer", None) is not None:
        found["optimizer"] = model.optimizer
    return found


def everywhere(network: Network, job: TrainJob, share: Callable[[Any], Any]) -> Network:
    """Return the network as the first process has it: ranks on other hosts get its file from there.

    Args:
        share: returns the first process's value, which JSON can represent, in every process.
    """
    if not isinstance(network, Own) or not job.hosts:
        return network
    files = share([base64.b64encode(one).decode() for one in (network.content, network.begin)])
    content, begin = map(base64.b64decode, files)
    return replace(network, content=content, begin=begin)


def find_network(job: TrainJob) -> Network:
    """Return the network that a job names.

    Raises:
        UsageError: there is none of that name, or its file cannot be read.
    """
    if own_name(job.network):
        return Own.of(job)
    if job.network not in NETWORKS:
        raise UsageError(
            f"there is no network {job.network!r}; there are {', '.join(sorted(NETWORKS))}",
            f"A network of your own is {KINDS}.",
        )
    return replace(NETWORKS[job.network], weights=tuple(job.weights))


def saved(model: Any, out: str) -> str:
    """Save a Keras model of this process where a training can read it, and return the file's path.

    Args:
        out: folder of the run; empty for runs/NAME.

    Raises:
        UsageError: it is no Keras model, or cannot be saved.
    """
    keras = sys.modules.get("keras")
    if keras is None or not isinstance(model, keras.Model):
        raise UsageError(
            f"the network is a {type(model).__name__}, but must be a name, a file or a Keras model"
        )
    name = re.sub(r"\W", "_", model.name)
    path = Path(out or f"runs/{name}") / f"{name}.start.keras"
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        model.save(path)
    except Exception as err:
        raise UsageError(
            f"the Keras model {model.name} cannot be saved as {path}: {telling_line(err)}", CODE
        ) from err
    return str(path)
