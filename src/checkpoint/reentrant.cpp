// SPDX-License-Identifier: BSD-3-Clause
#include <algorithm>
#include <string>
#include <utility>

#include <reprise/detail/reentrant.h>
#include <reprise/error.h>

#include <c10/core/GradMode.h>
#include <torch/autograd.h>

#include "checkpoint/reentrant_region.h"
#include "torch/backward_pass.h"
#include "torch/graph.h"

namespace reprise::detail {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

/// What the node has beside what autograd saves for it.
struct NodeData : torch::CustomClassHolder {
  c10::intrusive_ptr<ReentrantRegion> region;
  variable_list inference;  // arguments that autograd does not save, in their places
  const void* node = nullptr;
};

/// The nodes whose backward passes this thread is in. LibTorch holds a lock of each: a backward
/// pass that came back to one of them would wait for ever.
thread_local std::vector<const void*> running;

class Running {
 public:
  explicit Running(const void* node) { running.push_back(node); }
  ~Running() { running.pop_back(); }
  Running(const Running&) = delete;
  Running& operator=(const Running&) = delete;
};

struct Node : torch::autograd::Function<Node> {
  /// `arguments` are the region's: autograd finds in them where the gradients go.
  static variable_list forward(AutogradContext* node, at::TensorList arguments,
                               const c10::intrusive_ptr<NodeData>& kept,
                               const std::function<variable_list()>& run) {
    node->set_materialize_grads(false);
    node->saved_data["kept"] = c10::IValue::make_capsule(kept);
    variable_list saved;
    for (const at::Tensor& argument : arguments) {
      const bool inference = argument.defined() && argument.is_inference();
      saved.push_back(inference ? at::Tensor() : argument);
      kept->inference.push_back(inference ? argument : at::Tensor());
    }
    node->save_for_backward(std::move(saved));
    return run();
  }

  static variable_list backward(AutogradContext* node, const variable_list& gradients);
};

void require_plain_backward(const ReentrantRegion& region) {
  const std::string hint = "use Variant::non_reentrant, which has no such limit";
  if (!passes_want_all_gradients()) {
    throw UsageError(region.label() +
                         ": a reentrant region works with backward() only, not with "
                         "autograd::grad() nor with `inputs`",
                     hint);
  }
  if (c10::GradMode::is_enabled()) {
    throw UsageError(region.label() +
                         ": a reentrant region has no second derivatives, so "
                         "backward() must not be asked for create_graph",
                     hint);
  }
}

/// The arguments, without the graph that made them.
variable_list detached_arguments(AutogradContext* node, const NodeData& kept) {
  variable_list arguments = node->get_saved_variables();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].defined()) {
      arguments[i] = kept.inference[i];
    } else {
      arguments[i] = arguments[i].detach().requires_grad_(arguments[i].requires_grad());
    }
  }
  return arguments;
}

/// Takes the gradients of detached arguments as they arrive: before hooks that the function itself
/// registers (the first run has registered them on the arguments, too), and before LibTorch lays
/// them out as the arguments are.
std::shared_ptr<variable_list> catch_gradients(const variable_list& arguments) {
  auto gradients = std::make_shared<variable_list>(arguments.size());
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (!arguments[i].defined() || !arguments[i].requires_grad()) continue;
    arguments[i].register_hook(
        [gradients, i](const at::Tensor& gradient) { (*gradients)[i] = gradient; });
  }
  return gradients;
}

variable_list Node::backward(AutogradContext* node, const variable_list& gradients) {
  const auto kept =
      c10::static_intrusive_pointer_cast<NodeData>(node->saved_data["kept"].toCapsule());
  ReentrantRegion& region = *kept->region;
  require_plain_backward(region);
  const variable_list arguments = detached_arguments(node, *kept);
  const auto to_arguments = catch_gradients(arguments);
  const variable_list results = region.run_again(arguments);

  variable_list roots, root_gradients;
  for (std::size_t i = 0; i < results.size(); ++i) {
    if (!gradients[i].defined() || !results[i].requires_grad()) continue;
    roots.push_back(results[i]);
    root_gradients.push_back(gradients[i]);
  }
  if (roots.empty()) {
    throw UsageError(region.label() +
                         ": no result that a gradient comes in for depends on "
                         "anything that requires one",
                     "use Variant::non_reentrant; or, if none of its results does, call the "
                     "function without checkpoint()");
  }
  const Running here(kept->node);
  if (leads_to(roots, running)) {
    throw UsageError(region.label() +
                         ": its function uses its own result, which it can only have "
                         "captured by reference",
                     "capture by value what may change, or pass it as an argument");
  }
  torch::autograd::backward(roots, root_gradients);
  to_arguments->resize(arguments.size() + 2);  // none for `kept` and `run`
  return std::move(*to_arguments);
}

bool requires_gradient(const at::Tensor& tensor) {
  return tensor.defined() && tensor.requires_grad();
}

}  // namespace

std::vector<at::Tensor> reentrant_forward(const CheckpointOptions& options,
                                          std::shared_ptr<ReplayCall> call,
                                          const std::function<std::vector<at::Tensor>()>& first) {
  const auto kept = c10::make_intrusive<NodeData>();
  kept->region = c10::make_intrusive<ReentrantRegion>(options, std::move(call));
  ReentrantRegion& region = *kept->region;
  const std::vector<at::Tensor> arguments = region.take_arguments();
  if (std::none_of(arguments.begin(), arguments.end(), requires_gradient)) {
    throw UsageError(region.label() +
                         ": a reentrant region needs a tensor among its arguments "
                         "that requires a gradient, or nothing in it gets one",
                     "call requires_grad_() on the input, or use Variant::non_reentrant");
  }
  const std::function<variable_list()> run = [&] { return region.run(arguments, first); };
  const variable_list of_node = Node::apply(at::TensorList(arguments), kept, run);
  kept->node = node_of(of_node.front());
  return std::move(region).results(of_node);
}

void throw_no_result_tensors(const CheckpointOptions& options) {
  throw UsageError(
      "checkpoint(): a reentrant region" +
          (options.name().empty() ? std::string() : " ('" + options.name() + "')") +
          " must return tensors by value, and nothing in which there may be others",
      "return tensors, and containers, tuples and structs of them that nested.h knows (a struct "
      "needs reprise_fields()), or use Variant::non_reentrant");
}

}  // namespace reprise::detail
