// SPDX-License-Identifier: BSD-3-Clause
#include <filesystem>
#include <iostream>

#include <reprise/reprise.h>

#include <torch/torch.h>

// A training loop as it is in practice: lower precision, a large batch in parts, memory watched,
// and the run put down in a file. The block is checkpointed inside all of that.

namespace rp = reprise;

int main() {
  torch::manual_seed(0);
  torch::nn::Sequential block(torch::nn::Linear(64, 256), torch::nn::GELU(),
                              torch::nn::Linear(256, 64));
  torch::optim::AdamW optimizer(block->parameters(), torch::optim::AdamWOptions(1e-3));
  rp::GradientAccumulator group(4);
  rp::TrainMonitor monitor;

  for (int step = 0; step < 20; ++step) {
    const auto x = torch::randn({256, 64});
    optimizer.zero_grad();
    double loss_sum = 0;
    monitor.begin_step();
    for (const auto& part : x.chunk(group.size())) {
      torch::Tensor loss;
      {
        const rp::Autocast autocast(torch::kCPU, torch::kBFloat16);
        loss = (rp::checkpoint(block, part) - part.sin()).square().mean();
      }
      group.backward(loss, static_cast<double>(part.size(0)));
      loss_sum += loss.item<double>();
    }
    group.finish(optimizer);
    optimizer.step();
    monitor.end_step(x.size(0));
    monitor.note_loss(loss_sum / static_cast<double>(group.size()));
  }
  std::cout << to_text(monitor.summary());

  const auto path = (std::filesystem::temp_directory_path() / "reprise_example.resume").string();
  rp::ResumeState state{block.ptr().get(), &optimizer, nullptr, 20, "example 05"};
  rp::save_resume_file(path, state);
  rp::load_resume_file(path, state);  // as the next process would
  std::cout << "to be resumed after step " << state.step << '\n';
  std::filesystem::remove(path);

  const auto summary = monitor.summary();
  return *summary.loss < *summary.first_loss && summary.warnings.empty() ? 0 : 1;
}
