#include "kernel/body_builder.h"

#include <algorithm>

namespace snug {
namespace {

std::optional<Instr> scalar_constant(const Program& p, Value root) {
  const Node& n = p.graph.node(root);
  if (!has(*n.op, kLeaf) || !n.attrs.has("value")) return std::nullopt;
  const Array& a = *n.attrs.array("value");
  if (a.size() != 1) return std::nullopt;
  Instr in{Prim::Const, a.dtype};
  if (is_float(a.dtype))
    in.number = a.at_double(0);
  else
    in.integer = a.at_int(0);
  return in;
}

}  // namespace

BodyBuilder::BodyBuilder(const Program& program, const Cluster& cluster, SizeTable& sizes)
    : p_(program), g_(program.graph), c_(cluster), sizes_(sizes) {
  for (bool reduced : {false, true}) {
    for (std::size_t i = 0; i < c_.space.size(); ++i)
      if (!sizes_.is(c_.space[i], 1) && (c_.reduced >> i & 1) == reduced)
        axes.push_back(static_cast<int>(i));
    if (!reduced) outer = static_cast<std::uint32_t>(axes.size());
  }
  inner = axes.size() > outer;
  kernel_axis_.assign(c_.space.size(), -1);
  for (std::size_t i = 0; i < axes.size(); ++i) kernel_axis_[axes[i]] = static_cast<int>(i);
  find_times();
}

void BodyBuilder::find_times() {
  for (std::uint32_t id : c_.nodes) {
    const Node& n = g_.node(id);
    bool reduction = has(*n.op, kReduction);
    bool full = reduction || covers_reduced(c_.maps.at(id));
    int time = full ? 0 : -1;
    for (Value v : n.inputs) {
      std::uint32_t base = base_of(v);
      if (!c_.maps.count(base)) continue;
      int t = times_.at(base);
      bool odd = t % 2 != 0;
      time = std::max(time, full && odd ? t + 1 : t);
    }
    if (!full && time % 2 == 0) ++time;
    times_[id] = reduction ? time + 1 : time;
  }
}

/// Whether a member is computed in the inner loops.
bool BodyBuilder::covers_reduced(const AxisMap& map) const {
  if (!inner) return true;
  for (int axis : map)
    if (axis >= 0 && (c_.reduced >> axis & 1)) return true;
  return false;
}

/// The member that `v` is a view of, else the value whose memory is read or that is computed again.
std::uint32_t BodyBuilder::base_of(Value v) const {
  auto member = [&](Value w) { return c_.maps.count(w.node) != 0; };
  auto view = [&](Value w) { return has(*g_.node(w).op, kView); };
  while (!p_.places.count(v) && !member(v) && view(v)) v = g_.node(v).inputs[0];
  // A view whose base is a member that has memory: the member itself is what is read.
  Value w = v;
  while (view(w) && !member(w)) w = g_.node(w).inputs[0];
  return member(w) ? w.node : v.node;
}

void BodyBuilder::store(std::uint32_t id) {
  const Type& type = g_.node(id).types[0];
  Instr in{Prim::Store, type.dtype, member(id, time_of(id))};
  in.integer = operand({id, 0}, contiguous_layout(sizes_, type.dims), type, c_.maps.at(id), true);
  body.push_back({in, time_of(id)});
}

std::uint32_t BodyBuilder::push(Instr in, int time) {
  if (in.prim != Prim::Store)
    for (std::size_t i = body.size(); i-- > 0;)
      if (body[i].instr == in &&
          (body[i].time == time ||
           (body[i].time % 2 != 0 && body[i].time < time && in.prim != Prim::Load)))
        return static_cast<std::uint32_t>(i);
  body.push_back({in, time});
  return static_cast<std::uint32_t>(body.size() - 1);
}

std::uint32_t BodyBuilder::member(std::uint32_t id, int time) {
  int own = time_of(id);
  int at = inner && own % 2 == 0 ? time : own;
  Key key{id, at, {}};
  if (auto it = memo_.find(key); it != memo_.end()) return it->second;
  const Node& n = g_.node(id);
  std::uint32_t result =
      has(*n.op, kReduction) ? reduction(id, n, own) : elementwise(n, c_.loops.at(id), at);
  memo_[key] = result;
  return result;
}

std::uint32_t BodyBuilder::reduction(std::uint32_t id, const Node& n, int time) {
  auto op = static_cast<ReduceOp>(n.attrs.integer("reduce"));
  bool arg = op == ReduceOp::ArgMax || op == ReduceOp::ArgMin;
  int at = inner ? time - 1 : -1;
  std::uint32_t x = value(n.inputs[0], c_.loops.at(id), at);
  DType in_type = body[x].instr.dtype;
  DType acc = arg ? in_type : n.attrs.dtype("acc");
  if (in_type != acc) x = push({Prim::Cast, acc, x}, at);
  std::uint32_t r;
  if (!inner) {  // only axes of size 1 are folded
    r = arg ? push({Prim::Const, DType::I64}, at) : x;
  } else {
    Instr in{Prim::Reduce, arg ? DType::I64 : acc, x};
    in.integer = static_cast<std::int64_t>(op);
    body.push_back({in, at});
    r = static_cast<std::uint32_t>(body.size() - 1);
    reduces = true;
  }
  DType out = n.types[0].dtype;
  return body[r].instr.dtype == out ? r : push({Prim::Cast, out, r}, time);
}

std::uint32_t BodyBuilder::elementwise(const Node& n, const AxisMap& loop, int time) {
  ScalarBody scalar = scalar_body(g_, n);
  std::vector<std::uint32_t> id(scalar.instrs.size());
  for (std::size_t j = 0; j < id.size(); ++j) {
    Instr in = scalar.instrs[j];
    if (in.prim == Prim::Arg) {
      id[j] = value(n.inputs[static_cast<std::size_t>(in.integer)], loop, time);
      continue;
    }
    if (in.prim == Prim::Index) {
      int axis = loop[static_cast<std::size_t>(in.integer)];
      if (axis < 0 || kernel_axis_[axis] < 0)
        in = Instr{Prim::Const, DType::I64};
      else
        in.integer = kernel_axis_[axis];
    }
    id[j] = push(renamed_operands(in, id), time);
  }
  return id[scalar.result];
}

/// The value of `v` at the current point; axis j of v runs along cluster axis loop[j].
std::uint32_t BodyBuilder::value(Value v, AxisMap loop, int time) {
  if (std::uint32_t base = base_of(v); c_.maps.count(base)) return member(base, time);
  for (;; v = g_.node(v).inputs[0]) {
    const Type& type = p_.type(v);
    for (std::size_t j = 0; j < type.dims.size(); ++j)
      if (type.broadcastable(j) || sizes_.is(type.dims[j], 1)) loop[j] = kUnitAxis;
    if (auto place = p_.places.find(v); place != p_.places.end())
      return load(place->second, type, loop, time);
    if (!has(*g_.node(v).op, kIndexView)) break;
    loop = below_view(g_, v.node, loop);
  }
  Key key{v.node, time, {loop.begin(), loop.end()}};
  if (auto it = memo_.find(key); it != memo_.end()) return it->second;
  return memo_[key] = elementwise(g_.node(v), loop, time);  // cheap to compute again
}

std::uint32_t BodyBuilder::load(const Place& place, const Type& type, const AxisMap& loop,
                                int time) {
  if (auto constant = scalar_constant(p_, place.root)) return push(*constant, time);
  Instr in{Prim::Load, type.dtype};
  in.integer = operand(place.root, place.layout, type, loop, false);
  return push(in, time);
}

std::uint32_t BodyBuilder::operand(Value root, const Layout& layout, const Type& type,
                                   const AxisMap& loop, bool write) {
  BodyOperand o{root, layout.offset, type.dtype, write,
                std::vector<SizeId>(axes.size(), sizes_.zero())};
  for (std::size_t j = 0; j < type.dims.size(); ++j) {
    if (loop[j] < 0 || sizes_.is(type.dims[j], 1)) continue;
    int axis = kernel_axis_[loop[j]];
    if (axis >= 0) o.strides[axis] = layout.strides[j];
  }
  for (std::size_t i = 0; i < operands.size(); ++i)
    if (operands[i] == o) return static_cast<std::uint32_t>(i);
  operands.push_back(std::move(o));
  return static_cast<std::uint32_t>(operands.size() - 1);
}

}  // namespace snug
