// SPDX-License-Identifier: BSD-3-Clause
#include "workloads/train.h"

#include <algorithm>
#include <chrono>
#include <cmath>

#include <reprise/amp.h>
#include <reprise/error.h>
#include <reprise/meter.h>
#include <reprise/monitor.h>
#include <reprise/resume.h>

#include "workloads/libtorch.h"
#include "workloads/parts.h"
#include "workloads/stores.h"
#include "workloads/use_budget.h"

namespace reprise::workloads {
namespace {

using Clock = std::chrono::steady_clock;

void require_positive(const char* what, int64_t value, const std::string& option) {
  if (value >= 1) return;
  throw UsageError(std::string(what) + " must be 1 or more, got " + std::to_string(value),
                   "give " + option + " N with N of 1 or more");
}

// Said by the strategy or by the option of its own; require_sense() sees that not both do.
int64_t parts_in(const TrainOptions& options) {
  return std::max(options.accumulate, parts_of(options.strategy));
}

void require_sense(Workload& workload, const TrainOptions& options) {
  if (!options.steps && !options.until_loss) {
    throw UsageError("nothing says when to stop", "give --steps N, --until-loss X or both");
  }
  require_positive("training steps", options.steps.value_or(1), "--steps");
  require_positive("steps between log lines", options.log_every, "--log-every");
  require_positive("parts of a batch", options.accumulate, "--accumulate");
  if (options.accumulate > 1 && parts_of(options.strategy) > 1) {
    throw UsageError("the strategy '" + options.strategy.text + "' and --accumulate " +
                         std::to_string(options.accumulate) + " both take the batch in parts",
                     "give one of them");
  }
  workload.require_parts(options.accumulate);
  if (options.plan && options.accumulate > 1) {
    throw UsageError(
        "a plan is for a step whose batch is whole, and --accumulate takes it in parts",
        "plan with a smaller --batch, or leave one of them out");
  }
  if (options.save_every > 0 && !options.save) {
    throw UsageError("--save-every without --save", "name the file with --save FILE");
  }
  workload.check(options.strategy);
  if (!options.strategy.store) check_store_folder({options.strategy}, options.store);
  if (options.save) check_writable(*options.save);
}

void require_finite(double loss, int64_t step) {
  if (std::isfinite(loss)) return;
  throw Error("the loss is " + std::to_string(loss) + " at step " + std::to_string(step),
              step == 1 ? "it is so before any training: check the data and the sizes of the model"
                        : "training diverged: use a smaller --learning-rate");
}

// What a run holds beside the workload's model, and how it is put into a resume file.
class Run {
 public:
  Run(Workload& workload, const TrainOptions& options)
      : workload_(workload),
        options_(options),
        strategy_(options.strategy),
        optimizer_(workload.make_optimizer()),
        monitor_(workload.device()) {
    if (workload.autocast() == c10::kHalf) scaler_.emplace();
    for (const auto& group : optimizer_->param_groups()) rates_.push_back(group.options().get_lr());
    if (options.resume) resume();
  }

  int64_t steps_taken() const { return step_; }
  int64_t skipped() const { return skipped_; }
  const OffloadSummary& offload() const { return offload_; }
  const TrainMonitor& monitor() const { return monitor_; }

  TrainingStep step() {
    const int64_t index = step_;
    set_learning_rate(index);
    const Batch batch = workload_.batch(index);
    torch::manual_seed(workload_.step_seed(index));
    optimizer_->zero_grad(/*set_to_none=*/true);
    monitor_.begin_step();
    const double loss = train_on(batch);
    const MonitoredStep measured = monitor_.end_step(workload_.samples_per_batch());
    ++step_;
    require_finite(loss, step_);
    monitor_.note_loss(loss);
    return {step_,
            loss,
            measured.peak_bytes,
            measured.total_peak_bytes,
            measured.milliseconds,
            optimizer_->param_groups().front().options().get_lr()};
  }

  void save() {
    ResumeState state = resume_state();
    state.step = step_;
    save_resume_file(*options_.save, state);
  }

 private:
  ResumeState resume_state() {
    ResumeState state;
    state.module = &workload_.module();
    state.optimizer = optimizer_.get();
    state.scaler = scaler_ ? &*scaler_ : nullptr;
    state.run = workload_.setting();
    const int64_t parts = parts_in(options_);
    if (parts > 1) state.run += " --accumulate " + std::to_string(parts);
    if (strategy_.store_kind && !strategy_.store_kind->exact()) state.run += " by a lossy store";
    return state;
  }

  void resume() {
    ResumeState state = resume_state();
    load_resume_file(*options_.resume, state);
    step_ = state.step;
    if (!options_.steps || step_ < *options_.steps) return;
    throw UsageError("the run in '" + *options_.resume + "' has taken " + std::to_string(step_) +
                         " steps already",
                     "--steps counts them, too: give it a larger number");
  }

  // From the first rates, not from the last: a rate that is multiplied over and over drifts.
  void set_learning_rate(int64_t index) {
    const double factor = workload_.learning_rate_factor(index);
    for (std::size_t i = 0; i < rates_.size(); ++i) {
      optimizer_->param_groups()[i].options().set_lr(rates_[i] * factor);
    }
  }

  double train_on(const Batch& batch) {
    PartsOptions parts;
    parts.parts = parts_in(options_);
    parts.scaler = scaler_ ? &*scaler_ : nullptr;
    parts.outputs = false;
    parts.offload = &offload_;
    const torch::Tensor loss = run_in_parts(workload_, strategy_, batch, parts).loss;
    if (scaler_) scaler_->unscale(*optimizer_);
    if (const auto norm = workload_.max_gradient_norm()) {
      torch::nn::utils::clip_grad_norm_(workload_.module().parameters(), *norm);
    }
    if (!scaler_) {
      optimizer_->step();
    } else {
      if (!scaler_->step(*optimizer_)) ++skipped_;
      scaler_->update();
    }
    return loss.item<double>();
  }

  Workload& workload_;
  const TrainOptions& options_;
  const Strategy strategy_;
  std::unique_ptr<torch::optim::Optimizer> optimizer_;
  std::optional<GradScaler> scaler_;
  TrainMonitor monitor_;
  std::vector<double> rates_;
  int64_t step_ = 0;
  int64_t skipped_ = 0;
  OffloadSummary offload_;
};

void note(Training& training, const TrainingStep& step, int64_t base) {
  training.steps = step.step;
  training.loss = step.loss;
  training.base_bytes = base;
  training.peak_bytes = std::max(training.peak_bytes, step.peak_bytes);
  training.total_peak_bytes = std::max(training.total_peak_bytes, step.total_peak_bytes);
}

void finish(Training& training, Workload& workload, const Run& run) {
  const MonitorSummary summary = run.monitor().summary();
  training.samples_per_second = summary.samples_per_second;
  training.warnings.insert(training.warnings.end(), summary.warnings.begin(),
                           summary.warnings.end());
  training.skipped_steps = run.skipped();
  training.sample = workload.sample();
  if (const auto quality = workload.quality()) {
    training.quality = quality->value;
    training.quality_name = quality->name;
    training.quality_unit = quality->unit;
  }
}

}  // namespace

namespace {

// All bytes, less what is there already; and the batch is still to come.
void follow_shapes(Budget& budget, const TrainOptions& options, torch::Device device) {
  const auto size = budget_of(options.strategy);
  const int64_t left =
      size->above_base > 0 ? size->above_base : (size->bytes - Meter(device).live()) / 64 * 63;
  if (left <= 0) return;
  try {
    budget.follow(*options.shapes, plan(options.shapes->trace, left));
  } catch (const BudgetInfeasible&) {  // so the first step goes online, and says so itself
  }
}

std::optional<Budget> budget_for(Workload& workload, const TrainOptions& options) {
  std::optional<Budget> budget = make_budget(options.strategy, workload.device());
  if (budget && options.shapes) follow_shapes(*budget, options, workload.device());
  if (options.plan) budget->follow(options.plan->plan);
  return budget;
}

// The first step shows what operators there are, and the next ones follow the plan. Where they do
// not, it takes more than was planned by what is no value, such as scratch with other threads.
void see_whether_followed(const PlanFile& plan, const Budget& budget, Training& training) {
  if (training.steps == training.first_step) {
    if (const auto step = budget.trace()) require_same_operators(plan, *step);
  } else if (training.steps == training.first_step + 1 && !budget.followed()) {
    training.warnings.emplace_back(
        "the plan is not followed: by what the first step took, it would not fit any more; steps "
        "are planned anew, within the same budget");
  }
}

}  // namespace

Training describe(Workload& workload, const TrainOptions& options) {
  require_sense(workload, options);
  Training training;
  training.workload = workload.name();
  training.strategy = options.strategy.text;
  training.device = workload.device().str();
  training.libtorch = loaded_libtorch().text();
  training.threads = torch::get_num_threads();
  training.seed = workload.seed();
  training.parameters = workload.parameter_count();
  training.max_steps = options.steps;
  training.until_loss = options.until_loss;
  training.log_every = options.log_every;
  training.accumulate = parts_in(options);
  if (const auto type = workload.autocast()) training.autocast = autocast_name(*type);
  return training;
}

Training train(Workload& workload, const TrainOptions& asked) {
  Training training = describe(workload, asked);
  if (asked.save) check_writable(*asked.save);
  TrainOptions options = asked;
  make_store(options.strategy, options.store, workload);
  workload.prepare(options.strategy);
  std::optional<Budget> budget = budget_for(workload, options);
  const UseBudget use(workload, budget ? &*budget : nullptr);
  Run run(workload, options);
  training.first_step = run.steps_taken() + 1;
  const RegionReport report;
  const auto start = Clock::now();
  for (bool last = false; !last;) {
    const TrainingStep step = run.step();
    const int64_t number = step.step;
    if (options.plan) see_whether_followed(*options.plan, *budget, training);
    note(training, step, run.monitor().steps().back().base_bytes);
    training.reached_loss = options.until_loss && step.loss <= *options.until_loss;
    last = training.reached_loss || (options.steps && number >= *options.steps);
    if (!last && options.interrupted && options.interrupted()) last = training.interrupted = true;
    if (options.on_step) options.on_step(step);
    if (number == training.first_step || number % options.log_every == 0 || last) {
      training.log.push_back(step);
      if (options.on_log) options.on_log(step);
    }
    const bool due = options.save_every > 0 && number % options.save_every == 0;
    if (options.save && (last || due)) run.save();
  }
  training.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  training.regions = report.regions();
  if (budget) training.budget = budget->summary();
  if (options.strategy.store && !budget) training.offload = run.offload();
  finish(training, workload, run);
  return training;
}

}  // namespace reprise::workloads
