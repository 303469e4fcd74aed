#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""Reads a snapshot with PyTorch's own viewer and prints what it found as JSON.

Usage: snapshot_check.py _memory_viz.py FILE.pickle
"""

import base64
import importlib.util
import json
import pickle
import re
import sys


def load_viewer(path):
    spec = importlib.util.spec_from_file_location("memory_viz", path)
    viewer = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(viewer)
    return viewer


def replay(trace):
    """Follows the events as the viewers do: what is alive by address, and the largest sum."""
    alive, peak = {}, 0
    for event in trace:
        if event["action"] == "alloc":
            begin, end = event["addr"], event["addr"] + event["size"]
            assert all(end <= a or begin >= a + size for a, size in alive.items()), "blocks overlap"
            alive[begin] = event["size"]
            peak = max(peak, sum(alive.values()))
        elif event["action"] == "free_completed":
            assert alive.pop(event["addr"]) == event["size"], "freed with another size"
    return alive, peak


def check_segment(segment, alive):
    at = segment["address"]
    for block in segment["blocks"]:
        assert block["address"] == at, "a hole between blocks"
        at += block["size"]
    assert at == segment["address"] + segment["total_size"]
    active = {b["address"]: b["size"] for b in segment["blocks"] if b["state"] == "active_allocated"}
    assert active == alive, "the segment is not what the trace leaves"


def embedded(html):
    """The snapshot inside a page of the viewer."""
    data = re.search(r'"base64": "([^"]+)"', html).group(1)
    return pickle.loads(base64.b64decode(data))


def main():
    viewer = load_viewer(sys.argv[1])
    with open(sys.argv[2], "rb") as file:
        snapshot = pickle.load(file)

    devices = []
    for segment, trace in zip(snapshot["segments"], snapshot["device_traces"], strict=True):
        alive, peak = replay(trace)
        check_segment(segment, alive)
        devices.append({
            "events": len(trace),
            "peak": peak,
            "alive": sum(alive.values()),
            "categories": sorted({event["category"] for event in trace}),
            "times": [event["time_us"] for event in trace],
            "frames": [
                [f"{frame['filename']}:{frame['name']}" for frame in event["frames"]]
                for event in trace if event["action"] == "alloc"
            ],
        })

    # Every view that the viewer has. Its flame graphs need a script from the network: their input.
    assert embedded(viewer.trace_plot(snapshot)) == snapshot, "the page holds something else"
    assert embedded(viewer.segment_plot(snapshot)) == snapshot
    print(json.dumps({
        "names": snapshot["device_names"],
        "devices": devices,
        "summary": viewer.segsum(snapshot),
        "trace": viewer.trace(snapshot),
        "flame": viewer.memory(snapshot, str),
        "segments": viewer.segments(snapshot, str),
    }))


if __name__ == "__main__":
    main()
