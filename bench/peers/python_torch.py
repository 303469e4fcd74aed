# SPDX-License-Identifier: BSD-3-Clause
"""A Python with all of PyTorch: LibTorch as Reprise installs it comes without Python's part."""

import subprocess
import sys
from pathlib import Path


def torch_version(python):
    """Of the PyTorch that a Python can import; None where it cannot."""
    try:
        found = subprocess.run([python, "-c", "import numpy, torch; print(torch.__version__)"],
                               capture_output=True, text=True)
    except OSError:
        return None
    return found.stdout.strip().split("+")[0] if found.returncode == 0 else None


def python_with_torch(folder, version):
    """The Python of the virtual environment `folder`, which is made, and PyTorch installed, where
    that is missing. Raises CalledProcessError where the installation fails."""
    python = str(Path(folder) / "bin" / "python")
    if torch_version(python) == version:
        return python
    print(f"installing torch=={version} into {folder}", file=sys.stderr)
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    subprocess.run([python, "-m", "pip", "install", "--quiet", f"torch=={version}", "numpy"],
                   check=True)
    return python
