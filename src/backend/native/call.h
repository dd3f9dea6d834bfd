#pragma once
#include <utility>
#include <vector>

#include "kernel/library.h"

namespace snug::native {

/// A PreparedCall that keeps the sizes it was made for, and prefers those of the run.
class Call : public PreparedCall {
 public:
  explicit Call(const CallSite& site)
      : in_(site.in), out_(site.out), sizes_(site.size_values), threads_(site.threads) {}

 protected:
  const ArgDesc& in(const RunArgs& args, std::size_t i) const {
    return args.in_desc ? args.in_desc[i] : in_[i];
  }
  const ArgDesc& out(const RunArgs& args, std::size_t i) const {
    return args.out_desc ? args.out_desc[i] : out_[i];
  }
  const std::int64_t* size_values(const RunArgs& args, std::size_t i) const {
    return args.size_values ? args.size_values[i] : sizes_[i].data();
  }

  std::vector<ArgDesc> in_, out_;
  std::vector<std::vector<std::int64_t>> sizes_;
  int threads_;
};

constexpr std::uint64_t align64(std::uint64_t bytes) { return (bytes + 63) & ~std::uint64_t{63}; }

}  // namespace snug::native
