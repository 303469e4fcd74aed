// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "workloads/text_data.h"
#include "workloads/workload.h"

// bert: an encoder over the bytes of a text's lines, as BERT has it: embedded bytes and positions,
// blocks of
//
//     LayerNorm(x + dropout(attention(x))), then LayerNorm(x + dropout(ffn(x)))
//
// whose attention does not see the padding behind short lines, and a head that tells the bytes that
// were masked: 15 % of them, of which 80 % are hidden, 10 % replaced by any byte and 10 % left as
// they are (Devlin et al., 2019). AdamW with a cosine schedule after a warm-up, gradients clipped
// to a norm of 1. Takes --layers (4), --width (256), --heads (4), --context (128), --batch (16),
// --dropout (0.1), --text and --schedule (1500).

namespace reprise::workloads {

class BertModel;

class Bert final : public Workload {
 public:
  explicit Bert(const WorkloadOptions& options);
  ~Bert() override;

  torch::nn::Module& module() override;
  const std::vector<Layer>& layers() const override;
  std::vector<std::string> part_names() const override { return {"attention", "ffn"}; }
  Batch batch(int64_t step) override;
  int64_t samples_per_batch() const override { return batch_; }
  double loss_weight(const Batch& batch) const override;  ///< its masked bytes
  ForwardResult forward(const Strategy& strategy, const Batch& batch) override;

  /// The share of masked bytes that are told right, on lines of the text's last tenth.
  std::optional<Quality> quality() override;
  std::unique_ptr<torch::optim::Optimizer> make_optimizer() override;
  std::optional<int64_t> default_steps() const override { return schedule_; }
  double learning_rate_factor(int64_t step) const override;
  std::optional<double> max_gradient_norm() const override { return 1.0; }

 private:
  Batch masked_lines(const std::string& text, const std::vector<int64_t>& starts,
                     TextDraws draws) const;

  int64_t batch_;
  int64_t context_;
  int64_t schedule_;
  TextData text_;
  std::vector<int64_t> training_lines_, validation_lines_;  // where the lines begin
  std::shared_ptr<BertModel> model_;
};

}  // namespace reprise::workloads
