"""How a page is read: which blocks count, and when an output is the one that is shown."""

from __future__ import annotations

from pathlib import Path

import pytest
import tour
from tour import Step

PAGE = """
```console
$ one   # why
shown 1
$ two \\
    more
```

```sql
SELECT 1;
```

<!-- tour: measured -->
```text
1.5
```

<!-- tour: skip -->
```console
$ three
```
"""


def test_steps_in_order_with_their_outputs(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    assert tour.steps(page) == [
        Step("console", "one", "shown 1\n"),
        Step("console", "two     more"),
        Step("sql", "SELECT 1;\n", "1.5\n", measured=True),
    ]


@pytest.mark.parametrize(
    ("shown", "printed", "measured", "same"),
    [
        ("", "anything", False, True),
        ("359 loaded\n", "358 loaded\n", False, False),
        ("359 loaded\n", "358 loaded\n", True, True),
        ("score 0.98\n", "score 0.971\n", False, True),
        ("score 0.98\n", "score 0.5\n", False, False),
        ("--- a ---\n", "-- a  --\n", False, True),
        ("0.052 ms and 102.5 MB of\nmemory\n", "0.07 ms and 103.4 MB of memory\n", True, True),
        ("two\nlines\n", "two lines\n", False, False),
        ("...\nend\n", "a\nb\nend\n", False, True),
        ("...\nend\n", "a\nb\n", False, False),
    ],
)
def test_outputs_are_compared_by_what_can_be_equal(
    shown: str, printed: str, measured: bool, same: bool
) -> None:
    assert tour.alike(Step("console", "command", shown, measured), printed) is same
