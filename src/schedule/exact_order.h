#pragma once
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace snug {

/// Which order of tasks keeps the largest sum of live bytes lowest. Apart from Program, so that it
/// can be tested alone.
struct OrderProblem {
  struct Value {
    std::uint64_t bytes = 0;
    bool given = false;  // there before the first task
    bool kept = false;   // to the end; else up to its last read
  };
  struct Task {
    std::vector<std::uint32_t> reads, writes;  // values; reads are distinct
    std::uint64_t workspace = 0;               // bytes while it runs
    /// Write k may take over the storage of read j, if that dies here: pairs (k, j), best first.
    std::vector<std::pair<std::uint32_t, std::uint32_t>> in_place = {};
    std::vector<std::uint32_t> before = {};  // tasks that come before it
  };
  std::vector<Value> values;
  std::vector<Task> tasks;
};

struct ExactOrder {
  std::vector<std::uint32_t> tasks;
  std::uint64_t peak = 0;  // no order has a lower one
};

/// Looks at sets of tasks that are done, the ones reached with the lowest peak first. None if there
/// are more than kMaxExactTasks tasks, or if it takes more than `max_sets`.
inline constexpr std::size_t kMaxExactTasks = 64;
std::optional<ExactOrder> exact_order(const OrderProblem& problem, std::size_t max_sets);

/// The largest sum of live bytes of an order.
std::uint64_t peak_of_order(const OrderProblem& problem, const std::vector<std::uint32_t>& tasks);

}  // namespace snug
