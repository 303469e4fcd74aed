// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "workloads/language.h"

// gpt: a decoder over bytes, as the GPT-2 family has it: learned positions, blocks of
//
//     x + dropout(attention(LayerNorm(x))), then x + dropout(ffn(LayerNorm(x)))
//
// with causal scaled_dot_product_attention and a GELU of width 4d, a last LayerNorm, and the token
// embedding as output layer; cross entropy of the next byte of a text. See language.h for the rest;
// --batch is 8 by default.

namespace reprise::workloads {

class GptModel;

class Gpt final : public LanguageWorkload {
 public:
  explicit Gpt(const WorkloadOptions& options);
  ~Gpt() override;

  torch::nn::Module& module() override;
  const std::vector<Layer>& layers() const override;
  Batch batch(int64_t step) override;
  ForwardResult forward(const Strategy& strategy, const Batch& batch) override;

  /// Loss on windows of the text's last tenth, which is not trained on.
  std::optional<Quality> quality() override;

  /// Goes on with the beginning of the text's last tenth, byte by byte, drawn at temperature 0.8.
  std::string sample() override;

 private:
  Batch windows(const std::string& part, const std::vector<int64_t>& starts) const;

  std::shared_ptr<GptModel> model_;
};

}  // namespace reprise::workloads
