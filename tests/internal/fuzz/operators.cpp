// SPDX-License-Identifier: BSD-3-Clause
#include "operators.h"

namespace reprise::fuzz {

const std::vector<Operator>& operators() {
  static const Table table = [] {
    Table all;
    add_pointwise(all);
    add_reductions(all);
    add_products(all);
    add_layers(all);
    add_views(all);
    add_indexing(all);
    add_writes(all);
    add_draws(all);
    add_control(all);
    return all;
  }();
  return table;
}

}  // namespace reprise::fuzz
