"""What this host's processor is, and which precisions it computes in, by its own words."""

from __future__ import annotations

TYPE_CHECKING = False  # of typing itself: see fastjson
if TYPE_CHECKING:
    from typing import List

# Any of them is enough; without one OpenVINO computes in f32, or imitates the precision slowly
NEEDS = {
    "bf16": ("avx512_bf16", "amx_bf16", "bf16"),
    "f16": ("avx512_fp16", "amx_fp16", "asimdhp"),
}
FLAGS = ("flags", "Features")  # the latter on ARM


def kind(path: str = "/proc/cpuinfo") -> List[str]:
    """Return its name and its abilities: what was compiled or timed here holds for processors with the same."""
    try:
        with open(path) as cpuinfo:
            # the first core stands for all
            text = cpuinfo.read(4096)
    except OSError:
        return []
    return [line for line in text.splitlines() if line.startswith(("model name", *FLAGS))][:2]


def precisions(path: str = "/proc/cpuinfo") -> List[str]:
    """Return those of NEEDS that the processor computes in."""
    have = {flag for line in kind(path) if line.startswith(FLAGS) for flag in line.partition(":")[2].split()}
    return [precision for precision, names in NEEDS.items() if have.intersection(names)]
