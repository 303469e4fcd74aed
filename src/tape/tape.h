// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <reprise/hooks.h>

#include "meter/dropped_bytes.h"
#include "tape/decider.h"
#include "tape/held_set.h"
#include "tape/offloads.h"
#include "tape/record.h"
#include "tape/schedule.h"
#include "tape/step_recorder.h"
#include "torch/dispatch_mode.h"
#include "torch/environment.h"
#include "torch/saved_tensor.h"

// The record of the operators that ran in a forward pass, able to replay any of them.
//
// While it records, it is a dispatch mode (it sees every operator below autograd) and a pack hook
// (it sees every tensor that autograd saves). After seal() it only brings values back. Graph nodes
// own SavedValues, SavedValues own the tape, the tape owns neither. Thread-safe: one lock, not held
// while an operator of the forward pass runs.

namespace reprise::detail {

class SavedValue;

/// What a tape did. Bytes are those of storages.
struct TapeCounts {
  int64_t operators = 0;   // recorded
  int64_t saved = 0;       // tensors that autograd saved
  int64_t kept = 0;        //   of these: kept by decision
  int64_t encoded = 0;     //   of these: kept in a smaller form
  int64_t external = 0;    //   of these: made outside of the tape, kept as they were
  int64_t unknown = 0;     //   of these: not replayable, kept
  int64_t recomputed = 0;  //   of these: dropped
  int64_t offloaded = 0;   //   of these: to be sent to a store
  int64_t yielding = 0;    //   of these: kept for as long as there is room
  int64_t replays = 0;     // operators run again
};

/// What one module's operators took and what autograd saved of their results.
struct ModuleCounts {
  int64_t operators = 0;
  double milliseconds = 0;  // of their kernels
  int64_t saved_bytes = 0;  // each storage once
};

struct TapeOptions {
  bool audit = false;    // keep what is dropped all the same, and compare it with its replay
  bool measure = false;  // count for each module; the clock waits for accelerators
  std::string label{};   // of the scope, for messages; may be empty
  /// Not null: what the decider lets yield is held while there is room, replays hold no more than
  /// they are just using, and what is dropped and brought back is counted here.
  std::shared_ptr<Room> room{};
  /// Not null: the step is measured, and a schedule followed where the guide has one. REQUIRES
  /// room.
  std::shared_ptr<StepGuide> guide{};
  /// Not null: where the decider's offloads go.
  std::shared_ptr<Offloads> offloads{};
  StepRecorder::Clock clock{};  // of the measurement; empty: the machine's
};

class Tape final : public DispatchMode, public std::enable_shared_from_this<Tape> {
 public:
  explicit Tape(std::shared_ptr<Decider> decider, TapeOptions options = {});
  ~Tape() override;

  void dispatch(const c10::OperatorHandle& op, torch::jit::Stack* stack) override;
  bool sees_backward() const override { return false; }
  std::shared_ptr<PackedTensor> pack(const at::Tensor& tensor);

  /// Gives the latest value of a tensor a name and asks the decider about it again. False if the
  /// tape did not make it.
  bool name(const at::Tensor& tensor, const std::string& name);

  /// Keeps the latest value of a tensor. False if the tape did not make it.
  bool keep(const at::Tensor& tensor);

  /// The path of the module that values are made in from now on. While it is not empty, it counts;
  /// else the module whose parameter or buffer was read last, see know_module().
  void enter_module(const std::string& path);

  /// `storage` belongs to a parameter or buffer of the module at `path`.
  void know_module(const c10::Storage& storage, const std::string& path);

  /// Ends the recording: forgets what no dropped value depends on.
  void seal();

  TapeCounts counts() const;

  /// REQUIRES TapeOptions::offloads.
  OffloadSummary offload_summary() const;

  /// Held by threads that look at the tape.
  std::recursive_mutex& mutex() { return mutex_; }

  /// By module path; empty unless measured.
  std::map<std::string, ModuleCounts> module_counts() const;

 private:
  friend class SavedValue;

  /// A dropped tensor: where its contents are, and who still wants them.
  struct Ticket {
    int32_t storage = kNone;
    ValueId value = kNone;  // known once sealed
    Geometry geometry;
    bool alive = true;
    int64_t served_in = kNoPass;  // the last backward pass that has had it
    NodeId saved_by = kNone;      // about when; for what is measured
  };

  // tape.cpp: recording
  bool is_recording() const;
  void read_arguments(Node& node, const torch::jit::Stack& stack);
  void plan_writes(Node& node, const torch::jit::Stack& stack);
  bool make_values(NodeId id, const torch::jit::Stack& arguments, const torch::jit::Stack& results);
  void note_writes(NodeId id, const torch::jit::Stack& arguments);
  void note_failed_writes(const Node& node);
  void note_results(NodeId id, const torch::jit::Stack& stack);
  TensorRef refer_to(const at::Tensor& tensor, bool overwrites);
  ValueId read(const at::Tensor& tensor, bool overwrites);
  int32_t find_storage(const at::Tensor& tensor) const;
  int32_t add_storage(const at::Tensor& tensor);
  ValueId add_value(int32_t storage, NodeId producer, int output, std::size_t bytes);
  void make_external(int32_t storage, const c10::Storage& contents);
  void make_external(int32_t storage, const at::Tensor& tensor);
  bool is_unchanged_external(int32_t storage, const at::Tensor& tensor) const;
  Counter* see_counter(int32_t storage, const at::Tensor& tensor);
  void forget_last_node();
  ValueInfo info_of(const Value& value, const at::Tensor& tensor) const;
  int32_t intern(const std::string& text);
  void note_module(const at::Tensor& argument);
  void lose(ValueId value);

  // decide.cpp: what becomes of what
  void decide_pending();
  void decide(SavedValue& saved);
  void encode(ValueId id, const at::Tensor& tensor, Decision& decision);
  void drop_idle_holds();
  at::Tensor unpack(const at::Tensor& kept, const std::optional<std::size_t>& ticket);

  // send.cpp: what goes to a store
  bool offload(ValueId id, const at::Tensor& tensor);
  void send_held(ValueId id);
  void send_released();
  void end_sending();
  c10::Storage bring_from_store(ValueId id);
  void look_ahead_in_store();

  // demand.cpp: who still needs what
  void count_readers();
  void count_waiting(int64_t pass);
  void end_waiting(int64_t pass);
  void drop_reader(ValueId value);
  void drop_waiting(ValueId value);
  void forget(Node& node);
  bool stays(const Value& value) const;
  void release(ValueId value);
  void release_ticket(std::size_t ticket);
  void count_dropped();
  void look_at_savings(ValueId brought_back);

  // replay.cpp: bringing back
  struct Local;
  struct LazyReplay;
  using Locals = std::unordered_map<ValueId, Local>;
  at::Tensor bring_back(std::size_t ticket);
  c10::Storage available(ValueId value);
  c10::Storage alive_elsewhere(ValueId value) const;
  bool changed_since_seal(const StorageRecord& record) const;
  c10::Storage replay(ValueId target, int64_t pass);
  std::vector<NodeId> closure(ValueId target, Locals& locals);
  void run_again(const Node& node, NodeId id, Locals& locals, int64_t pass);
  c10::Storage place_to_write(const Write& write, Locals& locals);
  static uint64_t fingerprint_of(const at::Tensor& sparse);
  void check_opaque(const Node& node, const TensorRef& ref) const;
  void check_geometry(const Node& node, const Geometry& expected, const at::Tensor& tensor) const;
  bool counts_waiting(int64_t pass) const;

  // yield.cpp: what is held while there is room
  Gauge& gauge() const { return options_.room->memory.gauge(); }
  void mirror_values();
  void mirror_last_node(int64_t nanoseconds);
  void hold_if_wanted(ValueId value, const c10::Storage& contents);
  void hold(ValueId value, const c10::Storage& contents);
  void end_yielding(int32_t storage);
  at::Tensor bring_back_lazily(std::size_t ticket);
  c10::Storage replay_lazily(ValueId target, const LazyReplay* outer);
  std::vector<NodeId> lazy_closure(ValueId target, LazyReplay& replay);
  c10::Storage fetch(ValueId input, LazyReplay& replay);
  void count_replay();
  std::string describe(const Node& node) const;

  // follow.cpp: schedules, and what is measured to make them
  void follow_node(NodeId id);
  void change_schedule(std::shared_ptr<const Schedule> schedule);
  Schedule::Fate fate_of(ValueId value) const;
  void record_node(NodeId id);
  void look_for_released();
  void let_go(ValueId id);
  Decision decide_by_schedule(ValueId id, const at::Tensor& tensor);
  void measure_form(ValueId id, const at::Tensor& tensor);
  void record_forward();
  void unpack_begins(const Ticket& ticket, ValueId value);
  void unpack_ends(ValueId value, const c10::Storage& contents);
  void note_pins();
  void follow_unpack(ValueId value);
  void run_moves(const std::vector<Schedule::Move>& moves);
  void run_move(const Schedule::Move& move);
  void run_nodes(const std::vector<NodeId>& nodes, LazyReplay& replay);
  void forget_encoded(ValueId id);
  void stop_following();
  void spoil_step();
  void end_step(int64_t pass);

  const std::shared_ptr<Decider> decider_;
  const TapeOptions options_;
  const Numerics numerics_;

  mutable std::recursive_mutex mutex_;
  std::vector<Node> nodes_;
  std::vector<Value> values_;
  std::vector<StorageRecord> storages_;
  std::vector<Ticket> tickets_;
  std::unordered_map<const void*, int32_t> by_address_;
  std::unordered_map<const OperatorInfo*, int64_t> invocations_;
  std::vector<std::weak_ptr<SavedValue>> pending_;  // saved, and not decided yet
  std::deque<std::string> names_{""};               // a deque: views of the texts are handed out
  std::unordered_map<std::string_view, int32_t> name_ids_;
  int32_t module_ = 0;                                // the present one
  bool entered_ = false;                              // it was entered; nothing else decides
  std::unordered_map<const void*, int32_t> modules_;  // of parameters and buffers
  std::unordered_map<int32_t, ModuleCounts> module_counts_;
  std::optional<RngState> last_rng_;
  NodeId settled_ = 0;  // holds of earlier nodes have been looked through
  TapeCounts counts_;
  DroppedBytes dropped_;
  bool savings_known_ = false;  // whether dropping was of any use
  std::unique_ptr<HeldSet> yielding_;
  Offloads* const offloads_;  // of the options; null: nothing goes to a store
  int64_t replays_in_pass_ = 0;
  int64_t counted_pass_ = kNoPass;
  bool sealed_ = false;

  /// A storage that shall be sent, when nobody else has it and it is not among the last.
  struct Leaving {
    int32_t storage;
    int64_t admitted;  // number
  };
  std::vector<Leaving> leaving_;

  int64_t pass_ = kNoPass;  // the backward pass that Value::waiting is counted for

  // With a guide.
  std::unique_ptr<StepRecorder> recorder_;
  std::shared_ptr<const Schedule> schedule_;  // that is followed at present; null: none
  uint64_t hash_ = 0;                         // of the nodes so far
  std::vector<ValueId> unreleased_;           // the program still holds them
  std::vector<std::pair<ValueId, int32_t>> released_;
  std::unordered_map<ValueId, NodeId> saved_at_;
  std::unordered_map<ValueId, StepRecord::Value::Form> forms_;
  std::vector<std::pair<ValueId, c10::weak_intrusive_ptr<c10::StorageImpl>>> pinned_;
  std::size_t next_event_ = 0;
  std::vector<ValueId> to_unpack_;  // of the present event
  int64_t first_pass_ = kNoPass;
  int64_t drops_before_ = 0;
  bool moving_ = false;  // a move runs: it says itself what stays
  bool step_ended_ = false;
};

}  // namespace reprise::detail
