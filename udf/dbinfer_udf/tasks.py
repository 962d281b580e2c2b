"""One table of the tasks of models and the functions that score with them; and how many rows make a batch.

The manifest, the engine's requests, batches, post-processing and the client all follow from this table. Every session
imports it, so it needs no library: it names the functions of post-processing, which are imported where rows are scored.
"""

from __future__ import annotations

from .errors import UsageError

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import Any, Dict, Optional, Sequence, Tuple

FLOATS, BYTEA = "pg_catalog.float4[]", "pg_catalog.bytea"
CLASSIFICATION, DETECTIONS = "dbinfer.classification", "dbinfer.detection[]"
READING, TEXT_LINES = "dbinfer.reading", "dbinfer.text_line[]"
EACH = "each"


class Function:
    """What a SQL function returns for an image.

    Attributes:
        name: the word by which SQL asks for it, see sql/resolve/_text.sql.
        sql: name of the SQL function.
        number: its number in requests to the engine.
        finish: the function that turns an output of the network into the result, as `module:name` of this package. It
            gets the model, the output of one image (float32), the image's placement in the input tensor, its header,
            and the argument.
        columns: name and SQL type of each column that a table of results gets.
        result: SQL type of the result; the columns are the fields of a composite.
        batch: how <sql>_table finishes the images of a batch: EACH by itself; or all at once, by a function that gets
            the model and the outputs, as `module:name`; "" where whole tables are not scored.
        argument: what it takes beside the image: `output` (a name), `classes` (a number), or ""; `outputs`: `finish`
            gets all outputs of the network in place of the first.
        task: the task that it needs; None: any.
        tiled: see Task; "" where an image is looked at as a whole only.
    """

    def __init__(
        self,
        name: str,
        number: int,
        finish: str,
        columns: Dict[str, str],
        result: str = "",
        sql: str = "",
        batch: str = EACH,
        argument: str = "",
    ) -> None:
        self.name, self.sql, self.number = name, sql or name, number
        self.finish, self.batch, self.argument = finish, batch, argument
        self.columns, self.result = columns, result or next(iter(columns.values()))
        self.task: Optional[str] = None
        self.tiled = ""


class Task:
    """What a model is for.

    Attributes:
        functions: the functions that need a model of this task; users call the first one.
        layout: a function that gets the output's shape and the labels when a model is loaded, as `module:name` of this
            package; what it returns is `model.layout`.
        keys: keys of the manifest that only some tasks have.
        model_type: the name that OpenVINO's Model API has for the task, if any.
        model_info: keys that Model API reads for such models, see manifest.MODEL_INFO.
        one_size: all images get one size, as the layout depends on it.
        tiled: the class that makes one result of the first function of what was found in the tiles of an image, as
            `module:name`; "" where there is none.
        reads_text: it takes a text in place of an image; see image.words.
    """

    def __init__(
        self,
        name: str,
        *functions: Function,
        layout: str = "",
        keys: Tuple[str, ...] = (),
        model_type: str = "",
        model_info: Tuple[str, ...] = (),
        one_size: bool = False,
        tiled: str = "",
        reads_text: bool = False,
    ) -> None:
        self.one_size, self.tiled, self.reads_text = one_size, tiled, reads_text
        self.name, self.functions, self.layout = name, functions, layout
        self.keys, self.model_type, self.model_info = keys, model_type, model_info
        for function in functions:
            function.task = name
        for function in functions[:1]:
            function.tiled = tiled


# Models of every task have these
PREDICT = Function("predict", 0, "result.vectors:predict", {"prediction": FLOATS}, argument="output")
TENSOR = Function(
    "tensor",
    1,
    "result.vectors:tensor",
    {"tensor": BYTEA},
    sql="predict_tensor",
    batch="",
    argument="output",
)
TILE_KEYS = ("tile", "tile_overlap")
# A new function takes the next free number, REQUESTS below included
TASKS: Dict[str, Task] = {
    task.name: task
    for task in (
        Task(
            "classification",
            Function(
                "classify",
                2,
                "result.vectors:classify",
                {"class": "integer", "label": "pg_catalog.text", "score": "pg_catalog.float4"},
                CLASSIFICATION,
                batch="result.vectors:classify_batch",
            ),
            Function(
                "classify_top",
                3,
                "result.vectors:classify_top",
                {"classes": CLASSIFICATION + "[]"},
                batch="",
                argument="classes",
            ),
            Function("classify_all", 13, "result.vectors:classify_all", {"classes": CLASSIFICATION + "[]"}),
            model_type="Classification",
            model_info=("output_raw_scores",),
        ),
        Task(
            "segmentation",
            Function("segment", 4, "result.mask:segment", {"mask": BYTEA}),
            layout="result.mask:mask_layout",
            keys=TILE_KEYS,
            model_type="Segmentation",
            model_info=("confidence_threshold",),
            one_size=True,
            tiled="result.tiled:Mask",
        ),
        Task(
            "embedding",
            Function("embed", 5, "result.vectors:embed", {"embedding": FLOATS}),
        ),
        Task(
            "text_embedding",
            Function("embed_text", 16, "result.vectors:embed", {"embedding": FLOATS}, batch=""),
            reads_text=True,
        ),
        Task(
            "detection",
            Function("detect", 9, "result.detection:detect", {"detections": DETECTIONS}),
            Function(
                "instances",
                14,
                "result.instances:instances",
                {"instances": "dbinfer.instance[]"},
                argument="outputs",
            ),
            layout="result.detection:detector_labels",
            keys=("iou_threshold", "max_detections", *TILE_KEYS),
            # no model_type: Model API has a wrapper for each published head, and none for our one form of them all
            model_info=("confidence_threshold", "iou_threshold"),
            one_size=True,
            tiled="result.tiled:Objects",
        ),
        Task(
            "text_detection",
            Function("find_text", 10, "result.text:find_text", {"lines": TEXT_LINES}),
            layout="result.text:map_size",
            keys=("max_detections", "pixel_threshold", "unclip_ratio"),
        ),
        Task(
            "text",
            Function(
                "read_line",
                11,
                "result.text:read_line",
                {"text": "pg_catalog.text", "score": "pg_catalog.float4"},
                READING,
            ),
            layout="result.text:characters",
        ),
        Task("tensor"),
    )
}
FUNCTIONS: Dict[str, Function] = {
    function.name: function
    for functions in ((PREDICT, TENSOR), *(task.functions for task in TASKS.values()))
    for function in functions
}
# Other requests to the engine, by number: the times of a model's steps, one run of it, many rows, all outputs, a tile
REQUESTS = {"profile": 6, "warm": 7, "rows": 8, "outputs": 12, "tile": 15}


def imported(path: str) -> Any:
    """Return the function that this table names as `module:name`, importing the module."""
    module, name = path.split(":")
    return getattr(__import__("%s.%s" % (__package__, module), fromlist=[name]), name)


def wants_tiles(function: Function, argument: Optional[int], tile: bool) -> bool:
    """Return whether an image goes through the network tile by tile.

    Args:
        argument: of the call: above 0 yes, below 0 no, 0 or None as the manifest says.
        tile: what the manifest says.
    """
    return bool(function.tiled) and (argument > 0 if argument else tile)


def whole_only(model: str, task: str) -> UsageError:
    """Return the error of a model that looks at images as a whole."""
    return UsageError('model "%s" is for %s, which looks at images as a whole' % (model, task))


def either(names: Sequence[str]) -> str:
    """Return names as a sentence has them: a, b or c."""
    return " or ".join(part for part in (", ".join(names[:-1]), names[-1]) if part)


def require_task(model: str, task: str, needed: str, function: str) -> None:
    """Raise unless the model has the task that a function needs."""
    if task != needed:
        own = [function.sql for function in TASKS[task].functions]
        fitting = either([*own, PREDICT.sql] if own else [PREDICT.sql, TENSOR.sql])
        raise UsageError(
            'model "%s" is for %s, but %s() needs %s' % (model, task, function, needed),
            hint="Call dbinfer.%s with this model. To see all models: SELECT name, task FROM dbinfer.models"
            % fitting,
        )


def output_number(model: str, outputs: Sequence[str], wanted: Any) -> int:
    """Return the place of the output of a name among the network's; the first for None.

    Args:
        outputs: as the manifest names them; none where the network has one.
        wanted: a name, or a number, which is what a worker of the engine gets.
    """
    if wanted is None:
        return 0
    if isinstance(wanted, int):
        return wanted
    if wanted in outputs:
        return outputs.index(wanted)
    there = "its outputs are %s" % ", ".join(outputs) if outputs else "it has one, which needs no name"
    raise UsageError(
        'model "%s" has no output "%s": %s' % (model, wanted, there),
        hint="Call dbinfer.predict(img, 'model', output => 'name'); without a name it returns the first output.",
    )


# Names of scans of `dbinfer score` begin with this: its statements find out themselves which rows are left
OF_A_JOB = "job"
MOST_ROWS = 32  # digits CNN, microseconds a row of inference: 1 row 30, 8 rows 21, 32 rows 17, 128 rows 17
WAITING_BYTES = 1 << 21  # of image files that wait for one batch
RESULT_BYTES = 1 << 23  # of the results of one batch
LEAST_ROWS = 4
# A batch must be this much faster, because two figures of one trial differ by a few percent on any machine
PAYS = 0.9
TEXT_BYTES = 14  # of a float32 in the text of an array


def pays(alone: object, within: object) -> bool:
    """Return whether an image takes clearly less time within a batch; both are milliseconds of the trial, or None."""
    numbers = (int, float)
    return isinstance(alone, numbers) and isinstance(within, numbers) and within < PAYS * alone


def rows_for(img: Optional[bytes], result_bytes: int = 0) -> int:
    """Return how many rows fit a batch: a power of two, as each compiles a network.

    Args:
        img: the first image, for the size of all.
        result_bytes: of a row, at most.
    """
    rows = MOST_ROWS
    while rows > 1 and (rows * len(img or b"") > WAITING_BYTES or rows * result_bytes > RESULT_BYTES):
        rows //= 2
    return rows if rows >= LEAST_ROWS else 1
