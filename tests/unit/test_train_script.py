"""Of a Python file that runs which a name needs, and nothing else."""

from __future__ import annotations

from typing import Any

import pytest

from dbinfer.base.errors import UsageError
from dbinfer.train.script import Script

TEXT = '''
"""A script that would end the test if more of it ran than `model` needs."""
from __future__ import annotations
from os.path import join as joined
import a_package_that_nobody_has as absent

size = 3
names = ["a"]
names.append("b")
data = absent.load(size)
shape = data.shape


def grown(x):
    data = x + step
    return [data for size in (1, 2)]


step: int = 10
x = size
x = x + 1
model = dict(x=x, grown=grown(2), shape=shape, path=joined("a", "b"), names=names)
model["later"] = True
if step > 5:
    model.update(x=0)
for each in "cd":
    names.append(each)
if __name__ == "__main__":
    model = None
history = model.fit(data)
model = absent.again(model)
'''


def run(name: str, **values: Any) -> Any:
    return Script(TEXT, "text.py").run([name], values)[name]


def test_only_what_a_name_needs_runs_up_to_its_first_fit() -> None:
    """`shape` is given instead of what the data says, so that nothing loads the data."""
    found = run("model", shape=(28, 28))
    assert found == {
        "x": 4,
        "grown": [12, 12],
        "shape": (28, 28),
        "path": "a/b",
        "names": ["a", "b", "c", "d"],
        "later": True,
    }
    with pytest.raises(ModuleNotFoundError, match="a_package_that_nobody_has"):
        run("model")


def test_a_function_comes_without_the_variables_of_the_same_names_as_its_own() -> None:
    assert run("grown")(1) == [11, 11]
    assert run("grown", step=1)(1) == [2, 2]


def test_plain_values_can_be_set() -> None:
    script = Script(TEXT, "text.py")
    assert script.constants("grown") == ("step",)
    assert script.constants("model") == ("size", "names", "step")
    assert run("model", shape=(), size=7)["x"] == 8
    assert script.functions == ["grown"]
    assert (script.is_function("grown"), script.is_function("model")) == (True, False)


def test_what_is_no_python_is_named_with_its_line() -> None:
    with pytest.raises(UsageError, match=r"line 2 of net\.py is no Python: "):
        Script("a = 1\ndef (", "net.py")
    with pytest.raises(UsageError, match=r"net\.py is no Python: "):
        Script("a = '\0'", "net.py")
