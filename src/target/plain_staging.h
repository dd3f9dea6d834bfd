#pragma once
#include <fmt/format.h>

#include <string_view>
#include <utility>

#include "base/device_memory.h"
#include "base/error.h"
#include "base/pages.h"
#include "target/memory_budget.h"

namespace snug {

/// Pages of the host, which end where nothing may be touched. Drivers copy slower with them than
/// with memory that they allocate.
class PlainStaging : public StagingMemory {
 public:
  PlainStaging(MemoryClaim claim, std::uint64_t count, std::string_view whose)
      : claim_(std::move(claim)), pages_(count, PROT_READ | PROT_WRITE) {
    if (!pages_.data)
      fail_memory({.needed = count},
                  fmt::format("the system refused {} bytes for {}", count, whose));
    data = pages_.data;
    bytes = count;
  }

 private:
  MemoryClaim claim_;
  Pages pages_;
};

}  // namespace snug
