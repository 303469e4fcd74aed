// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/ivalue.h>
#include <c10/core/Storage.h>
#include <c10/core/TensorImpl.h>
#include <c10/util/SmallVector.h>

#include "tape/encode.h"
#include "torch/backward_pass.h"
#include "torch/geometry.h"
#include "torch/operator_info.h"
#include "torch/rng.h"
#include "torch/saved_tensor.h"

// What the tape remembers of a forward pass. Plain data, connected by indices:
//
//   StorageRecord --versions--> Value --producer--> Node --arguments--> Value ...
//
// A value is the contents of one storage at one version. Each in-place write makes a new version.
// Views need no record of their own: a tensor is a value and a geometry.

namespace reprise::detail {

using ValueId = int32_t;
using NodeId = int32_t;
inline constexpr int32_t kNone = -1;

struct Value {
  int32_t storage = kNone;
  NodeId producer = kNone;  // none: an external, made outside of the tape
  int output = 0;           // which of the producer's results; none for an in-place write
  std::size_t bytes = 0;
  bool garbage = false;  // uninitialised memory, as empty() leaves it
  bool lost = false;     // an external that was overwritten: nobody has it any more
  bool read = false;     // a recorded operator reads it
  bool drawn = false;    // random draws went into it
  bool counted = false;  // among its module's saved bytes
  c10::Storage held;     // strong: externals, and what the decider keeps
  std::shared_ptr<const Encoded> encoded;  // the same, in a smaller form
  c10::Storage cached;   // strong: replayed, and waited for in the running backward pass
  int32_t slot = kNone;  // of Offloads: the same, in a store

  // Counted once the scope has ended: saved tensors that are to be brought back from here, and
  // operators that must run again and read it.
  int32_t readers = 0;
  // The same, of those that have not had it in the running backward pass.
  int32_t waiting = 0;

  int32_t name = 0;    // index into Tape::names_; 0 is no name
  int32_t module = 0;  // the same

  bool stored = false;  // in a slot, and not to be made again

  bool is_kept() const { return held || encoded || stored; }
};

/// A version counter of tensors on a storage. Views share one; an alias made by .data has its own.
struct Counter {
  c10::VariableVersion version;
  uint32_t explained = 0;  // how far recorded writes explain it
  uint32_t sealed = 0;     // where it stood when the scope ended
};

struct StorageRecord {
  c10::weak_intrusive_ptr<c10::StorageImpl> storage;  // keeps its address from being used again
  std::vector<ValueId> versions;
  c10::Device device;
  c10::SmallVector<Counter, 1> counters;
  std::size_t last = 0;                           // the counter of the tensor that was seen last
  int32_t tickets = 0;                            // alive
  bool offloading = false;                        // admitted to be sent
  c10::ScalarType dtype = c10::ScalarType::Byte;  // of the last tensor saved of it
};

/// A tensor among an operator's arguments or results.
struct TensorRef {
  ValueId value = kNone;
  int32_t write = kNone;              // index into Node::writes of the write to its storage, if any
  at::Tensor opaque;                  // instead of a value: a tensor without an ordinary storage,
  std::optional<VersionStamp> stamp;  // and its version
  std::optional<uint64_t> fingerprint;  // or, of a sparse one on the CPU, a hash of its parts
  std::optional<Geometry> geometry;
};

struct ArgumentRef {
  enum class Kind { tensor, list, optional_list };
  int index = 0;
  Kind kind = Kind::tensor;
  bool hidden = false;  // statistics that the operator updates: not handed to it again
  c10::SmallVector<TensorRef, 1> tensors;
};

struct Write {
  ValueId found = kNone;   // what was there
  ValueId before = kNone;  // the same, or none when the result does not depend on it
  ValueId after = kNone;
  std::size_t bytes = 0;
  bool inherits_hold = false;   // the storage was held before, and stays so
  bool inherits_yield = false;  // the same, for as long as there is room
};

/// One call of an operator.
struct Node {
  const OperatorInfo* info = nullptr;
  std::vector<c10::IValue> constants;  // the arguments, with nothing where tensors were
  c10::SmallVector<ArgumentRef, 2> arguments;
  c10::SmallVector<TensorRef, 1> results;
  c10::SmallVector<Write, 1> writes;
  std::optional<RngState> rng;
  int64_t invocation = 0;
  int32_t module = 0;  // index into Tape::names_
  bool grad_mode = true;
  bool needed = true;        // something that depends on it may be asked for
  int64_t ran_in = kNoPass;  // the last backward pass that has run it
};

}  // namespace reprise::detail
