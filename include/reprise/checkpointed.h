// SPDX-License-Identifier: BSD-3-Clause
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include <reprise/checkpoint.h>
#include <reprise/detail/checkpointed_module.h>
#include <reprise/export.h>

// Modules whose forward() is a checkpoint(): one that is written as such, Checkpointed<M>, and the
// layers of a whole model, wrapped from outside by apply_checkpointing(). Names, parameters,
// buffers and files stay what they were.

namespace reprise {

/// The module of Checkpointed<M>: it derives from M's module, so it has its members, parameters,
/// buffers and names, prints as it does, and loads and saves the same files.
///
/// It is constructed from the arguments of M's constructor, or from an existing module, as a holder
/// or shared_ptr. That one is copied without its tensors: parameters, buffers and submodules are
/// shared with it, plain members such as the training flag are not. Before either may stand a
/// CheckpointOptions. Throws UsageError for an existing module that is null.
///
/// forward() takes what M's takes and runs it by checkpoint(), whose rules hold for the arguments;
/// the graph keeps the module alive for the replay (so a module that stores a result together with
/// its graph lives until that is dropped). It is no virtual function of LibTorch: called
/// through M's own holder or pointer, the module runs plain. Throws UsageError where no shared_ptr
/// holds the module (one on the stack), else what checkpoint() throws.
///
///   - A forward() that is one function has the same signature here: it can be called wherever M's
///     can, by AnyModule too, but direct calls give every argument. Calls of the holder, layer(x),
///     know M's default arguments.
///   - A forward() that is overloaded or a template (as Sequential's) is a template here: called
///     with M's overloads and defaults, but not with explicit template arguments, nor by AnyModule,
///     which cannot call M's either.
///
/// clone() makes a checkpointed module with the same options. Sequential::at<T>() and
/// AnyModule::get<T>() know the exact type only, which is CheckpointedImpl<...>; as<M>() finds it.
/// As safe as M's forward() to call from several threads, while nobody changes the options.
template <class Plain, class Signature = detail::ForwardSignature<Plain>>
class CheckpointedImpl
    : public detail::CheckpointedModule<Plain, CheckpointedImpl<Plain, Signature>> {
 public:
  using detail::CheckpointedModule<Plain, CheckpointedImpl>::CheckpointedModule;

  template <class... Args>
  decltype(auto) forward(Args&&... args) {
    return this->checkpointed_forward(std::forward<Args>(args)...);
  }
};

template <class Plain, class Result, class... Args, bool kNoexcept>
class CheckpointedImpl<Plain, Result(Args...) noexcept(kNoexcept)>
    : public detail::CheckpointedModule<
          Plain, CheckpointedImpl<Plain, Result(Args...) noexcept(kNoexcept)>> {
 public:
  using detail::CheckpointedModule<Plain, CheckpointedImpl>::CheckpointedModule;

  Result forward(Args... args) { return this->checkpointed_forward(std::forward<Args>(args)...); }
};

template <class Plain, class Result, class... Args, bool kNoexcept>
class CheckpointedImpl<Plain, Result(Args...) const noexcept(kNoexcept)>
    : public detail::CheckpointedModule<
          Plain, CheckpointedImpl<Plain, Result(Args...) const noexcept(kNoexcept)>> {
 public:
  using detail::CheckpointedModule<Plain, CheckpointedImpl>::CheckpointedModule;

  Result forward(Args... args) const {
    return this->checkpointed_forward(std::forward<Args>(args)...);
  }
};

/// A holder of M's module, checkpointed. M is a module holder (torch::nn::Linear, or one that
/// TORCH_MODULE makes) or a module class. Stands wherever M stands: as a member, in a Sequential, a
/// ModuleList or an AnyModule.
///
///     Checkpointed<Block> block{nullptr};  // in the model; in its constructor:
///     block = register_module("block", Checkpointed<Block>(width, heads));
///
/// Options: the first argument of the constructor, or block->checkpoint_options(options) later.
/// Default: those of CheckpointOptions.
template <class M>
class Checkpointed
    : public torch::nn::ModuleHolder<CheckpointedImpl<typename detail::ModuleOf<M>::Type>> {
 public:
  using Impl = CheckpointedImpl<typename detail::ModuleOf<M>::Type>;
  using torch::nn::ModuleHolder<Impl>::ModuleHolder;

  template <class... Args>
  decltype(auto) operator()(Args&&... args) {
    return this->get()->checkpointed_forward(std::forward<Args>(args)...);
  }
};

/// Which layers apply_checkpointing() wraps. A layer is an element of a torch::nn::Sequential. A
/// value; setters return the object, so that they chain.
class REPRISE_API LayerSelection {
 public:
  /// Sees the layer's path in the model, "blocks.3", and its module.
  using Predicate = std::function<bool(const std::string& path, const torch::nn::Module& module)>;

  /// Every layer of the outermost Sequentials.
  static LayerSelection all();
  /// One layer in `n` of each outermost Sequential: layers n-1, 2n-1, ... Throws UsageError unless
  /// n is positive.
  static LayerSelection every_nth(int64_t n);
  /// The outermost layers for which `predicate` is true, in Sequentials at any depth; `label` names
  /// it in messages.
  static LayerSelection where(Predicate predicate, const std::string& label);

  /// Leaves the first or last `n` layers of each Sequential alone, with all that is in them. Throws
  /// UsageError when n is negative. Default: 0.
  LayerSelection& leave_first(int64_t n);
  LayerSelection& leave_last(int64_t n);

  /// Of the layer at `index` of `count`.
  enum class Verdict { wrap, leave, look_inside };
  Verdict verdict(int64_t index, int64_t count, const std::string& path,
                  const torch::nn::Module& module) const;
  const std::string& label() const { return label_; }

 private:
  LayerSelection(Predicate predicate, int64_t stride, std::string label);

  Predicate predicate_;
  int64_t stride_;
  int64_t leave_first_ = 0;
  int64_t leave_last_ = 0;
  std::string label_;
};

/// Wraps layers of a model, in place: each then runs by checkpoint(), in a region that is named by
/// `options` and the layer's path. Layers are the elements of every torch::nn::Sequential in the
/// tree, the classes derived from it included: only these are called through a table that can be
/// changed from outside. What a forward() calls itself is not; Checkpointed<M> is for that. The
/// model itself is never wrapped, and nothing in a layer that is.
///
/// Returns how many layers the selection chose. Applied again, it gives those that are wrapped
/// already the new options; what it does not choose stays as it is, remove_checkpointing() undoes
/// that. Wrapping a layer unwraps what was wrapped in it; elements that are Checkpointed<M> are
/// left alone. Warns, by the selection's label, when nothing was chosen.
///
/// The registered submodules stay the same objects: names, files, to(), train() and printing do not
/// change, and sequential->ptr(i) is still the layer. clone() wraps the clone's layers alike.
/// at<T>(i) and ptr<T>(i) throw c10::Error for a wrapped layer: use ptr(i)->as<T>().
///
/// Layers may take and return whatever AnyModule passes. Tensors that are arguments are kept as
/// checkpoint() keeps them; so are those in a vector, optional, pair or tuple of up to four
/// tensors, and in (output, (hidden, cell)). Other types are opaque: copied, and their tensors are
/// not guarded against changes in place. A layer called with more than ten arguments is a
/// UsageError that names its path.
///
/// Not safe while the model runs on another thread.
REPRISE_API int64_t apply_checkpointing(torch::nn::Module& model,
                                        const LayerSelection& selection = LayerSelection::all(),
                                        const CheckpointOptions& options = {});

/// Undoes apply_checkpointing() in the whole tree, and returns how many layers it restored. Graphs
/// that exist replay as before. Modules that are Checkpointed<M> stay so.
REPRISE_API int64_t remove_checkpointing(torch::nn::Module& model);

}  // namespace reprise
