# SPDX-License-Identifier: Apache-2.0
"""The Python environments in which scripts for onnxruntime.training run.

    STROP_ORT_PYTHON            the interpreter of an environment with onnxruntime-training-cpu 1.19.2; .venv by default
    STROP_DROPIN_PYTHON         of one with stock onnxruntime, onnx, pytest, hatchling and pip, into which the drop-in
                                is installed; .venv-dropin by default
    STROP_DROPIN_ALONE_PYTHON   the same without onnxruntime; .venv-dropin-alone by default

The last two must be of this interpreter's version, and get the strop that is tested here.
"""

import filecmp
import functools
import os
import pathlib
import subprocess
import sys
import tempfile

import pytest

REPOSITORY = pathlib.Path(__file__).resolve().parents[2]
DROPIN = REPOSITORY / "python/dropin"

# Enters ONNX Runtime's training package without its __init__, which wants torch.
_ORT_ENTRY = """
import runpy, sys
sys.path.insert(0, {tests!r})
import ort_training
sys.exit(ort_training.MISSING) if ort_training.api is None else None
sys.path[0] = {folder!r}
sys.argv = {arguments!r}
runpy.run_path({script!r}, run_name="__main__")
"""


def _interpreter(variable, folder):
    program = "Scripts/python.exe" if os.name == "nt" else "bin/python"
    path = pathlib.Path(os.environ.get(variable, REPOSITORY / folder / program))
    if not path.exists():
        pytest.skip(f"there is no {path}; {variable} may name another interpreter")
    return path


def _run(command, python_path=None):
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["PYTHONDONTWRITEBYTECODE"] = "1"
    if python_path:
        environment["PYTHONPATH"] = str(python_path)
    done = subprocess.run([str(part) for part in command], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@functools.cache
def ort():
    """run(script, *arguments): what it prints with ONNX Runtime 1.19.2."""
    python = _interpreter("STROP_ORT_PYTHON", ".venv")
    probe = f"import sys; sys.path[:0] = [{str(REPOSITORY / 'tests')!r}]; import ort_training; print(ort_training.api)"
    if _run([python, "-c", probe]).strip() == "None":
        pytest.skip(f"{python} has no onnxruntime-training-cpu 1.19.2")

    def run(script, *arguments):
        entry = _ORT_ENTRY.format(
            tests=str(REPOSITORY / "tests"),
            folder=str(script.parent),
            arguments=[str(script), *map(str, arguments)],
            script=str(script),
        )
        return _run([python, "-c", entry])

    return run


@functools.cache
def _folder_with_strop():
    """A folder that holds the strop under test and nothing else."""
    import strop

    folder = tempfile.TemporaryDirectory(prefix="strop-under-test-")  # removed when the process ends
    pathlib.Path(folder.name, "strop").symlink_to(pathlib.Path(strop.__file__).parent, target_is_directory=True)
    return folder


def _is_installed(site_packages):
    sources = sorted((DROPIN / "onnxruntime").rglob("*.py"))
    installed = [site_packages / source.relative_to(DROPIN) for source in sources]
    found = {path for path in (site_packages / "onnxruntime/training").rglob("*.py")}
    return found == set(installed) and all(map(functools.partial(filecmp.cmp, shallow=False), sources, installed))


def _dropin(variable, folder):
    python = _interpreter(variable, folder)
    version = _run([python, "-c", "import sys; print(*sys.version_info[:2], sep='.')"]).strip()
    if version != "{}.{}".format(*sys.version_info[:2]):
        pytest.skip(f"{python} is Python {version}; strop is tested for another one here")
    paths = _run([python, "-c", "import sysconfig; print(sysconfig.get_path('purelib'))"]).strip()
    if not _is_installed(pathlib.Path(paths)):
        pip = [python, "-m", "pip", "--disable-pip-version-check", "install", "--quiet", "--force-reinstall"]
        _run([*pip, "--no-deps", "--no-build-isolation", DROPIN])
    assert _is_installed(pathlib.Path(paths))

    def run(script, *arguments):
        return _run([python, script, *arguments], _folder_with_strop().name)

    return run


@functools.cache
def dropin():
    """run(script, *arguments): what it prints with the drop-in beside stock onnxruntime."""
    return _dropin("STROP_DROPIN_PYTHON", ".venv-dropin")


@functools.cache
def dropin_alone():
    """The same without onnxruntime."""
    return _dropin("STROP_DROPIN_ALONE_PYTHON", ".venv-dropin-alone")
