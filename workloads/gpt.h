// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "workloads/text_data.h"
#include "workloads/workload.h"

// gpt: a decoder over bytes, as the GPT-2 family has it: learned positions, blocks of
//
//     x + dropout(attention(LayerNorm(x))), then x + dropout(ffn(LayerNorm(x)))
//
// with causal scaled_dot_product_attention and a GELU of width 4d, a last LayerNorm, and the token
// embedding as output layer; cross entropy of the next byte of a text; AdamW with a cosine schedule
// after a warm-up, gradients clipped to a norm of 1. Takes --layers (4), --width (256), --heads
// (4), --context (128), --batch (8), --dropout (0.1), --text and --schedule (1500).

namespace reprise::workloads {

class GptModel;

class Gpt final : public Workload {
 public:
  explicit Gpt(const WorkloadOptions& options);
  ~Gpt() override;

  torch::nn::Module& module() override;
  const std::vector<Layer>& layers() const override;
  std::vector<std::string> part_names() const override { return {"attention", "ffn"}; }
  Batch batch(int64_t step) override;
  int64_t samples_per_batch() const override { return batch_; }
  ForwardResult forward(const Strategy& strategy, const Batch& batch) override;

  /// Loss on windows of the text's last tenth, which is not trained on.
  std::optional<Quality> quality() override;
  std::unique_ptr<torch::optim::Optimizer> make_optimizer() override;
  std::optional<int64_t> default_steps() const override { return schedule_; }
  double learning_rate_factor(int64_t step) const override;
  std::optional<double> max_gradient_norm() const override { return 1.0; }

  /// Goes on with the beginning of the text's last tenth, byte by byte, drawn at temperature 0.8.
  std::string sample() override;

 private:
  Batch windows(const std::string& text, const std::vector<int64_t>& starts) const;

  int64_t batch_;
  int64_t context_;
  int64_t schedule_;
  TextData text_;
  std::shared_ptr<GptModel> model_;
};

}  // namespace reprise::workloads
