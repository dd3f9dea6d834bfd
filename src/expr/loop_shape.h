#pragma once
#include <cstddef>
#include <cstdint>

#include "expr/attrs.h"

namespace snug {

/// What a loop is made of. Its operands are the number of iterations, sequences, states and what
/// all iterations see; its results the last states, then outputs. The body takes the index, an
/// element per sequence, the states, and the rest as it is.
struct LoopShape {
  std::size_t sequences = 0, states = 0, outputs = 0;
  /// An iteration sees ceil(rows / count) rows of each sequence (the last one fewer) instead of one
  /// element, and outputs are joined instead of stacked: the slices of a batch.
  bool blocks = false;

  static LoopShape of(const Attrs& loop) {
    const auto count = [&](const char* name) {
      return static_cast<std::size_t>(loop.integer(name));
    };
    return {count("n_seq"), count("n_state"), count("n_out"), loop.flag("blocks")};
  }
  Attrs attrs() const {
    return {{"n_seq", static_cast<std::int64_t>(sequences)},
            {"n_state", static_cast<std::int64_t>(states)},
            {"n_out", static_cast<std::int64_t>(outputs)},
            {"blocks", blocks}};
  }

  // Operands.
  std::size_t sequence(std::size_t k) const { return 1 + k; }
  std::size_t state(std::size_t k) const { return 1 + sequences + k; }
  std::size_t first_seen_by_all() const { return state(states); }
};

}  // namespace snug
