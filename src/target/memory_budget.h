#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace snug {

/// What counts against the budget of the process, in bytes. What callers hold (arguments, results,
/// arrays of NumPy) and what code and libraries take does not.
struct MemoryAccount {
  std::uint64_t budget = 0;   // 0: none
  std::uint64_t shared = 0;   // shared variables, also their memory that others still hold
  std::uint64_t arenas = 0;   // of functions, idle ones included
  std::uint64_t loaders = 0;  // what loaders may take for their queues
  std::uint64_t total() const { return shared + arenas + loaders; }
  /// Freed blocks (base/kept_blocks.h): within the budget, too, but they give way to all else.
  std::uint64_t kept = 0;
};
MemoryAccount memory_account();

/// What all of that together may take from now on (`config.memory`), and likewise all that is in
/// the memory of each other device; 0: no limit. What is there already stays, even if it is more.
void set_memory_budget(std::uint64_t bytes);
/// "3GiB", or of each: "opencl:0=3GiB,cpu=8GiB"; "": no limit.
void set_memory_budget(const std::string& budgets);
std::uint64_t memory_budget();
std::uint64_t device_memory_budget(std::string_view device);

/// Called where the budget is too small even without kept blocks, before that is an error: gives
/// back what nobody uses.
void set_memory_reclaimer(void (*reclaim)());

/// Bytes that count against the budget as long as this lives. Threads may make claims at once.
class MemoryClaim {
 public:
  enum class Kind : std::uint8_t {
    Shared,  // for the time until the storage counts itself
    Arena,
    Loader,
  };
  explicit MemoryClaim(Kind kind) : kind_(kind) {}
  /// A Memory error, before anything changes, if the budget does not allow `bytes`.
  MemoryClaim(Kind kind, std::uint64_t bytes, std::string_view what) : kind_(kind) {
    grow(bytes, what);
  }
  ~MemoryClaim() { drop(); }
  MemoryClaim(MemoryClaim&& other) noexcept
      : kind_(other.kind_), bytes_(std::exchange(other.bytes_, 0)) {}
  MemoryClaim& operator=(MemoryClaim&&) = delete;

  void grow(std::uint64_t more, std::string_view what);
  void drop() noexcept;

 private:
  Kind kind_;
  std::uint64_t bytes_ = 0;
};

/// The error of a claim if `bytes` more were above the budget now.
void require_memory_budget(std::uint64_t bytes, std::string_view what);

/// While one lives, what its thread takes counts but is not refused: for measuring the machine.
class WithoutMemoryBudget {
 public:
  WithoutMemoryBudget();
  ~WithoutMemoryBudget();
  WithoutMemoryBudget(const WithoutMemoryBudget&) = delete;
  WithoutMemoryBudget& operator=(const WithoutMemoryBudget&) = delete;
};

}  // namespace snug
