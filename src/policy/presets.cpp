// SPDX-License-Identifier: BSD-3-Clause
#include <vector>

#include <reprise/error.h>
#include <reprise/policy.h>

#include "policy/rules.h"

namespace reprise {
namespace {

const std::vector<OperatorName>& products() {
  static const std::vector<OperatorName> ops{"aten::mm",
                                             "aten::addmm",
                                             "aten::bmm",
                                             "aten::baddbmm",
                                             "aten::convolution",
                                             "aten::_scaled_dot_product_flash_attention_for_cpu",
                                             "aten::_scaled_dot_product_flash_attention",
                                             "aten::_scaled_dot_product_efficient_attention",
                                             "aten::_scaled_dot_product_cudnn_attention",
                                             "aten::mkldnn_rnn_layer",
                                             "aten::linear"};
  return ops;
}

}  // namespace

// Not every model has what the rules of a preset look for.
Policy Policy::preset() const {
  auto rules = std::make_shared<Rules>(*rules_);
  for (Rule& rule : rules->list) rule.quiet = true;
  rules->otherwise = Action::recompute;
  return Policy(std::move(rules));
}

Policy Policy::full() { return keep_names({"block"}).preset(); }

Policy Policy::every_layer() { return keep_names({"block", "layer"}).preset(); }

Policy Policy::keep_matmuls() {
  return keep_names({"block", "layer"})
      .then(keep_ops(products()))
      .then(where([](const ValueView& value) { return value.drawn; }, Action::encode, "masks"))
      .preset();
}

Policy Policy::keep_all() { return Policy(std::make_shared<Rules>()).otherwise(Action::keep); }

Policy Policy::recompute_all() {
  return Policy(std::make_shared<Rules>()).otherwise(Action::recompute);
}

Policy Policy::advised(int64_t layers) {
  if (layers < 3) {
    throw UsageError("the advice for " + std::to_string(layers) + " layers",
                     "it leaves the first and the last layer alone: give three layers or more");
  }
  return Policy::layers(0, 1, Action::keep)
      .then(Policy::layers(layers - 1, layers, Action::keep))
      .then(keep_names({"block", "layer"}))
      .then(Policy::ffn(Action::recompute))
      .then(keep_ops(products()))
      .then(where([](const ValueView& value) { return value.drawn; }, Action::encode, "masks"))
      .preset();
}

}  // namespace reprise
