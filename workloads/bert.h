// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include "workloads/language.h"

// bert: an encoder over the bytes of a text's lines, as BERT has it: embedded bytes and positions,
// blocks of
//
//     LayerNorm(x + dropout(attention(x))), then LayerNorm(x + dropout(ffn(x)))
//
// whose attention does not see the padding behind short lines, and a head that tells the bytes that
// were masked: 15 % of them, of which 80 % are hidden, 10 % replaced by any byte and 10 % left as
// they are (Devlin et al., 2019). See language.h for the rest; --batch is 16 by default.

namespace reprise::workloads {

class BertModel;

class Bert final : public LanguageWorkload {
 public:
  explicit Bert(const WorkloadOptions& options);
  ~Bert() override;

  torch::nn::Module& module() override;
  const std::vector<Layer>& layers() const override;
  Batch batch(int64_t step) override;
  double loss_weight(const Batch& batch) const override;  ///< its masked bytes
  ForwardResult forward(const Strategy& strategy, const Batch& batch) override;

  /// The share of masked bytes that are told right, on lines of the text's last tenth.
  std::optional<Quality> quality() override;

 private:
  Batch masked_lines(const std::string& part, const std::vector<int64_t>& starts,
                     TextDraws draws) const;

  std::vector<int64_t> training_lines_, validation_lines_;  // where the lines begin
  std::shared_ptr<BertModel> model_;
};

}  // namespace reprise::workloads
