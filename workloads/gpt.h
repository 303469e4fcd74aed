// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "workloads/workload.h"

// gpt: a decoder over bytes, as the GPT-2 family has it: learned positions, blocks of
//
//     x + dropout(attention(LayerNorm(x))), then x + dropout(ffn(LayerNorm(x)))
//
// with causal scaled_dot_product_attention and a GELU of width 4d, a last LayerNorm, and the token
// embedding as output layer; cross entropy of the next byte; AdamW. The input is random bytes.
// Takes
// --layers (4), --width (256), --heads (4), --context (128), --batch (8) and --dropout (0.1).

namespace reprise::workloads {

class GptModel;

class Gpt final : public Workload {
 public:
  explicit Gpt(const WorkloadOptions& options);
  ~Gpt() override;

  torch::nn::Module& module() override;
  const std::vector<Layer>& layers() const override { return layers_; }
  std::vector<std::string> part_names() const override { return {"attention", "ffn"}; }
  Batch batch(int64_t step) override;
  int64_t samples_per_batch() const override { return batch_; }
  ForwardResult forward(const Strategy& strategy, const Batch& batch) override;
  std::unique_ptr<torch::optim::Optimizer> make_optimizer() override;

 private:
  int64_t batch_;
  int64_t context_;
  std::shared_ptr<GptModel> model_;
  std::vector<Layer> layers_;
  Strategy strategy_;  // of the running forward pass: it decides inside the layers, too
};

}  // namespace reprise::workloads
