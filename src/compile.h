#pragma once
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "exec/executable.h"
#include "exec/frontier_cache.h"
#include "passes.h"
#include "place/place.h"
#include "plan/fit.h"

namespace snug {

/// What each stage made, for `explain`.
struct CompileTrace {
  PassTrace passes;
  PlaceTrace place;
  Graph placed;
  double capture_seconds = 0, rewrite_seconds = 0, place_seconds = 0, fuse_seconds = 0,
         code_seconds = 0;
};

/// Graph -> Program: once per function. It can be planned with, and run once it has code.
std::unique_ptr<Lowered> lower(const Graph& captured, const CompileOptions& options,
                               CompileTrace& trace);
/// Machine code for all kernels, those of loop bodies included.
void generate_code(Lowered& lowered, CompileTrace& trace);

/// No plan that was found keeps to the budget. `needed` is that of the lowest plan, or the bound of
/// all.
class OverBudget : public MemoryError {
 public:
  OverBudget(std::uint64_t needed, std::uint64_t budget, double plain_seconds,
             const std::string& message, const std::string& hint = {})
      : MemoryError(message, hint, {.needed = needed, .allowed = budget}),
        plain_seconds_(plain_seconds) {}
  double plain_seconds() const { return plain_seconds_; }  // predicted, if every task runs once
  [[noreturn]] void raise() const override { throw *this; }

 private:
  double plain_seconds_;
};

/// Program -> plan -> Executable: once per set of sizes. A plan of `earlier` that is large enough
/// is used again. Throws OverBudget. `fixed_bytes`: what the budget covers besides the arena.
/// `user`: for whom frontiers are kept; null: they are not.
std::unique_ptr<Executable> instantiate(const Lowered& lowered, SizeBounds bounds, CallKind kind,
                                        std::uint64_t fixed_bytes, const CompileOptions& options,
                                        std::span<const std::shared_ptr<const Planned>> earlier,
                                        const std::shared_ptr<FrontierUser>& user = nullptr);

/// The libraries that compute an op on the host, the first choice first.
std::vector<std::string_view> libraries_of(const OpDef& op);

}  // namespace snug
