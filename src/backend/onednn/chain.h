#pragma once
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <dnnl.hpp>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "base/fork.h"

namespace snug::onednn {

dnnl::engine& engine();
dnnl::memory::data_type data_type(DType dtype);
/// Scratchpad belongs to the caller: it is part of the memory plan.
dnnl::primitive_attr user_scratchpad();

/// oneDNN primitives run one after the other on memory known by place: operands of the call, or
/// offsets into its workspace. It is built of their descriptors, which say how much workspace they
/// take; the primitives themselves, which are generated code, are made by `make_ready`. Sealed it
/// does not change but for that, and may run on several threads at once.
class Chain {
 public:
  enum class Place : std::uint8_t { In, Out, Workspace };
  using MemoryId = int;

  /// `workspace_begin`: bytes at the start of the workspace that belong to the caller.
  explicit Chain(std::uint64_t workspace_begin = 0);
  ~Chain();
  Chain(const Chain&) = delete;
  Chain& operator=(const Chain&) = delete;

  /// Operand number `at`, or (for Workspace) the byte offset `at`.
  MemoryId memory(const dnnl::memory::desc& desc, Place place, std::uint64_t at);
  /// Fresh bytes of the workspace.
  MemoryId temporary(const dnnl::memory::desc& desc);
  /// `memory` itself if it has the layout `desc`, else a temporary that is filled from it here.
  MemoryId in_layout(MemoryId memory, const dnnl::memory::desc& desc);
  /// `memory` itself if it has the layout `desc`, else a temporary; `flush` then copies back.
  MemoryId out_layout(MemoryId memory, const dnnl::memory::desc& desc);
  void flush(MemoryId from, MemoryId to);

  struct Argument {
    int name;  // DNNL_ARG_*
    MemoryId memory;
  };
  template <class Primitive>
  void step(const typename Primitive::primitive_desc& desc, std::vector<Argument> arguments) {
    add([desc] { return dnnl::primitive(Primitive(desc)); }, std::move(arguments), desc);
  }
  /// Ends building: places the scratchpads.
  void seal();

  std::uint64_t workspace() const { return workspace_; }
  /// Makes the primitives, at the first call, and what `runs` runs at once need. A Memory error if
  /// the limits of the process leave too little: oneDNN does not survive if it gets none.
  void make_ready(std::size_t runs = 1) const;
  /// What that takes, about.
  std::uint64_t code_bytes() const { return code_bytes_; }
  void run(std::byte* const* in, std::byte* const* out, std::byte* workspace) const;

 private:
  struct Memory {
    dnnl::memory::desc desc;
    Place place;
    std::uint64_t at;
  };
  struct Step {
    std::function<dnnl::primitive()> make;
    std::vector<Argument> arguments;
  };
  void add(std::function<dnnl::primitive()> make, std::vector<Argument> arguments,
           const dnnl::primitive_desc_base& desc);
  // oneDNN's memory objects hold the pointers of one run, so each concurrent run has its own set.
  struct Objects;
  std::unique_ptr<Objects> make_objects() const;
  std::unique_ptr<Objects> lease() const;
  void give_back(std::unique_ptr<Objects> objects) const;

  std::vector<Memory> memories_;
  std::vector<Step> steps_;
  std::vector<MemoryId> scratchpads_;  // per step
  std::uint64_t workspace_;
  std::uint64_t code_bytes_ = 0;
  mutable BriefMutex mutex_;
  mutable LongMutex making_;
  mutable std::vector<dnnl::primitive> primitives_;  // of the steps, once ready
  mutable std::atomic<std::size_t> ready_{0};        // for as many runs at once
  mutable std::vector<std::unique_ptr<Objects>> free_;
};

/// The chain under `key` from a bounded cache, least recently used out first; made by `build` if it
/// is not there. Null if `build` gives null or oneDNN refuses; refusals are cached too.
std::shared_ptr<const Chain> cached_chain(const std::string& key,
                                          const std::function<std::shared_ptr<Chain>()>& build);

/// True if oneDNN works with AVX-512 here.
bool has_avx512();

/// True if an implementation is oneDNN's slow one, made for testing.
bool is_reference(const dnnl::primitive_desc_base& pd);

}  // namespace snug::onednn
