"""Starts the runtime in a backend from the registry's modules, and compiles it for the registry; executed before any
package exists.

The modules become a package named after the runtime's digest, so that an upgraded runtime replaces the old one in
open sessions. They have file names like `dbinfer-<digest>/model.py` and a loader with get_source, so that tracebacks
show source lines. Nothing is imported here that Python has not already: every session waits for it.
"""

from __future__ import annotations

import marshal
import sys

TYPE_CHECKING = False  # typing's own takes milliseconds to import
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional

PREFIX = "dbinfer_rt_"


class Finder:
    """Imports the runtime's modules.

    Args:
        package: name of the package that they become.
        modules: source of each module by its name; empty where `pack` has them.
        pack: what `packed` made of them: compiled, and the sources for tracebacks.

    Attributes:
        compiled: whether `pack` was given.
    """

    # an older runtime's Finder is another class, which isinstance would not know
    dbinfer_finder = True

    def __init__(self, package: str, modules: Dict[str, str], pack: Optional[Dict[str, Any]] = None) -> None:
        self.package = package
        self.folder = "dbinfer-" + package[len(PREFIX) :]
        self._modules = modules
        self.compiled = pack is not None
        self._pack = pack or {}
        self._names: Any = self._pack.get("code", modules)

    @property
    def modules(self) -> Dict[str, str]:
        """Return the sources by the modules' names."""
        if not self._modules:
            # for tracebacks, and to start an engine: most sessions never look
            import json
            import zlib

            self._modules = json.loads(zlib.decompress(self._pack["sources"]))
        return self._modules

    def _key(self, fullname: str) -> str:
        """Return the key of a module: `model`, `engine.client`, or `engine.__init__` for a package."""
        inner = fullname[len(self.package) + 1 :]
        package = inner + ".__init__" if inner else "__init__"
        return package if package in self._names else inner

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        """Return the spec of a runtime module; None for any other."""
        if fullname != self.package and not fullname.startswith(self.package + "."):
            return None
        if self._key(fullname) not in self._names:
            return None
        # importlib.machinery.ModuleSpec, without its import
        spec: Any = type(sys.__spec__)
        return spec(fullname, self, origin=self.get_filename(fullname), is_package=self.is_package(fullname))

    def create_module(self, spec: Any) -> None:
        """Leave it to Python to make the module."""

    def get_filename(self, fullname: str) -> str:
        """Return the name that tracebacks show."""
        return "%s/%s.py" % (self.folder, self._key(fullname).replace(".", "/"))

    def get_source(self, fullname: str) -> Optional[str]:
        """Return the source, for tracebacks."""
        return self.modules.get(self._key(fullname))

    def is_package(self, fullname: str) -> bool:
        """Return whether the name is that of the package or of a package in it."""
        return self._key(fullname).endswith("__init__")

    def get_code(self, fullname: str) -> Any:
        """Return the compiled module."""
        if self._pack:
            import zlib

            return marshal.loads(zlib.decompress(self._pack["code"][self._key(fullname)]))
        # dont_inherit: otherwise the __future__ imports of this file would count in each module
        return compile(
            self.modules[self._key(fullname)], self.get_filename(fullname), "exec", dont_inherit=True
        )

    def exec_module(self, module: Any) -> None:
        """Run the module."""
        module.__file__ = self.get_filename(module.__name__)
        exec(self.get_code(module.__name__), module.__dict__)


def start(
    modules: Dict[str, str], digest: str, gd: Dict[str, Any], pack: Optional[Dict[str, Any]] = None
) -> None:
    """Make the runtime of `digest` the one of this backend and put its session into `gd`.

    Args:
        modules: source of each module, `__init__` among them; empty where `pack` has them.
        digest: sha256 of all sources.
        gd: PL/Python's GD; gets `dbinfer` (the session) and `dbinfer.gate`.
        pack: the modules compiled by this Python; see packed.
    """
    package = PREFIX + digest[:12]
    old: List[Any] = [f for f in sys.meta_path if getattr(f, "dbinfer_finder", False)]
    for finder in old:
        sys.meta_path.remove(finder)
    # code that still runs keeps its modules alive; only new imports must not find them
    for name in [n for n in sys.modules if n.startswith(PREFIX)]:
        del sys.modules[name]
    finder = Finder(package, modules, pack)
    # first, so that no file of that name on sys.path can take a module's place
    sys.meta_path.insert(0, finder)
    previous = gd.get("dbinfer")
    if previous is not None:
        previous.close()
    __import__(package + ".session.backend")
    gd["dbinfer"] = sys.modules[package + ".session.backend"].Session(gd, digest)
    gd["dbinfer.gate"] = gd["dbinfer"].gate


def packed(sources: str, digest: str) -> bytes:
    """Return the modules compiled by this Python, each by itself, and all sources for tracebacks.

    Args:
        sources: JSON: the source of each module.
        digest: of the runtime, from which the names of files in tracebacks come.
    """
    import json
    import zlib

    modules: Dict[str, str] = json.loads(sources)
    code = {name: _compiled(name, source, digest) for name, source in modules.items()}
    return marshal.dumps({"code": code, "sources": zlib.compress(sources.encode(), 9)})


def _compiled(name: str, source: str, digest: str) -> bytes:
    import zlib

    # as Finder.get_filename and get_code
    path = "dbinfer-%s/%s.py" % (digest[:12], name.replace(".", "/"))
    return zlib.compress(marshal.dumps(compile(source, path, "exec", dont_inherit=True)), 9)
