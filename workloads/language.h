// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "workloads/text_data.h"
#include "workloads/transformer.h"
#include "workloads/workload.h"

// What the workloads that learn a text have in common: the text, the sizes of the stack of blocks,
// and how they are trained: AdamW with a learning rate of 0.001, a cosine schedule after a warm-up,
// gradients clipped to a norm of 1. They take --layers (4), --width (256), --heads (4), --context
// (128), --batch, --dropout (0.1), --text and --schedule (1500).

namespace reprise::workloads {

inline constexpr int64_t kDefaultContext = 128;

class LanguageWorkload : public Workload {
 public:
  std::vector<std::string> part_names() const override { return TransformerStack::part_names(); }
  int64_t samples_per_batch() const override { return batch_; }
  std::unique_ptr<torch::optim::Optimizer> make_optimizer() override;
  std::optional<int64_t> default_steps() const override { return schedule_; }
  double learning_rate_factor(int64_t step) const override;
  std::optional<double> max_gradient_norm() const override { return 1.0; }

 protected:
  struct Defaults {
    int64_t batch;
    double weight_decay;
    int64_t least_text;  ///< bytes that each part of the text has at least
    NormPlace norm;
  };
  LanguageWorkload(std::string name, const WorkloadOptions& options, const Defaults& defaults);

  int64_t context() const { return context_; }
  const TextData& text() const { return text_; }
  const TransformerSizes& sizes() const { return sizes_; }

  /// The places where the samples of a step's batch begin, chosen from so many.
  std::vector<int64_t> draw_places(TextDraws& draws, int64_t count) const;

  /// Places, a batch of them at a time; the last may be smaller.
  std::vector<std::vector<int64_t>> in_batches(const std::vector<int64_t>& places) const;

 private:
  int64_t batch_;
  int64_t context_;
  int64_t schedule_;
  double weight_decay_;
  TextData text_;
  TransformerSizes sizes_;
};

}  // namespace reprise::workloads
