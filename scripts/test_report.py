#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Opens the reports of the built command in headless Chromium, as a reader would.

Makes reports of compare, train and profile, and checks of each: the text that must be there, no
message on the console, nothing asked of the network, no sideways scrolling from a phone to a wide
screen, every picture drawn, a light and a dark page, pages of paper. The screenshots stay in the
folder, to be looked at.

Chromium is looked for, then installed where that is possible. Where it is not, this says "skipped"
and succeeds.

Usage: test_report.py [--build build] [--out build/report-test]
"""

import argparse
import html
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
PHONE, TABLET, DESK = 390, 768, 1280

# What is written by which command, and words that a reader must find in it.
SMALL_GPT = ["gpt", "--layers", "3", "--width", "48", "--heads", "4", "--context", "32", "--batch", "4"]
REPORTS = {
    "compare_blocks": (
        ["compare", "blocks", "--layers", "8", "--steps", "3", "--strategies",
         "plain,checkpoint,segments:4,every:2,tape:full"],
        ["Time against memory", "segments:4", "tape:full", "bit-identical", "Memory over time",
         "What is alive at the peak", "Command and machine"]),
    "compare_gpt": (
        ["compare", *SMALL_GPT, "--steps", "3", "--strategies",
         "plain,checkpoint,ffn,tape:full,tape:keep_matmuls"],
        ["Time against memory", "tape:keep_matmuls", "saved activations", "aten::"]),
    "compare_budgets": (
        ["compare", "blocks", "--layers", "8", "--steps", "2", "--budget-scan", "40%..100%/4"],
        ["Time against memory", "budget=60%", "Budgets, predicted and measured", "bound"]),
    "plan_gpt": (
        ["plan", *SMALL_GPT, "--budget", "60%"],
        ["Time at each budget", "Predicted memory over the step", "Command and machine"]),
    "train_digits": (
        ["train", "digits", "--steps", "60", "--log-every", "2", "--strategy", "checkpoint"],
        ["Peak memory of each step", "accuracy", "Memory over time", "parameters"]),
    "profile_gpt": (
        ["profile", *SMALL_GPT],
        ["Modules", "saved for backward", "FLOPs", "Memory over time"]),
}

# Loads the page in frames as wide as screens, and tells how it fits.
PROBE = """<!DOCTYPE html><meta charset="utf-8"><body><script>
const widths = %s, fits = [];
for (const width of widths) {
  const frame = document.createElement("iframe");
  frame.style.cssText = `width:${width}px;height:900px;border:0`;
  frame.onload = () => {
    const root = frame.contentDocument.documentElement;
    const pictures = [...frame.contentDocument.querySelectorAll("svg[role=img]")];
    fits.push({width, inner: root.clientWidth, scroll: root.scrollWidth,
               pictures: pictures.length,
               drawn: pictures.filter(p => p.getBoundingClientRect().width > width * .6).length,
               text: frame.contentDocument.body.innerText});
    if (fits.length === widths.length) {
      const out = document.createElement("pre");
      out.id = "fits"; out.textContent = JSON.stringify(fits); document.body.append(out);
    }
  };
  frame.src = %s; document.body.append(frame);
}
</script>"""

failures = []


def check(condition, what):
    if not condition:
        failures.append(what)
        print(f"  FAILED: {what}")


# --- Chromium --------------------------------------------------------------------------------

def found():
    for name in (os.environ.get("CHROMIUM", ""), *NAMES):
        path = shutil.which(name) if name else None
        if path:
            return path
    return None


def quietly(command, **options):
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL,
                              stderr=subprocess.DEVNULL, timeout=600, **options).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


def install_with_apt():
    if not shutil.which("apt-get"):
        return None
    root = [] if os.geteuid() == 0 else ["sudo", "-n"]
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    quietly([*root, "apt-get", "-qq", "update"], env=environment)
    quietly([*root, "apt-get", "-qq", "install", "-y", "--no-install-recommends", "chromium"],
            env=environment)
    return found()


def install_with_pip(out):
    environment = out / "venv"
    python = environment / "bin" / "python"
    if not python.exists() and not quietly([sys.executable, "-m", "venv", str(environment)]):
        return None
    browsers = {**os.environ, "PLAYWRIGHT_BROWSERS_PATH": str(out / "browsers")}
    if not quietly([str(python), "-m", "pip", "install", "-q", "playwright"]):
        return None
    quietly([str(python), "-m", "playwright", "install", "chromium"], env=browsers)
    programs = sorted((out / "browsers").glob("chromium*/chrome-linux*/*chrome*"))
    usable = [p for p in programs if os.access(p, os.X_OK) and quietly([str(p), "--version"])]
    return str(usable[0]) if usable else None


class Chromium:
    def __init__(self, program):
        self.program = program

    def run(self, url, *flags, width=DESK, height=900):
        with tempfile.TemporaryDirectory() as profile:
            return subprocess.run(
                [self.program, "--headless=new", "--no-sandbox", "--disable-gpu",
                 "--hide-scrollbars", "--enable-logging=stderr", "--allow-file-access-from-files",
                 "--host-resolver-rules=MAP * ~NOTFOUND", f"--user-data-dir={profile}",
                 f"--window-size={width},{height}", *flags, url],
                capture_output=True, text=True, errors="replace", timeout=180, check=False)


# --- what is checked -------------------------------------------------------------------------

def top_left(png):
    """Brightness of the first pixel, from 0 to 255."""
    data = png.read_bytes()
    at, packed = 8, b""
    while at < len(data):
        size = int.from_bytes(data[at:at + 4], "big")
        if data[at + 4:at + 8] == b"IDAT":
            packed += data[at + 8:at + 8 + size]
        at += size + 12
    row = zlib.decompressobj().decompress(packed, 4)  # the filter's number, then the pixel
    return sum(row[1:4]) / 3


def console(result):
    return [line for line in result.stderr.splitlines() if "CONSOLE" in line]


def check_page(chromium, name, page, words):
    url = page.as_uri()
    probe = page.with_suffix(".probe.html")
    probe.write_text(PROBE % (json.dumps([PHONE, TABLET, DESK]), json.dumps(url)), encoding="utf-8")
    result = chromium.run(probe.as_uri(), "--virtual-time-budget=20000", "--dump-dom")
    probe.unlink()
    fits = re.search(r'<pre id="fits">(.*?)</pre>', result.stdout, re.DOTALL)
    check(fits is not None, f"{name}: opens")
    check(not console(result), f"{name}: no message on the console: {console(result)}")
    for fit in json.loads(html.unescape(fits.group(1))) if fits else []:
        where = f"{name}, {fit['width']} pixels wide"
        check(fit["scroll"] <= fit["inner"], f"{where}: fits ({fit['scroll']} of {fit['inner']})")
        check(fit["pictures"] > 0 and fit["drawn"] == fit["pictures"], f"{where}: all pictures")
        for word in words:
            check(word.lower() in fit["text"].lower(), f"{where}: says '{word}'")


def check_pictures(chromium, name, page):
    shots = {}
    for kind, width, flags in (
            ("light", DESK, ()), ("phone", 500, ()),
            ("dark", DESK, ("--force-dark-mode", "--blink-settings=preferredColorScheme=0"))):
        shot = page.with_name(f"{name}_{kind}.png")
        chromium.run(page.as_uri(), *flags, f"--screenshot={shot}", width=width, height=2600)
        check(shot.exists() and shot.stat().st_size > 20_000, f"{name}: a picture in {kind}")
        if shot.exists():
            shots[kind] = top_left(shot)
    check(shots.get("light", 0) > 200, f"{name}: is light by day")
    check(shots.get("dark", 255) < 60, f"{name}: is dark by night")
    paper = page.with_suffix(".pdf")
    chromium.run(page.as_uri(), "--no-pdf-header-footer", f"--print-to-pdf={paper}")
    check(paper.exists() and paper.read_bytes().startswith(b"%PDF"), f"{name}: prints")


def make(command, arguments, page):
    run = subprocess.run([command, *arguments, "--report", str(page)], capture_output=True,
                         text=True, timeout=600, check=False)
    check(run.returncode == 0, f"reprise {' '.join(arguments)}: {run.stderr.strip()}")
    return run.returncode == 0


def main():
    parser = argparse.ArgumentParser(description="Opens reports in headless Chromium.")
    parser.add_argument("--build", type=Path, default=Path("build"))
    parser.add_argument("--out", type=Path)
    arguments = parser.parse_args()
    out = (arguments.out or arguments.build / "report-test").resolve()
    out.mkdir(parents=True, exist_ok=True)

    program = found() or install_with_apt() or install_with_pip(out)
    if not program:
        print("skipped: no Chromium here, and neither apt-get nor pip could install one")
        return 0
    chromium = Chromium(program)
    command = str((arguments.build / "reprise").resolve())
    verbs = subprocess.run([command, "--help"], capture_output=True, text=True, check=True).stdout
    for name, (words, expected) in REPORTS.items():
        if not re.search(rf"^\s+{words[0]}\b", verbs, re.MULTILINE):
            print(f"skipped: {name}: this build has no verb '{words[0]}'")
            continue
        print(f"report: {name}")
        page = out / f"{name}.html"
        if make(command, words, page):
            check_page(chromium, name, page, expected)
            check_pictures(chromium, name, page)
    print(f"report: {len(failures)} failed; the pictures are in {out}")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
