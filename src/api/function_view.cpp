// The compiled graph as expressions.
#include "api/function_impl.h"
#include "base/origin_marks.h"
#include "kernel/device.h"

namespace snug {
namespace {

TensorType shown_type(const SizeTable& sizes, const Type& t) {
  TensorType out{t.dtype, {}, t.broadcast};
  for (SizeId d : t.dims) out.shape.push_back(sizes.known(d).value_or(-1));
  return out;
}

/// Nodes are shown with the types they have: nothing is inferred again, since sizes that a graph
/// knows are not known to an expression. Their origins have the marks of their devices.
std::vector<std::vector<Expr>> shown_nodes(const Graph& g, const DeviceList* devices) {
  std::vector<std::vector<Expr>> shown(g.nodes().size());
  for (const GraphInput& in : g.inputs()) {
    const Node& n = g.node(in.value);
    OriginOverride origin(n.origin);
    shown[in.value.node] = {in.shared ? Expr(Ref<Variable>(in.shared))
                                      : input(shown_type(g.sizes(), n.types[0]), in.name)};
  }
  for (std::size_t id = 0; id < g.nodes().size(); ++id) {
    if (!shown[id].empty()) continue;
    const Node& n = g.nodes()[id];
    OriginOverride origin(n.origin);
    if (n.op->name == "constant") {
      shown[id] = {constant(*n.attrs.array("value"))};
      continue;
    }
    Ref<Apply> apply(new Apply);
    apply->op = n.op;
    apply->attrs = n.attrs;
    apply->origin =
        with_device_mark(n.origin, devices && n.device ? (*devices)[n.device].info().name : "");
    for (Value x : n.inputs) apply->inputs.push_back(shown[x.node][x.output]);
    for (const Type& t : n.types) apply->types.push_back(shown_type(g.sizes(), t));
    for (std::size_t i = 0; i < n.types.size(); ++i) shown[id].push_back(apply->output(i));
  }
  return shown;
}

}  // namespace

Function::View FunctionImpl::view() {
  std::lock_guard lock(compile_mutex_);
  const Compiled::Made& made = strategy_->whole().current();
  const Graph& g = made.lowered ? made.trace.placed : function_->graph;
  const DeviceList* const devices = made.lowered ? made.lowered->devices.get() : nullptr;
  std::vector<std::vector<Expr>> shown = shown_nodes(g, devices);
  auto at = [&](Value v) { return shown[v.node][v.output]; };
  Function::View view;
  for (std::size_t i = 0; i < function_->argument_count; ++i)
    view.inputs.push_back(at(g.inputs()[i].value));
  for (Value v : g.outputs()) view.outputs.push_back(at(v));
  for (const Update& u : g.updates())
    view.updates.emplace_back(at(g.inputs()[u.input].value), at(u.value));
  return view;
}

}  // namespace snug
