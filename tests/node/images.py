"""Container images without a registry and without Docker: one archive that ``ctr images import`` reads.

The image of Pumice has the layout and the settings of the Dockerfile. Its base is not ``python:3.13-slim``, which would
have to be pulled: it is the interpreter that runs the tests, with the libraries that it is linked to. The packages are
those of the virtual environment, which were installed from requirements/runtime.txt, and the wheel of the checkout.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import platform
import py_compile
import re
import shlex
import sys
import sysconfig
import tarfile
import zipfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from importlib.util import cache_from_source
from pathlib import Path
from typing import Any

from tests.support.processes import run_process

ROOT = Path(__file__).parent.parent.parent
ARCHITECTURES = {"x86_64": "amd64", "aarch64": "arm64"}
UNUSED = frozenset({"test", "tests", "idlelib", "tkinter", "turtledemo", "ensurepip", "lib2to3", "site-packages"})
"""Folders of the standard library and of packages that no component imports."""
BASE = Path("/usr/local")
HOME = Path("/opt/pumice")
PACKAGES = HOME / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"
Settings = dict[str, Any]


@dataclass(frozen=True)
class Image:
    """A name, the layers from the bottom up, and what a container of it starts with."""

    name: str
    layers: Sequence[Path]
    settings: Settings = field(default_factory=dict)


def write_archive(target: Path, images: Iterable[Image]) -> Path:
    """Write an archive of several images in the layout of OCI; layers that they share are in it once."""
    system = {"architecture": ARCHITECTURES.get(platform.machine(), platform.machine()), "os": "linux"}
    blobs: dict[str, bytes | Path] = {}

    def blob(content: bytes | Path, media: str) -> dict[str, Any]:
        digest = _digest(content)
        blobs[digest] = content
        size = content.stat().st_size if isinstance(content, Path) else len(content)
        return {"mediaType": f"application/vnd.oci.image.{media}", "digest": digest, "size": size}

    entries = []
    for image in images:
        layers = [blob(layer, "layer.v1.tar") for layer in image.layers]
        config = {
            **system,
            "config": image.settings,
            "rootfs": {"type": "layers", "diff_ids": [layer["digest"] for layer in layers]},
        }
        manifest = {
            "schemaVersion": 2,
            "mediaType": "application/vnd.oci.image.manifest.v1+json",
            "config": blob(_encoded(config), "config.v1+json"),
            "layers": layers,
        }
        names = {"io.containerd.image.name": image.name}
        entries.append({**blob(_encoded(manifest), "manifest.v1+json"), "platform": system, "annotations": names})
    index = {"schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": entries}
    with tarfile.open(target, "w") as archive:
        _add(archive, Path("/oci-layout"), _encoded({"imageLayoutVersion": "1.0.0"}))
        _add(archive, Path("/index.json"), _encoded(index))
        for digest, content in blobs.items():
            _add(archive, Path("/blobs") / digest.replace(":", "/"), content)
    return target


def program_image(name: str, program: Path, target: Path) -> Image:
    """An image of one program that needs no other file."""
    with tarfile.open(target, "w") as layer:
        _add(layer, Path("/") / program.name, program)
    return Image(name, [target], {"Entrypoint": [f"/{program.name}"]})


def busybox_layer(program: Path, target: Path) -> Path:
    """A layer with a statically linked BusyBox under the names of all its commands."""
    commands = run_process([program, "--list"], capture_output=True, text=True, check=True).stdout.split()
    with tarfile.open(target, "w") as layer:
        _add(layer, Path("/bin") / program.name, program)
        for command in sorted(set(commands) - {program.name}):
            _add_link(layer, Path("/bin") / command, program.name)
        _add(layer, Path("/etc/passwd"), b"root:x:0:0:root:/:/bin/sh\n")
    return target


def pumice_image(name: str, source: Path, base: Path, work: Path) -> Image:
    """The image of a source tree on a base (see ``write_base``)."""
    work.mkdir()
    target = work / "layer.tar"
    with zipfile.ZipFile(_wheel(source, work)) as wheel, tarfile.open(target, "w") as layer:
        for path in wheel.namelist():
            content = wheel.read(path)
            _add(layer, PACKAGES / path, content)
            if path.endswith(".py"):
                _add(layer, PACKAGES / cache_from_source(path), _compiled(content, PACKAGES / path, work))
        commands = next(wheel.read(path).decode() for path in wheel.namelist() if path.endswith("entry_points.txt"))
        for command, module, function in re.findall(r"^(\w+) = ([\w.]+):(\w+)$", commands, re.MULTILINE):
            script = f"#!{HOME}/bin/python\nimport sys\nfrom {module} import {function}\nsys.exit({function}())\n"
            _add(layer, HOME / "bin" / command, script.encode(), executable=True)
    return Image(name, [base, target], dockerfile_settings((source / "Dockerfile").read_text()))


def _compiled(source: bytes, place: Path, work: Path) -> bytes:
    """What Python makes of a module: as in the Dockerfile, it need not compare times to believe it."""
    written, compiled = work / "module.py", work / "module.pyc"
    written.write_bytes(source)
    mode = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(written), str(compiled), str(place), doraise=True, invalidation_mode=mode)
    return compiled.read_bytes()


def write_base(target: Path) -> Path:
    """Write the layer that all versions of Pumice share: Python, its libraries, and the pinned packages."""
    version = f"python{sysconfig.get_python_version()}"
    interpreter = Path(sys.executable).resolve()
    library = Path(sysconfig.get_path("stdlib"))
    placed: dict[Path, Path] = {BASE / "bin" / version: interpreter}
    for path in _files(library):
        placed[BASE / "lib" / version / path.relative_to(library)] = path
    for package in _packages():
        for path in package:
            placed[PACKAGES / path.relative_to(_site_packages())] = path
    own = {path.resolve() for path in placed.values()}
    for path in _linked([interpreter, *(path for path in own if ".so" in path.suffixes)]):
        if path.resolve() not in own:
            system = path.parts[1] in ("lib", "lib64", "usr")
            placed[path if system else Path("/usr/lib") / path.name] = path
    with tarfile.open(target, "w") as layer:
        for place, path in sorted(placed.items()):
            _add(layer, place, path)
        for link, linked in ((BASE / "bin" / "python3", version), (HOME / "bin" / "python", f"{BASE}/bin/{version}")):
            _add_link(layer, link, linked)
        _add(layer, HOME / "pyvenv.cfg", f"home = {BASE}/bin\ninclude-system-site-packages = false\n".encode())
        _add(layer, Path("/etc/passwd"), b"nobody:x:65532:65532:nobody:/:/bin/false\n")
        _add(layer, Path("/etc/nsswitch.conf"), b"hosts: files\n")
    return target


def dockerfile_settings(text: str) -> Settings:
    """What the last stage of a Dockerfile says of its containers."""
    stage = re.split(r"^FROM .*$", text, flags=re.MULTILINE)[-1]
    said = dict(re.findall(r"^(ENV|USER|ENTRYPOINT) (.+)$", stage, re.MULTILINE))
    paths = {"PATH": "/usr/local/bin:/usr/bin:/bin"}
    environment = [re.sub(r"\$(\w+)", lambda found: paths[found[1]], each) for each in shlex.split(said["ENV"])]
    return {"Env": environment, "User": said["USER"], "Entrypoint": json.loads(said["ENTRYPOINT"])}


def _wheel(source: Path, work: Path) -> Path:
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    done = run_process([*command, "--wheel-dir", work, source], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    (wheel,) = work.glob("*.whl")
    return wheel


def _packages() -> Iterator[list[Path]]:
    """The files of every package that requirements/runtime.txt pins and this platform needs."""
    pinned = re.findall(r"^([\w.-]+)==([^ ;]+)", (ROOT / "requirements" / "runtime.txt").read_text(), re.MULTILINE)
    for name, version in pinned:
        try:
            package = metadata.distribution(name)
        except metadata.PackageNotFoundError:  # for another platform, or another Python
            continue
        assert package.version == version, f"{name} is {package.version} here, not {version}: run make lock or make"
        paths = [Path(str(package.locate_file(path))) for path in package.files or ()]
        inside = [path for path in paths if ".." not in path.parts and path.is_file()]  # without its programs
        yield [path for path in inside if not UNUSED.intersection(path.relative_to(_site_packages()).parts)]


def _site_packages() -> Path:
    return Path(sysconfig.get_path("platlib"))


def _files(folder: Path) -> Iterator[Path]:
    for place, folders, names in os.walk(folder):
        folders[:] = sorted(set(folders) - UNUSED)
        for name in sorted(names):
            path = Path(place, name)
            if path.suffix != ".a" and ".opt-" not in name and path.is_file():
                yield path


def _linked(programs: Iterable[Path]) -> set[Path]:
    """The libraries that programs are linked to, with the loader."""
    done = run_process(["ldd", *programs], capture_output=True, text=True)  # fails for what is not linked
    return {Path(path) for path in re.findall(r"(?:=> |^\s+)(/\S+) \(0x", done.stdout, re.MULTILINE)}


def _add(archive: tarfile.TarFile, place: Path, content: bytes | Path, *, executable: bool = False) -> None:
    """Add a file that belongs to root and that everybody may read. Compiled files stay newer than their sources."""
    member = tarfile.TarInfo(str(place).lstrip("/"))
    if isinstance(content, Path):
        about = content.stat()
        member.size, member.mtime = about.st_size, int(about.st_mtime)
        executable = bool(about.st_mode & 0o100)
        member.mode = 0o755 if executable else 0o644
        with content.open("rb") as file:
            archive.addfile(member, file)
        return
    member.size = len(content)
    member.mode = 0o755 if executable else 0o644
    archive.addfile(member, io.BytesIO(content))


def _add_link(archive: tarfile.TarFile, place: Path, linked: str) -> None:
    member = tarfile.TarInfo(str(place).lstrip("/"))
    member.type, member.linkname = tarfile.SYMTYPE, linked
    archive.addfile(member)


def _digest(content: bytes | Path) -> str:
    if isinstance(content, bytes):
        return f"sha256:{hashlib.sha256(content).hexdigest()}"
    with content.open("rb") as file:
        return f"sha256:{hashlib.file_digest(file, 'sha256').hexdigest()}"


def _encoded(document: Mapping[str, Any]) -> bytes:
    return json.dumps(document, sort_keys=True).encode()
