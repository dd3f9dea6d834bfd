#pragma once
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
/// offsets into its workspace. Immutable once sealed, and may run on several threads at once.
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
  void step(const dnnl::primitive& primitive, std::vector<Argument> arguments,
            const dnnl::memory::desc& scratchpad);
  /// Ends building; makes what one run needs, so that runs find it ready.
  void seal();

  std::uint64_t workspace() const { return workspace_; }
  void run(std::byte* const* in, std::byte* const* out, std::byte* workspace) const;

 private:
  struct Memory {
    dnnl::memory::desc desc;
    Place place;
    std::uint64_t at;
  };
  struct Step {
    dnnl::primitive primitive;
    std::vector<Argument> arguments;
  };
  // oneDNN's memory objects hold the pointers of one run, so each concurrent run has its own set.
  struct Objects;
  std::unique_ptr<Objects> make_objects() const;
  std::unique_ptr<Objects> lease() const;
  void give_back(std::unique_ptr<Objects> objects) const;

  std::vector<Memory> memories_;
  std::vector<Step> steps_;
  std::vector<MemoryId> scratchpads_;  // per step
  std::uint64_t workspace_;
  mutable BriefMutex mutex_;
  mutable std::vector<std::unique_ptr<Objects>> free_;
};

/// The chain under `key` from a bounded cache, least recently used out first; made by `build` if it
/// is not there. Null if `build` gives null or oneDNN refuses; refusals are cached too.
std::shared_ptr<const Chain> cached_chain(const std::string& key,
                                          const std::function<std::shared_ptr<Chain>()>& build);

/// True if an implementation is oneDNN's slow one, made for testing.
bool is_reference(const dnnl::primitive_desc_base& pd);

}  // namespace snug::onednn
