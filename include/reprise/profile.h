// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <reprise/export.h>
#include <reprise/layer_class.h>
#include <reprise/module_paths.h>

#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

// What a training step costs, module by module and saved tensor by saved tensor: time, bytes,
// floating-point operations. A model and its forward pass come in; plain data comes out, which
// profile_report.h writes as a table and as JSON.

namespace reprise {

/// What a part of a model costs in one step. Bytes of tensors that share a storage count once.
struct ModuleFigures {
  int64_t operators = 0;       ///< that its forward pass called, without those they called
  double forward_ms = 0;       ///< of these operators
  double backward_ms = 0;      ///< of the backward functions of these operators
  int64_t output_bytes = 0;    ///< of the storages that these operators made and returned
  int64_t saved_bytes = 0;     ///< of the storages made in it that autograd saved
  int64_t forward_flops = 0;   ///< see profile_step()
  int64_t backward_flops = 0;  ///<
  int64_t parameters = 0;      ///< numbers, not bytes

  ModuleFigures& operator+=(const ModuleFigures& other);
  int64_t flops() const { return forward_flops + backward_flops; }
  double milliseconds() const { return forward_ms + backward_ms; }
  bool operator==(const ModuleFigures&) const = default;
};

/// One module of the tree.
struct ModuleProfile {
  std::string path;        ///< "blocks.3.ffn"; empty for the root: what lies in no other module
  int64_t depth = 0;       ///< of the path: 0 for the root, 1 for "blocks", 3 for "blocks.3.ffn"
  ModuleFigures own;       ///< without the modules inside it
  ModuleFigures total;     ///< with them
  double time_share = 0;   ///< of the step's milliseconds, by `total`; 0 to 1
  double saved_share = 0;  ///< of the step's saved bytes, by `total`; 0 to 1
  std::optional<LayerClass>
      layer_class;  ///< by `own`; none for the root, without operators or time

  bool operator==(const ModuleProfile&) const = default;
};

/// A tensor that autograd saved for the backward pass.
struct SavedTensorProfile {
  std::vector<int64_t> shape;
  std::string dtype;  ///< "float32"
  int64_t bytes = 0;  ///< of its elements
  /// Bytes that saving it keeps alive: of its storage. 0 where an earlier line counts the storage,
  /// and for what was there before the forward pass: parameters, buffers, inputs.
  int64_t held_bytes = 0;
  bool external = false;  ///< there before the forward pass
  std::string op;         ///< operator that made it, "aten::addmm"; empty if external
  std::string module;     ///< that made it; of an external one: that it is a parameter or buffer of
  std::string saved_by;   ///< operator that saved it, "aten::gelu"
  std::string saved_in;   ///< module whose operator that is

  bool operator==(const SavedTensorProfile&) const = default;
};

struct Profile {
  std::string workload;
  std::string device;
  std::string libtorch;  ///< "2.15.0"
  int64_t threads = 0;
  int64_t steps = 0;  ///< passes behind the medians
  bool meta = false;  ///< from shapes alone: all times are zero and mean nothing

  double step_ms = 0;      ///< forward and backward; median, without the profiler's observers
  double forward_ms = 0;   ///< with them: what the modules' times are parts of
  double backward_ms = 0;  ///<

  int64_t base_bytes = 0;   ///< live before the step
  int64_t held_bytes = 0;   ///< above base, at the end of the forward pass; 0 with meta
  int64_t peak_bytes = 0;   ///< above base; 0 with meta
  int64_t saved_bytes = 0;  ///< sum of held_bytes over `saved`, which is that over the modules

  std::vector<ModuleProfile> modules;     ///< in tree order, the root first
  std::vector<SavedTensorProfile> saved;  ///< in the order in which they were saved
  std::vector<std::string> notes;         ///< what is not exact, one sentence each

  bool operator==(const Profile&) const = default;
};

/// Options of profile_step(). Setters return the object, so that they chain.
class REPRISE_API ProfileOptions {
 public:
  /// For Profile::workload. Default: empty.
  ProfileOptions& name(std::string name) { return name_ = std::move(name), *this; }
  const std::string& name() const { return name_; }

  /// Steps that are run and not measured. Default: 1.
  ProfileOptions& warmup(int64_t steps) { return warmup_ = steps, *this; }
  int64_t warmup() const { return warmup_; }

  /// Steps behind the medians. Default: 5.
  ProfileOptions& steps(int64_t steps) { return steps_ = steps, *this; }
  int64_t steps() const { return steps_; }

  /// The device whose memory is measured. Default: the CPU.
  ProfileOptions& device(c10::Device device) { return device_ = device, *this; }
  c10::Device device() const { return device_; }

 private:
  std::string name_;
  int64_t warmup_ = 1;
  int64_t steps_ = 5;
  c10::Device device_ = c10::kCPU;
};

/// Runs training steps and measures them. `forward` runs a forward pass and returns its loss, a
/// tensor with one element; the backward pass is run here. Before each step the gradients of the
/// parameters in `modules` are set to none, and after the last. Every step draws the same random
/// numbers, and the default generators are put back at the end; running statistics move on, as in
/// any step. A value belongs to the module whose parameter was read last before it was made or,
/// where a ModuleScope was opened since, to that; see ModulePaths. The step is run as it is: not
/// under a Scope or hooks from around this call.
///
/// FLOPs are those of matrix products, convolutions and scaled dot-product attention, two for each
/// multiply-add, counted as torch.utils.flop_counter does: causal attention counts whole, and what
/// a kernel computes again in the backward pass counts again. Other operators count none.
///
/// Under a MetaScope one step is run from shapes alone, and times are left out.
///
/// Throws UsageError for a loss that is not one element of a graph, steps below 1, warmup below 0;
/// and what `forward` throws.
REPRISE_API Profile profile_step(const ModulePaths& modules,
                                 const std::function<at::Tensor()>& forward,
                                 const ProfileOptions& options = {});

}  // namespace reprise
