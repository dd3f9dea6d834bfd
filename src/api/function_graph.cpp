#include "api/function_graph.h"

#include <fmt/format.h>

#include <unordered_set>

namespace snug {

std::string FunctionGraph::name_of_input(std::size_t i) const {
  const bool named = i < input_names.size() && !input_names[i].empty();
  return named ? input_names[i] : fmt::format("input {}", i);
}

void FunctionGraph::find_shared() {
  std::unordered_set<std::uint32_t> updated;
  for (const Update& u : graph.updates()) updated.insert(u.input);
  for (std::uint32_t i = 0; i < graph.inputs().size(); ++i)
    if (SharedVariable* s = graph.inputs()[i].shared.get())
      shared.push_back({i, s, updated.count(i) != 0});
}

std::vector<Dims> FunctionGraph::shared_shapes() const {
  std::vector<Dims> shapes;
  for (const Shared& s : shared) shapes.push_back(s.variable->shape());
  return shapes;
}

SizeSources FunctionGraph::size_sources(std::span<const Dims> shapes,
                                        const Function::Values& values) const {
  SizeSources from{{shapes.begin(), shapes.end()},
                   values,
                   Function::Values(shared.size()),
                   std::vector<bool>(argument_count, false)};
  from.shapes.resize(argument_count);  // values of a first stage are 0-d
  for (std::size_t i = 0; i < shared.size(); ++i) {
    SharedVariable& v = *shared[i].variable;
    const ReadLock reader(v);
    const Array* value = v.value_if_materialised();
    from.shapes.push_back(v.shape_locked());
    if (value && value->shape.empty() && is_discrete(value->dtype))
      from.shared_values[i] = value->at_int(0);
  }
  return from;
}

}  // namespace snug
