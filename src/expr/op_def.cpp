#include "expr/op_def.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "expr/shape_text.h"

namespace snug {
namespace {

constexpr std::size_t kMaxElements = 64;  // longer integer vectors are data, not sizes
constexpr SizeId kNone = SizeTable::kNoSize;

/// The value of `a` in an integer type of at most 32 bits, which wraps.
SizeId wrapped(SizeTable& t, SizeId a, DType dtype) {
  SizeId range = t.constant(std::int64_t{1} << 8 * size_of(dtype));
  SizeId low = is_signed_int(dtype) ? t.floor_div(range, t.constant(2)) : t.zero();
  return t.sub(t.mod(t.add(a, low), range), low);
}

bool is_narrow(DType t) { return is_int(t) && size_of(t) < 4; }

/// Sizes hold values of 8 and 16 bits as they are. Those of 32 bits are right modulo 2^32 only, so
/// that `cast(n, int32) + 1` stays as plain as n + 1; what depends on more than that asks here.
SizeId exact(SizeTable& t, SizeId a, DType dtype) {
  bool plain = !is_int(dtype) || size_of(dtype) != 4 || t.node(a).op == SizeOp::Symbol;
  return plain ? a : wrapped(t, a, dtype);
}

/// uint64 has an order that int64 has not.
bool is_ordered(const SizeTable& t, SizeId a, DType dtype) {
  return dtype != DType::U64 || t.known(a).value_or(-1) >= 0;
}

SizeId symbolic_cast(SizeTable& t, DType from, DType to, SizeId a) {
  if (is_float(from) || is_float(to)) return kNone;
  if (to == DType::Bool) return t.sub(t.one(), t.equal(exact(t, a, from), t.zero()));
  if (size_of(to) == 4) return a;
  if (size_of(to) == 8) return exact(t, a, from);
  bool holds_all = from == to || from == DType::Bool ||
                   (size_of(from) < size_of(to) && (is_signed_int(to) || !is_signed_int(from)));
  return holds_all ? a : wrapped(t, a, to);
}

/// Instructions that give the same whatever multiple of 2^32 is added to an operand.
SizeId symbolic_ring(SizeTable& t, const Instr& in, SizeId a, SizeId b) {
  switch (in.prim) {
    case Prim::Add: return in.dtype == DType::Bool ? kNone : t.add(a, b);
    case Prim::Sub: return in.dtype == DType::Bool ? kNone : t.sub(a, b);
    case Prim::Mul: return t.mul(a, b);
    case Prim::Neg: return t.sub(t.zero(), a);
    case Prim::Sqr: return t.mul(a, a);
    default: return kNone;
  }
}

/// Instructions that need the values of their operands.
SizeId symbolic_order(SizeTable& t, Prim prim, SizeId a, SizeId b) {
  switch (prim) {
    case Prim::FloorDiv: return t.floor_div(a, b);
    case Prim::Mod: return t.mod(a, b);
    case Prim::Min: return t.min(a, b);
    case Prim::Max: return t.max(a, b);
    case Prim::Abs: return t.max(a, t.sub(t.zero(), a));
    case Prim::Lt: return t.less(a, b);
    case Prim::Gt: return t.less(b, a);
    case Prim::Le: return t.sub(t.one(), t.less(b, a));
    case Prim::Ge: return t.sub(t.one(), t.less(a, b));
    case Prim::Eq: return t.equal(a, b);
    case Prim::Ne: return t.sub(t.one(), t.equal(a, b));
    default: return kNone;
  }
}

/// One scalar instruction over size expressions; kNone if sizes cannot express it.
SizeId symbolic(SizeTable& t, const Instr& in, DType operand, SizeId a, SizeId b, SizeId c) {
  switch (in.prim) {
    case Prim::Const: return is_float(in.dtype) ? kNone : t.constant(in.integer);
    case Prim::And: return in.dtype == DType::Bool ? t.mul(a, b) : kNone;
    case Prim::Or: return in.dtype == DType::Bool ? t.max(a, b) : kNone;
    case Prim::Not: return in.dtype == DType::Bool ? t.sub(t.one(), a) : kNone;
    case Prim::Select: return t.select(a, b, c);
    case Prim::Cast: return symbolic_cast(t, operand, in.dtype, a);
    default: break;
  }
  SizeId id = symbolic_ring(t, in, a, b);
  if (id == kNone) {
    bool binary = operand_count(in.prim) == 2;
    if (!is_ordered(t, a, operand) || (binary && !is_ordered(t, b, operand))) return kNone;
    id = symbolic_order(t, in.prim, exact(t, a, operand), binary ? exact(t, b, operand) : a);
  }
  bool stays = in.prim == Prim::Mod || in.prim == Prim::Min || in.prim == Prim::Max;
  return id != kNone && is_narrow(in.dtype) && !stays ? wrapped(t, id, in.dtype) : id;
}

std::vector<SizeId> elementwise_elements(const Infer& f, const Type& out) {
  if (is_float(out.dtype) || out.ndim() > 1 || has(f.op, kGenerator)) return {};
  std::size_t count = 1;
  if (out.ndim() == 1) {
    auto n = f.sizes.known(out.dims[0]);
    if (!n || *n < 0 || *n > static_cast<std::int64_t>(kMaxElements)) return {};
    count = static_cast<std::size_t>(*n);
  }
  ScalarBuilder builder;
  builder.result = out.dtype;
  for (std::size_t i = 0; i < f.count(); ++i) {
    if (f.elements(i).empty()) return {};
    builder.arg_types.push_back(f.in(i).dtype);
  }
  Scalar result = f.op.scalar(builder, f.attrs);
  std::vector<SizeId> elements;
  std::vector<SizeId> values(builder.body.size());
  for (std::size_t k = 0; k < count; ++k) {
    for (std::size_t j = 0; j < builder.body.size(); ++j) {
      const Instr& in = builder.body[j];
      if (in.prim == Prim::Arg) {
        auto e = f.elements(static_cast<std::size_t>(in.integer));
        if (e.size() != 1 && e.size() != count) return {};
        values[j] = e[e.size() == 1 ? 0 : k];
        continue;
      }
      DType operand = operand_count(in.prim)
                          ? builder.body[in.prim == Prim::Select ? in.b : in.a].dtype
                          : in.dtype;
      values[j] = symbolic(f.sizes, in, operand, values[in.a], values[in.b], values[in.c]);
      if (values[j] == kNone) return {};
    }
    elements.push_back(values[result.id]);
  }
  return elements;
}

}  // namespace

void run_infer(Infer& f) {
  if (f.op.arity >= 0 && static_cast<int>(f.count()) != f.op.arity)
    f.error(Fault::Type, fmt::format("takes {} arguments, got {}", f.op.arity, f.count()));
  f.op.infer(f);
  SNUG_CHECK(!f.results.empty() || f.op.outputs == 0, "{}: the rule gave no result", f.op.name);
  for (Infer::Result& r : f.results) {
    SNUG_CHECK(r.type.broadcast >> r.type.dims.size() == 0,
               "{}: more broadcastable axes than dimensions", f.op.name);
    for (std::size_t axis = 0; axis < r.type.dims.size(); ++axis)
      SNUG_CHECK(!r.type.broadcastable(axis) || f.sizes.is(r.type.dims[axis], 1),
                 "{}: a broadcastable axis of size other than 1", f.op.name);
  }
  if (has(f.op, kElementwise) && f.op.scalar && f.results[0].elements.empty())
    f.results[0].elements = elementwise_elements(f, f.results[0].type);
}

SizeId Infer::size_element(std::size_t i, std::size_t element) {
  if (i >= count()) error(Fault::Type, fmt::format("argument {} is missing", i + 1));
  if (element < input_elements[i].size()) return input_elements[i][element];
  if (is_float(in(i).dtype))
    error(Fault::Type,
          fmt::format("a size must be an integer, argument {} is {}", i + 1, name_of(in(i).dtype)));
  return stage_symbol(i, element);
}

void Infer::out(Type type, std::vector<SizeId> elements) {
  if (elements.size() > kMaxElements) elements.clear();
  results.push_back({type, std::move(elements)});
}

SizeId Infer::runtime_size(SizeId high) {
  if (!known_runtime.empty()) {
    SizeId id = known_runtime.front();
    known_runtime.erase(known_runtime.begin());
    return id;
  }
  Symbol s;
  s.kind = Symbol::Kind::Runtime;
  s.low = sizes.zero();
  s.high = high;
  return sizes.symbol(s);
}

namespace {
/// The message behind the op's name, unless it starts with the name of the public function that
/// users know the op by: "set_subtensor: ...".
std::string titled(const OpDef& op, const std::string& message) {
  std::size_t colon = 0;
  while (colon < message.size() &&
         (std::isalnum(static_cast<unsigned char>(message[colon])) || message[colon] == '_'))
    ++colon;
  if (colon > 0 && colon < message.size() && message[colon] == ':') return message;
  return fmt::format("{}: {}", op.name, message);
}

std::vector<Dims> known_shapes(const SizeTable& sizes, const std::vector<SizeDims>& shapes) {
  std::vector<Dims> out;
  for (const SizeDims& dims : shapes) {
    Dims& d = out.emplace_back();
    for (SizeId id : dims) d.push_back(sizes.known(id).value_or(kUnknownSize));
  }
  return out;
}

/// The shapes of the first operands; those that only decide sizes say nothing.
std::vector<SizeDims> shown_shapes(const Infer& f) {
  std::size_t count = std::min<std::size_t>(f.count(), 3);
  if (f.op.size_inputs_from >= 0)
    count = std::min(count, static_cast<std::size_t>(f.op.size_inputs_from));
  std::vector<SizeDims> shapes;
  for (std::size_t i = 0; i < count; ++i) shapes.push_back(f.in(i).dims);
  return shapes;
}
}  // namespace

void Infer::error(Fault fault, std::string message, std::string hint) const {
  fail(fault, titled(op, message), std::move(hint));
}

void Infer::require_equal(SizeId a, SizeId b, std::string message, std::string hint) {
  if (a == b) return;
  std::vector<SizeDims> shapes = shown_shapes(*this);
  if (sizes.known(a) && sizes.known(b)) {
    const std::vector<Dims> known = known_shapes(sizes, shapes);
    error(Fault::Shape, with_shapes(message, known), fill_shapes(hint, known));
  }
  requirements.push_back(
      {a, b, true, titled(op, message), std::move(hint), std::move(shapes), current_origin()});
}

void Infer::require_at_most(SizeId a, SizeId b, std::string message, std::string hint,
                            Fault fault) {
  if (a == b) return;
  std::vector<SizeDims> shapes = shown_shapes(*this);
  if (sizes.known(a) && sizes.known(b)) {
    if (*sizes.known(a) <= *sizes.known(b)) return;
    const std::vector<Dims> known = known_shapes(sizes, shapes);
    error(fault, with_shapes(message, known), fill_shapes(hint, known));
  }
  requirements.push_back({a, b, false, titled(op, message), std::move(hint), std::move(shapes),
                          current_origin(), fault});
}

void Infer::require_ndim(std::size_t i, int ndim) const {
  if (in(i).ndim() != ndim)
    error(Fault::Type, fmt::format("argument {} must have {} dimension{}, it has {}", i + 1, ndim,
                                   ndim == 1 ? "" : "s", in(i).ndim()));
}

Layout contiguous_layout(SizeTable& sizes, const SizeDims& dims) {
  Layout layout;
  layout.strides.resize(dims.size(), sizes.one());
  for (std::size_t i = dims.size(); i-- > 1;)
    layout.strides[i - 1] = sizes.mul(layout.strides[i], dims[i]);
  return layout;
}

bool is_contiguous(SizeTable& sizes, const SizeDims& dims, const Layout& layout) {
  SizeId expected = sizes.one();
  for (std::size_t i = dims.size(); i-- > 0;) {
    if (!sizes.is(dims[i], 1) && layout.strides[i] != expected) return false;
    expected = sizes.mul(expected, dims[i]);
  }
  return true;
}

RefTensor RefTensor::zeros(DType dtype, const Dims& shape) {
  RefTensor t;
  t.dtype = dtype;
  t.shape = shape;
  if (is_float(dtype))
    t.f.assign(static_cast<std::size_t>(product(shape)), 0.0);
  else
    t.i.assign(static_cast<std::size_t>(product(shape)), 0);
  return t;
}

RefTensor RefTensor::from(const Array& a) {
  RefTensor t = zeros(a.dtype, a.shape);
  for (std::int64_t k = 0, n = a.size(); k < n; ++k)
    t.set(k, t.floating() ? Number{a.at_double(k), 0} : Number{0, a.at_int(k)});
  if (a.dtype == DType::Bool)
    for (std::int64_t& i : t.i) i = i != 0;
  return t;
}

Array RefTensor::to_array() const {
  Array a = Array::empty(dtype, shape);
  for (std::int64_t k = 0, n = size(); k < n; ++k)
    floating() ? a.set_double(k, f[k]) : a.set_int(k, i[k]);
  return a;
}

}  // namespace snug
