// SPDX-License-Identifier: BSD-3-Clause
#include "meter/ledger_parts.h"

#include <utility>

#include <torch/nn/module.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/lbfgs.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>
#include <torch/script.h>

#include "torch/parameter_path.h"

namespace reprise {
namespace {

using Parts = LedgerOptions::Parts;
using Visit = std::function<void(const at::Tensor&)>;

void add_tensor(Parts& parts, Category category, const std::string& model, const std::string& name,
                const at::Tensor& tensor) {
  if (!tensor.defined()) return;
  parts.tensors.push_back({tensor, category, detail::module_of_parameter(model, name)});
}

bool visit_tensors_of(const torch::optim::OptimizerParamState& state, const Visit& visit) {
  using namespace torch::optim;  // NOLINT: six classes of it
  if (const auto* sgd = dynamic_cast<const SGDParamState*>(&state)) {
    visit(sgd->momentum_buffer());
  } else if (const auto* adam = dynamic_cast<const AdamParamState*>(&state)) {
    for (const auto& each : {adam->exp_avg(), adam->exp_avg_sq(), adam->max_exp_avg_sq()}) {
      visit(each);
    }
  } else if (const auto* adamw = dynamic_cast<const AdamWParamState*>(&state)) {
    for (const auto& each : {adamw->exp_avg(), adamw->exp_avg_sq(), adamw->max_exp_avg_sq()}) {
      visit(each);
    }
  } else if (const auto* adagrad = dynamic_cast<const AdagradParamState*>(&state)) {
    visit(adagrad->sum());
  } else if (const auto* rmsprop = dynamic_cast<const RMSpropParamState*>(&state)) {
    for (const auto& each :
         {rmsprop->square_avg(), rmsprop->momentum_buffer(), rmsprop->grad_avg()}) {
      visit(each);
    }
  } else if (const auto* lbfgs = dynamic_cast<const LBFGSParamState*>(&state)) {
    for (const auto& each : {lbfgs->d(), lbfgs->H_diag(), lbfgs->prev_flat_grad()}) visit(each);
    for (const auto* list : {&lbfgs->old_dirs(), &lbfgs->old_stps(), &lbfgs->ro()}) {
      for (const at::Tensor& each : *list) visit(each);
    }
    if (lbfgs->al()) {
      for (const at::Tensor& each : *lbfgs->al()) visit(each);
    }
  } else {
    return false;
  }
  return true;
}

}  // namespace

namespace detail {

bool visit_state(const torch::optim::Optimizer& optimizer, const Visit& visit) {
  bool all = true;
  for (const auto& [parameter, state] : optimizer.state()) {
    all = visit_tensors_of(*state, visit) && all;
  }
  return all;
}

}  // namespace detail

LedgerOptions::LedgerOptions() : parts_(std::make_shared<Parts>()) {}

LedgerOptions::Parts& LedgerOptions::own() {
  if (parts_.use_count() > 1) parts_ = std::make_shared<Parts>(*parts_);
  return *parts_;
}

LedgerOptions& LedgerOptions::module(const torch::nn::Module& module, const std::string& name) {
  for (const auto& item : module.named_parameters()) {
    add_tensor(own(), Category::parameters, name, item.key(), item.value());
  }
  for (const auto& item : module.named_buffers()) {
    add_tensor(own(), Category::buffers, name, item.key(), item.value());
  }
  return *this;
}

LedgerOptions& LedgerOptions::module(const torch::jit::Module& module, const std::string& name) {
  for (const auto& item : module.named_parameters()) {
    add_tensor(own(), Category::parameters, name, item.name, item.value);
  }
  for (const auto& item : module.named_buffers()) {
    add_tensor(own(), Category::buffers, name, item.name, item.value);
  }
  return *this;
}

LedgerOptions& LedgerOptions::optimizer(const torch::optim::Optimizer& optimizer) {
  Parts& parts = own();
  for (const auto& group : optimizer.param_groups()) {
    for (const at::Tensor& parameter : group.params()) {
      parts.tensors.push_back({parameter, Category::parameters, ""});
    }
  }
  parts.optimizers.push_back(&optimizer);
  return *this;
}

LedgerOptions& LedgerOptions::input(const at::Tensor& tensor) {
  if (tensor.defined()) own().tensors.push_back({tensor, Category::inputs, ""});
  return *this;
}

LedgerOptions& LedgerOptions::device(c10::Device device) {
  own().device = device;
  return *this;
}

}  // namespace reprise
