#include "rewrite/values.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

namespace snug {

const Array* constant_of(const Builder& b, Value v) {
  const Node& node = b.node(v);
  return has(*node.op, kLeaf) && node.attrs.has("value") ? node.attrs.array("value").get()
                                                         : nullptr;
}

const Array* scalar_of(const Builder& b, Value v) {
  for (;;) {
    if (const Array* value = constant_of(b, v)) return value->size() == 1 ? value : nullptr;
    const Node& node = b.node(v);
    if (!has(*node.op, kIndexView)) return nullptr;
    v = node.inputs[0];
  }
}

bool constant_like(const Builder& b, Value v) {
  while (is(b, v, "dimshuffle") || is(b, v, "rebroadcast")) v = operand(b, v, 0);
  return constant_of(b, v) != nullptr;
}

bool is_number(const Builder& b, Value v, double number) {
  const Array* value = scalar_of(b, v);
  if (!value) return false;
  if (is_float(value->dtype)) {
    double x = value->at_double(0);
    return x == number && std::signbit(x) == std::signbit(number);
  }
  if (std::signbit(number) && number == 0) return false;
  std::int64_t x = value->at_int(0);
  return std::fabs(number) < 1e15 && static_cast<double>(x) == number;
}

Value call(Builder& b, std::string_view op, std::vector<Value> inputs, Attrs attrs) {
  return b.add(find_op(op), std::move(inputs), std::move(attrs));
}

Value number(Builder& b, double value, DType dtype, int ndim) {
  Value c = b.constant(value, Type{dtype, {}, 0});
  return ndim == 0 ? c : dimshuffle(b, c, Attrs::Ints(static_cast<std::size_t>(ndim), -1));
}

Value dimshuffle(Builder& b, Value x, const Attrs::Ints& pattern) {
  bool same = static_cast<int>(pattern.size()) == b.type(x).ndim();
  for (std::size_t i = 0; i < pattern.size() && same; ++i)
    same = pattern[i] == static_cast<std::int64_t>(i);
  return same ? x : call(b, "dimshuffle", {x}, Attrs{{"pattern", pattern}});
}

Value cast(Builder& b, Value x, DType dtype) {
  return b.type(x).dtype == dtype ? x : call(b, "cast", {x}, Attrs{{"dtype", dtype}});
}

Value reduce(Builder& b, std::string_view op, ReduceOp kind, Value x, const Attrs::Ints& axes,
             DType acc) {
  return call(b, op, {x},
              Attrs{{"axes", axes},
                    {"reduce", static_cast<std::int64_t>(kind)},
                    {"dtype", b.type(x).dtype},
                    {"acc", acc}});
}

Value keep_axes(Builder& b, Value reduced, const Attrs::Ints& axes, int ndim) {
  Attrs::Ints pattern;
  std::int64_t next = 0;
  for (std::int64_t axis = 0; axis < ndim; ++axis)
    pattern.push_back(std::find(axes.begin(), axes.end(), axis) != axes.end() ? -1 : next++);
  return dimshuffle(b, reduced, pattern);
}

namespace {

/// Writes size expressions as int64 values of the graph that ask the inputs only.
class SizeWriter {
 public:
  explicit SizeWriter(Builder& b) : b_(b) {}

  /// Nothing if the size is decided while running, or too long to be worth it.
  std::optional<Value> write(SizeId id) {
    if (auto it = done_.find(id); it != done_.end()) return it->second;
    if (++steps_ > kMaxSteps) return std::nullopt;
    const SizeNode n = b_.sizes().node(id);
    std::optional<Value> v;
    if (n.op == SizeOp::Const) {
      v = b_.constant(static_cast<double>(n.value), Type{DType::I64, {}, 0});
      if (static_cast<std::int64_t>(static_cast<double>(n.value)) != n.value) return std::nullopt;
    } else if (n.op == SizeOp::Symbol) {
      v = symbol(b_.sizes().symbol_of(id));
    } else {
      std::optional<Value> x = write(n.a), y = x ? write(n.b) : std::nullopt;
      if (!x || !y) return std::nullopt;
      if (n.op == SizeOp::Select) {
        std::optional<Value> z = write(n.c);
        if (!z) return std::nullopt;
        v = call(b_, "switch", {*x, *y, *z});
      } else {
        v = call(b_, op_of(n.op), {*x, *y});
      }
    }
    if (v) done_[id] = *v;
    return v;
  }

 private:
  static constexpr int kMaxSteps = 64;  // also bounds the recursion

  static std::string_view op_of(SizeOp op) {
    switch (op) {
      case SizeOp::Add: return "add";
      case SizeOp::Sub: return "sub";
      case SizeOp::Mul: return "mul";
      case SizeOp::FloorDiv: return "floor_div";
      case SizeOp::Mod: return "mod";
      case SizeOp::Min: return "minimum";
      case SizeOp::Max: return "maximum";
      case SizeOp::Less: return "lt";
      default: return "eq";
    }
  }

  std::optional<Value> symbol(const Symbol& s) {
    Value input{s.input, 0};  // inputs come first
    if (s.kind == Symbol::Kind::Dim) {
      Value axis = b_.constant(s.index, Type{DType::I64, {}, 0});
      return call(b_, "slice", {call(b_, "shape", {input}), axis},
                  Attrs{{"spec", Attrs::Ints{1, 1, 0, 0}}});
    }
    if (s.kind == Symbol::Kind::Element && b_.type(input).ndim() == 0)
      return cast(b_, input, DType::I64);
    return std::nullopt;
  }

  Builder& b_;
  std::unordered_map<SizeId, Value> done_;
  int steps_ = 0;
};

}  // namespace

std::optional<Value> shape_vector(Builder& b, const SizeDims& dims) {
  // The shape of an input of these very sizes is the shorter way to say it.
  for (std::uint32_t k = 0; k < b.size() && has(*b.node({k, 0}).op, kLeaf); ++k)
    if (b.type({k, 0}).dims == dims && !dims.empty()) return call(b, "shape", {{k, 0}});
  if (dims.empty()) return b.constant(std::make_shared<const Array>(Array::zeros(DType::I64, {0})));
  SizeWriter writer(b);
  std::vector<Value> sizes;
  for (SizeId d : dims) {
    std::optional<Value> v = writer.write(d);
    if (!v) return std::nullopt;
    sizes.push_back(*v);
  }
  return call(b, "make_vector", std::move(sizes));
}

std::optional<Value> size_value(Builder& b, SizeId size) { return SizeWriter(b).write(size); }

std::optional<Value> stretch(Builder& b, Value x, const Type& like) {
  std::optional<Value> shape = shape_vector(b, like.dims);
  if (!shape) return std::nullopt;
  Value v = call(b, "broadcast_to", {x, *shape},
                 Attrs{{"broadcast", static_cast<std::int64_t>(like.broadcast)}});
  if (!(b.type(v).dims == like.dims)) return std::nullopt;
  return v;
}

}  // namespace snug
