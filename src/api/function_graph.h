#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "api/function.h"
#include "graph/graph.h"

namespace snug {

/// What sizes are made of.
struct SizeSources {
  std::vector<Dims> shapes;  // of the arguments, then of the shared variables
  Function::Values values, shared_values;
  std::vector<bool> copied;  // as CallKind has it
};

/// What a function is made from, the same for all ways to compile it.
struct FunctionGraph {
  struct Shared {
    std::uint32_t input;  // graph input
    SharedVariable* variable;
    bool written;
  };

  std::string name;
  std::vector<TensorType> input_types, output_types;
  std::vector<std::string> input_names;
  Graph graph;                 // as captured
  std::vector<Shared> shared;  // behind the arguments
  std::size_t argument_count = 0;
  /// The values that the first stage computes, the last arguments, in words; "": there is none.
  std::string stage_text;

  bool has_stage() const { return !stage_text.empty(); }
  std::string own_name() const { return name.empty() ? "the function" : name; }
  std::string name_of_input(std::size_t i) const;  // in texts

  /// Fills `shared` from the graph.
  void find_shared();
  std::vector<Dims> shared_shapes() const;
  /// Of no call: no argument is copied, and shared variables are as they are now.
  SizeSources size_sources(std::span<const Dims> shapes, const Function::Values& values) const;
  /// The part of the shapes that is of shared variables.
  std::vector<Dims> shared_shapes(const SizeSources& from) const {
    return {from.shapes.begin() + static_cast<std::ptrdiff_t>(argument_count), from.shapes.end()};
  }
};

}  // namespace snug
