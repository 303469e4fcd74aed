// SPDX-License-Identifier: BSD-3-Clause
#include "meter/content_hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "torch/below_autograd.h"
#include "torch/geometry.h"

namespace reprise::detail {

uint64_t content_hash(const at::Tensor& tensor) {
  if (!has_plain_storage(tensor)) return 0;
  const BelowAutograd below;
  const at::Tensor flat = tensor.resolve_conj().resolve_neg().cpu().contiguous();
  return XXH3_64bits(flat.const_data_ptr(), flat.nbytes());
}

}  // namespace reprise::detail
