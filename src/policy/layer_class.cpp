// SPDX-License-Identifier: BSD-3-Clause
#include <reprise/layer_class.h>

namespace reprise {

LayerClasses classify_layers(const std::vector<ModuleCost>& modules) {
  double time = 0, bytes = 0, count = 0;
  for (const ModuleCost& cost : modules) {
    if (cost.module.empty()) continue;
    time += cost.milliseconds;
    bytes += static_cast<double>(cost.saved_bytes);
    ++count;
  }
  LayerClasses classes;
  for (const ModuleCost& cost : modules) {
    if (cost.module.empty()) continue;
    const double of_time = time > 0 ? cost.milliseconds / time : 0;
    const double of_bytes = bytes > 0 ? static_cast<double>(cost.saved_bytes) / bytes : 0;
    const double small = 0.25 / count;
    LayerClass found = LayerClass::light;
    if (of_time >= small || of_bytes >= small) {
      found = of_time > of_bytes ? LayerClass::compute_heavy : LayerClass::activation_heavy;
    }
    classes[cost.module] = found;
  }
  return classes;
}

}  // namespace reprise
