// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/script.h"

#include <reprise/error.h>

namespace reprise::workloads {
namespace {

using torch::Tensor;

ScriptInput input_of(const WorkloadOptions& options) {
  if (options.input) return parse_script_input(*options.input);
  throw UsageError("--input is missing: a script does not say what it takes",
                   "give its shape and kind, as --input 8x3x224x224 or --input 8x128:int<1000>");
}

bool is_sum(const WorkloadOptions& options) {
  const std::string loss = options.loss.value_or("mean_square");
  if (loss == "sum" || loss == "mean_square") return loss == "sum";
  throw UsageError("--loss: '" + loss + "' is no loss of a script", "use mean_square or sum");
}

// TorchScript says first where in the script it happened, and then what.
std::string reason(const std::string& message) {
  const std::string mark = "Error: ";
  const std::size_t found = message.rfind(mark);
  const std::string text =
      found == std::string::npos ? message : message.substr(found + mark.size());
  return text.substr(0, text.find('\n'));
}

}  // namespace

Script::Script(const std::string& path, const WorkloadOptions& options)
    : Workload("script:" + path, options),
      path_(path),
      input_(input_of(options)),
      sum_(is_sum(options)),
      module_(std::make_shared<ScriptModule>(path, options.device)) {}

Batch Script::batch(int64_t step) {
  return {input_.draw(step_generator(step)).to(device()), Tensor()};
}

State Script::outputs(const Strategy& strategy, const Tensor& input) {
  const auto reject = [&](const std::string& message) {
    throw Error("'" + path_ + "': its forward pass failed: " + reason(message),
                "does --input fit what the module takes?");
  };
  try {
    return run_layers(strategy, module_->layers(), blocks(), {input});
  } catch (const Error&) {
    throw;
  } catch (const c10::Error& error) {
    reject(error.what_without_backtrace());
  } catch (const std::exception& error) {
    reject(error.what());
  }
  return {};
}

ForwardResult Script::forward(const Strategy& strategy, const Batch& batch) {
  const State all = outputs(strategy, batch.input);
  if (all.empty()) {
    throw Error("'" + path_ + "' returns no floating-point tensor, so it has no loss",
                "its forward() must return one, or a tuple, list or dict that holds some");
  }
  State flat;
  for (const Tensor& output : all) flat.push_back(output.detach().flatten());
  return {loss(all, batch.input.size(0)), all.size() == 1 ? all.front() : torch::cat(flat)};
}

// In float32 under autocast. The mean over the parts of a batch is the loss of the whole: a sum
// counts as though the whole batch were like the part.
Tensor Script::loss(const State& outputs, int64_t samples) const {
  Tensor total;
  for (const Tensor& output : outputs) {
    const bool half =
        output.scalar_type() == torch::kHalf || output.scalar_type() == torch::kBFloat16;
    const Tensor x = half ? output.to(torch::kFloat32) : output;
    const Tensor loss = sum_ ? x.sum() : x.square().mean();
    total = total.defined() ? total + loss : loss;
  }
  if (!sum_ || samples == samples_per_batch()) return total;
  return total * (static_cast<double>(samples_per_batch()) / static_cast<double>(samples));
}

}  // namespace reprise::workloads
