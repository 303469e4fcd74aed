// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <functional>
#include <string>
#include <vector>

// The operators that random programs are made of, each with a way to choose valid arguments.

namespace reprise::fuzz {

class Frame;

struct Operator {
  std::string name;
  std::function<void(Frame&)> run;
  // Whether autograd saves what goes in or what comes out: what it has saved is better not written
  // to, or the backward pass raises.
  bool saves_inputs = true;
  bool saves_output = false;
};

const std::vector<Operator>& operators();

// The table's parts.
using Table = std::vector<Operator>;
void add_pointwise(Table& table);
void add_reductions(Table& table);
void add_products(Table& table);
void add_layers(Table& table);
void add_views(Table& table);
void add_indexing(Table& table);
void add_writes(Table& table);
void add_draws(Table& table);
void add_control(Table& table);

}  // namespace reprise::fuzz
