#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "api/memory_report.h"
#include "exec/executable.h"

namespace snug {

/// A part of the arena at the step of the peak.
struct ArenaPiece {
  std::uint64_t bytes = 0;  // as the plan keeps them: aligned, and of what it took over
  ArenaClass what = ArenaClass::Temporaries;
  std::string op;  // that made it, in the words of users
  DType dtype = DType::F32;
  Dims shape;
  OriginId origin = 0;
};

/// Who has an arena of a plan.
struct ArenaUse {
  std::array<std::uint64_t, kArenaClasses> at_peak = {}, most = {};
  std::uint64_t gap = 0;
  std::vector<ArenaPiece> alive;    // at the peak, the largest first; with the gap: the arena
  std::uint64_t all_gradients = 0;  // sum over all of them
  std::string gradients_wait;       // why all gradients are alive at once; "" if they are not
  Slices slices;                    // that the batch runs in
  std::uint64_t accumulators = 0;   // of what is summed up over them
};
ArenaUse arena_use(const Executable& executable, Space space = kHostSpace);

/// Per input of the graph: a shared variable that is state of an optimizer. It is none if an output
/// or a derivative depends on its value; it is one if its new value depends on a derivative, or if
/// the new value of such a variable depends on it.
std::vector<bool> optimizer_state(const Graph& graph);

}  // namespace snug
