// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include <reprise/checkpoint.h>
#include <reprise/error.h>
#include <reprise/segments.h>

// Layers in a row, run in checkpointed segments: only what flows between the segments is kept.
//
// `layers` is a torch::nn::Sequential or a std::vector of modules (holders, shared_ptr, AnyModule)
// or callables. They are copied as such, so modules are shared. The first layer takes the inputs,
// whatever they are; every other layer takes what the one before returned, and all of them return
// one type. A tuple is passed as a tuple if the layer takes one, else as separate arguments. Layers
// of a Sequential and AnyModules take and return one tensor.

namespace reprise {

/// Options of checkpoint_sequential(). Setters return the object, so that they chain.
class SequentialOptions {
 public:
  /// Whether the last segment is checkpointed, too. By default it runs plain, as in Python: its
  /// activations are the first ones that the backward pass needs. Default: false.
  SequentialOptions& checkpoint_last(bool on) { return checkpoint_last_ = on, *this; }
  bool checkpoint_last() const { return checkpoint_last_; }

  /// Options of each segment's region. Its name becomes a prefix of theirs.
  SequentialOptions& region(CheckpointOptions options) {
    return region_ = std::move(options), *this;
  }
  const CheckpointOptions& region() const { return region_; }

 private:
  CheckpointOptions region_;
  bool checkpoint_last_ = false;
};

namespace detail {

template <class Layers>
decltype(auto) sequence_of(Layers& layers) {
  if constexpr (requires { layers.begin(), layers.size(); }) {
    return (layers);
  } else {
    return (*layers);  // a module holder
  }
}

/// The layers, shared by all regions; each region may outlive the caller's container.
template <class Layers>
auto share_layers(Layers& layers) {
  auto& sequence = sequence_of(layers);
  using Layer = std::remove_cvref_t<decltype(*sequence.begin())>;
  return std::make_shared<std::vector<Layer>>(sequence.begin(), sequence.end());
}

template <class Layer, class Value>
decltype(auto) call_with(Layer& layer, Value&& value) {
  if constexpr (TupleLike<std::remove_cvref_t<Value>> && !Callable<Layer&, Value>) {
    return std::apply([&](auto&&... v) { return call(layer, std::forward<decltype(v)>(v)...); },
                      std::forward<Value>(value));
  } else {
    return call(layer, std::forward<Value>(value));
  }
}

inline CheckpointOptions segment_options(CheckpointOptions options, const Segment& segment) {
  const std::string first = std::to_string(segment.begin);
  const std::string range = segment.size() == 1
                                ? "layer " + first
                                : "layers " + first + "-" + std::to_string(segment.end - 1);
  return options.name(options.name().empty() ? range : options.name() + ", " + range);
}

/// Runs segment after segment; the first `checkpointed` of them as regions.
template <class Layer, class... Inputs>
auto run_segments(const CheckpointOptions& options, std::shared_ptr<std::vector<Layer>> layers,
                  const std::vector<Segment>& segments, std::size_t checkpointed,
                  Inputs&&... inputs) {
  using Value = std::decay_t<decltype(call(layers->front(), std::forward<Inputs>(inputs)...))>;
  const auto run_from = [layers](const Segment& segment, Value value) {
    for (int64_t i = segment.begin + 1; i < segment.end; ++i) {
      value = call_with((*layers)[i], std::move(value));
    }
    return value;
  };
  const auto options_of = [&](std::size_t i) {
    CheckpointOptions own = segment_options(options, segments[i]);
    return i < checkpointed ? own : own.enabled(false);
  };

  Value value = checkpoint(
      options_of(0),
      [layers, run_from, segment = segments.front()](auto&&... in) -> Value {
        return run_from(segment, call((*layers)[segment.begin], std::forward<decltype(in)>(in)...));
      },
      std::forward<Inputs>(inputs)...);
  for (std::size_t i = 1; i < segments.size(); ++i) {
    value = checkpoint(
        options_of(i),
        [layers, run_from, segment = segments[i]](Value in) -> Value {
          return run_from(segment, call_with((*layers)[segment.begin], std::move(in)));
        },
        std::move(value));
  }
  return value;
}

REPRISE_API void check_segments(const std::vector<Segment>& segments, int64_t layers);

}  // namespace detail

/// Runs `layers` in `segments` segments whose sizes differ by at most one; all but the last are
/// checkpointed. Returns what the last layer returns.
/// Throws UsageError when `segments` is below 1 or above the number of layers.
template <class Layers, class... Inputs>
auto checkpoint_sequential(const SequentialOptions& options, Layers&& layers, int64_t segments,
                           Inputs&&... inputs) {
  auto shared = detail::share_layers(layers);
  const auto cut = balanced_segments(static_cast<int64_t>(shared->size()), segments);
  return detail::run_segments(options.region(), shared, cut,
                              cut.size() - (options.checkpoint_last() ? 0 : 1),
                              std::forward<Inputs>(inputs)...);
}

template <class Layers, class... Inputs>
requires(!std::same_as<std::remove_cvref_t<Layers>, SequentialOptions>) auto checkpoint_sequential(
    Layers&& layers, int64_t segments, Inputs&&... inputs) {
  return checkpoint_sequential(SequentialOptions(), std::forward<Layers>(layers), segments,
                               std::forward<Inputs>(inputs)...);
}

/// Runs `layers` in the given segments, every one of them checkpointed. Throws UsageError unless
/// they cover the layers from first to last without a gap; see make_segments() and segments_at().
template <class Layers, class... Inputs>
auto checkpoint_segments(const CheckpointOptions& options, Layers&& layers,
                         const std::vector<Segment>& segments, Inputs&&... inputs) {
  auto shared = detail::share_layers(layers);
  detail::check_segments(segments, static_cast<int64_t>(shared->size()));
  return detail::run_segments(options, shared, segments, segments.size(),
                              std::forward<Inputs>(inputs)...);
}

/// The same, in segments of `segment_size` layers, the last perhaps shorter.
template <class Layers, class... Inputs>
auto checkpoint_segments(const CheckpointOptions& options, Layers&& layers, int64_t segment_size,
                         Inputs&&... inputs) {
  const auto count = static_cast<int64_t>(std::size(detail::sequence_of(layers)));
  return checkpoint_segments(options, std::forward<Layers>(layers),
                             make_segments(count, segment_size), std::forward<Inputs>(inputs)...);
}

template <class Layers, class Cut, class... Inputs>
requires(!std::same_as<std::remove_cvref_t<Layers>, CheckpointOptions>) auto checkpoint_segments(
    Layers&& layers, const Cut& cut, Inputs&&... inputs) {
  return checkpoint_segments(CheckpointOptions(), std::forward<Layers>(layers), cut,
                             std::forward<Inputs>(inputs)...);
}

}  // namespace reprise
