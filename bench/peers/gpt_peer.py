#!/usr/bin/env python3
# SPDX-License-Identifier: BSD-3-Clause
"""The Python side of the comparison: the model of workloads/gpt.cpp, checkpointed by
torch.utils.checkpoint.

It speaks the protocol of gpt_peer.cpp, and reads the weights, the batch and the seed that it saves;
dropout is drawn in the order of the C++ side, so both sides compute the same loss. The strategies:
plain; save_on_cpu; save_to_disk (what PyTorch's tutorial on saved-tensor hooks does, without the
parameters and what is small); checkpoint (each block); parts (attention and feed-forward net of each block, by
themselves); selective (each block, keeping products and attention).
"""

import argparse
import ctypes
import functools
import json
import os
import sys
import tempfile
import time

try:
    import torch
    import torch.nn.functional as F
    from torch import nn
    from torch.autograd.graph import save_on_cpu, saved_tensors_hooks
    from torch.utils.checkpoint import checkpoint, create_selective_checkpoint_contexts
except (ImportError, OSError) as error:  # OSError: the wheel without the libraries it needs
    sys.exit(f"error: this Python cannot import torch: {str(error).splitlines()[0]}\n"
             "hint: name one that has all of PyTorch, in the version of the LibTorch that Reprise was "
             "built with; docs/benchmarks.md shows how to make it")

BYTES = 256

aten = torch.ops.aten
KEPT = [aten.mm.default, aten.addmm.default, aten.bmm.default,
        aten._scaled_dot_product_flash_attention_for_cpu.default]


def whole(block, x):
    return block.ffn(block.attention(x))


def offloaded(block, x):
    with save_on_cpu():
        return whole(block, x)


class SavedToDisk:
    """A tensor in a file, which goes with it."""
    folder = None

    def __init__(self, tensor):
        handle, self.name = tempfile.mkstemp(dir=self.folder)
        os.close(handle)
        torch.save(tensor, self.name)

    def __del__(self):
        os.unlink(self.name)


def pack(tensor):
    kept = isinstance(tensor, nn.Parameter) or tensor.nbytes < 64 * 1024
    return tensor if kept else SavedToDisk(tensor.detach())


def unpack(saved):
    return torch.load(saved.name) if isinstance(saved, SavedToDisk) else saved


def on_disk(block, x):
    with saved_tensors_hooks(pack, unpack):
        return whole(block, x)


def each_part(block, x):
    return checkpoint(block.ffn, checkpoint(block.attention, x, use_reentrant=False),
                      use_reentrant=False)


STRATEGIES = {
    "plain": whole,
    "save_on_cpu": offloaded,
    "save_to_disk": on_disk,
    "checkpoint": lambda block, x: checkpoint(whole, block, x, use_reentrant=False),
    "parts": each_part,
    "selective": lambda block, x: checkpoint(
        whole, block, x, use_reentrant=False,
        context_fn=functools.partial(create_selective_checkpoint_contexts, KEPT)),
}


class Meter:
    """Reprise's meter, in this process."""

    def __init__(self, path):
        library = ctypes.CDLL(path)
        for name in ("live", "peak", "reset_peak"):
            function = getattr(library, name)
            function.restype = ctypes.c_int64
            setattr(self, name, function)


class Attention(nn.Module):
    def __init__(self, width, heads, dropout):
        super().__init__()
        self.heads = heads
        self.norm = nn.LayerNorm(width)
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        batch, context, width = x.shape
        qkv = self.qkv(self.norm(x)).view(batch, context, 3, self.heads, -1)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        return x + self.dropout(self.out(mixed.transpose(1, 2).reshape(batch, context, width)))


class FeedForward(nn.Module):
    def __init__(self, width, dropout):
        super().__init__()
        self.norm = nn.LayerNorm(width)
        self.up = nn.Linear(width, 4 * width)
        self.down = nn.Linear(4 * width, width)
        self.dropout = nn.Dropout(dropout)

    def forward(self, x):
        return x + self.dropout(self.down(F.gelu(self.up(self.norm(x)))))


class Block(nn.Module):
    def __init__(self, options):
        super().__init__()
        self.attention = Attention(options.width, options.heads, options.dropout)
        self.ffn = FeedForward(options.width, options.dropout)


class Gpt(nn.Module):
    """Its parameters have the names of the C++ side's."""

    def __init__(self, options):
        super().__init__()
        self.tokens = nn.Embedding(BYTES, options.width)
        self.positions = nn.Embedding(options.context, options.width)
        self.layers = nn.ModuleList(Block(options) for _ in range(options.layers))
        self.norm = nn.LayerNorm(options.width)

    def forward(self, tokens, run_block):
        x = self.tokens(tokens) + self.positions(torch.arange(tokens.shape[1]))
        for block in self.layers:
            x = run_block(block, x)
        return self.norm(x) @ self.tokens.weight.t()


class Peer:
    def __init__(self, options):
        self.meter = Meter(options.meter)
        torch.set_num_threads(options.threads)
        self.model = Gpt(options)
        # The other side wrote it a moment ago; its dictionary is typed, which needs the full reader.
        state = torch.load(options.state, weights_only=False)
        self.seed = state.pop("batch.seed").item() & (2**64 - 1)
        self.batch = state.pop("batch.input"), state.pop("batch.target")
        self.model.load_state_dict(state)
        # A meter that stands on another libtorch than Python's counts nothing of the model.
        if self.meter.live() < 4 * self.parameters():
            sys.exit("error: the meter does not see the memory of this Python's torch\n"
                     "hint: unset REPRISE_METER; the version must be that of Reprise's LibTorch")

    def parameters(self):
        return sum(parameter.numel() for parameter in self.model.parameters())

    def params(self):
        return {"parameters": self.parameters(), "libtorch": torch.__version__.split("+")[0]}

    def step(self, strategy):
        """What measure_step() of workloads/measured_step.cpp does, in its order."""
        if strategy not in STRATEGIES:
            raise ValueError(f"unknown strategy '{strategy}'; it is one of {', '.join(STRATEGIES)}")
        tokens, target = self.batch
        self.model.zero_grad(set_to_none=True)
        torch.manual_seed(self.seed)
        base = self.meter.live()
        self.meter.reset_peak()
        start = time.perf_counter()
        logits = self.model(tokens, STRATEGIES[strategy])
        loss = F.cross_entropy(logits.view(-1, BYTES), target.view(-1))
        held = self.meter.live() - base
        loss.backward()
        seconds = time.perf_counter() - start
        return {"strategy": strategy, "step_ms": seconds * 1000,
                "peak_bytes": self.meter.peak() - base, "held_bytes": held, "loss": loss.item()}

    def answer(self, line):
        match line.split():
            case ["params"]:
                return self.params()
            case ["step", strategy]:
                return self.step(strategy)
        raise ValueError(f"unknown request '{line}'; requests: params, step STRATEGY")


def read_options():
    parser = argparse.ArgumentParser(description="Answers requests for single steps.")
    parser.add_argument("--meter", required=True, help="path of libpeer_meter.so")
    parser.add_argument("--state", required=True, help="what the C++ side has saved")
    for name in ("layers", "width", "heads", "batch", "context", "threads"):
        parser.add_argument("--" + name, type=int, required=True)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--store", help="the folder of save_to_disk")
    return parser.parse_args()


def main():
    options = read_options()
    SavedToDisk.folder = options.store
    peer = Peer(options)
    for line in sys.stdin:
        try:
            answer = peer.answer(line.strip())
        except Exception as error:  # a request that fails is answered, and the next one may work
            answer = {"error": str(error)}
        print(json.dumps(answer), flush=True)


if __name__ == "__main__":
    main()
