// SPDX-License-Identifier: BSD-3-Clause
#include "profile/module_tree.h"

#include <algorithm>
#include <map>

namespace reprise {
namespace detail {
namespace {

class Tree {
 public:
  Tree() : nodes_(1) {}

  /// Index of the module with this path; made, with its parents, if it is new.
  std::size_t at(const std::string& path) {
    if (path.empty()) return 0;
    const auto known = indices_.find(path);
    if (known != indices_.end()) return known->second;
    const std::size_t dot = path.rfind('.');
    const std::size_t parent = at(dot == std::string::npos ? "" : path.substr(0, dot));
    const std::size_t index = nodes_.size();
    nodes_.emplace_back();
    nodes_.back().module.path = path;
    nodes_.back().module.depth = nodes_[parent].module.depth + 1;
    nodes_[parent].children.push_back(index);
    return indices_[path] = index;
  }

  ModuleProfile& operator[](std::size_t index) { return nodes_[index].module; }

  /// In depth-first order, with the totals filled in.
  std::vector<ModuleProfile> take() {
    std::vector<ModuleProfile> list;
    list.reserve(nodes_.size());
    visit(0, list);
    return list;
  }

 private:
  struct Node {
    ModuleProfile module;
    std::vector<std::size_t> children;
  };

  ModuleFigures visit(std::size_t index, std::vector<ModuleProfile>& list) {
    const std::size_t place = list.size();
    list.push_back(nodes_[index].module);
    ModuleFigures total = list[place].own;
    for (const std::size_t child : nodes_[index].children) total += visit(child, list);
    list[place].total = total;
    return total;
  }

  std::vector<Node> nodes_;
  std::map<std::string, std::size_t, std::less<>> indices_;
};

double share(double part, double whole) { return whole > 0 ? part / whole : 0; }

void fill_shares(std::vector<ModuleProfile>& modules) {
  const ModuleFigures whole = modules.front().total;
  for (ModuleProfile& module : modules) {
    module.time_share = share(module.total.milliseconds(), whole.milliseconds());
    module.saved_share = share(static_cast<double>(module.total.saved_bytes),
                               static_cast<double>(whole.saved_bytes));
  }
}

void fill_classes(std::vector<ModuleProfile>& modules) {
  if (modules.front().total.milliseconds() <= 0) return;
  std::vector<ModuleCost> costs;
  for (const ModuleProfile& module : modules) {
    if (module.own.operators == 0) continue;
    costs.push_back(
        {module.path, module.own.operators, module.own.forward_ms, module.own.saved_bytes});
  }
  const LayerClasses classes = classify_layers(costs);
  for (ModuleProfile& module : modules) {
    const auto found = classes.find(module.path);
    if (found != classes.end()) module.layer_class = found->second;
  }
}

}  // namespace

std::vector<ModuleProfile> module_tree(const std::vector<std::string>& paths,
                                       const std::vector<ModuleFigures>& figures) {
  Tree tree;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    const std::size_t index = tree.at(paths[i]);
    if (i < figures.size()) tree[index].own += figures[i];
  }
  std::vector<ModuleProfile> modules = tree.take();
  fill_shares(modules);
  fill_classes(modules);
  return modules;
}

}  // namespace detail

ModuleFigures& ModuleFigures::operator+=(const ModuleFigures& other) {
  operators += other.operators;
  forward_ms += other.forward_ms;
  backward_ms += other.backward_ms;
  output_bytes += other.output_bytes;
  saved_bytes += other.saved_bytes;
  forward_flops += other.forward_flops;
  backward_flops += other.backward_flops;
  parameters += other.parameters;
  return *this;
}

}  // namespace reprise
