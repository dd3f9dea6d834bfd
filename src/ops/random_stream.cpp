#include "ops/arguments.h"

namespace snug {
namespace {

/// A bijection of 64 bits in which every input bit reaches every output bit.
std::uint64_t mix(std::uint64_t x) {
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  x ^= x >> 32;
  x *= 0xd6e8feb86659fd93ull;
  return x ^ (x >> 32);
}

/// Where the states of draw number `draw` start; they count up from there.
std::uint64_t first_key(std::uint64_t seed, std::uint64_t draw) {
  return mix(mix(seed + 0x9e3779b97f4a7c15ull) + draw * 0x9e3779b97f4a7c15ull);
}

Expr random_of(const OpDef& op, const Expr& key, const Sizes& sizes, DType dtype) {
  return apply(op, {key, int64_constant(0), sizes.vector},
               {{"dtype", dtype}, {"broadcast", ones_mask(sizes.vector)}});
}

DType random_dtype(const char* what, std::optional<DType> given) {
  DType t = given.value_or(default_float());
  if (!is_float(t)) fail(Fault::Type, fmt::format("{}: {} is no float type", what, name_of(t)));
  return t;
}

}  // namespace

Expr RandomStream::key() {
  Expr state = shared(Array::scalar<std::uint64_t>(first_key(seed_, states_.size())),
                      fmt::format("random_state_{}", states_.size()));
  as_shared(state)->default_update_rule = [](const Expr& self) {
    return self + constant(Array::scalar<std::uint64_t>(1));
  };
  states_.push_back(state);
  Expr key = state;
  for (const Expr& index : ops::open_loops())
    key = key + (cast(index, DType::U64) + constant(Array::scalar<std::uint64_t>(1))) *
                    constant(Array::scalar<std::uint64_t>(0x9e3779b97f4a7c15ull));
  return key;
}

void RandomStream::seed(std::uint64_t seed) {
  seed_ = seed;
  for (const Expr& state : states_)
    if (!as_shared(state)) fail(Fault::Type, "RandomStream: a state is no shared variable");
  for (std::size_t k = 0; k < states_.size(); ++k)
    as_shared(states_[k])->set_value(Array::scalar<std::uint64_t>(first_key(seed_, k)));
}

Expr RandomStream::uniform(const Sizes& sizes, double low, double high, std::optional<DType> dtype,
                           Here where) {
  Scope scope(where);
  DType t = random_dtype("uniform", dtype);
  Expr u = random_of(ops::random_uniform, key(), sizes, t);
  if (low == 0 && high == 1) return u;
  return u * typed_number(high - low, t) + typed_number(low, t);
}

Expr RandomStream::normal(const Sizes& sizes, double mean, double deviation,
                          std::optional<DType> dtype, Here where) {
  Scope scope(where);
  DType t = random_dtype("normal", dtype);
  Expr z = random_of(ops::random_normal, key(), sizes, t);
  if (mean == 0 && deviation == 1) return z;
  return z * typed_number(deviation, t) + typed_number(mean, t);
}

Expr RandomStream::bernoulli(const Sizes& sizes, const Arg& p, std::optional<DType> dtype) {
  Scope scope(p);
  DType t = p.expr.dtype() == DType::F64 ? DType::F64 : DType::F32;
  Expr u = random_of(ops::random_uniform, key(), sizes, t);
  return cast(lt(u, p), dtype.value_or(DType::I64));
}

Expr dropout(const Arg& x, double p, RandomStream& stream) {
  Scope scope(x);
  require_expr("dropout", x.expr);
  if (!(p >= 0 && p < 1))
    fail(Fault::Value, fmt::format("dropout: the probability is {}, it must be in [0, 1)", p));
  if (!is_float(x.expr.dtype()))
    fail(Fault::Type, fmt::format("dropout: takes floats, not {}", name_of(x.expr.dtype())));
  if (p == 0) return x.expr;
  Expr keep = stream.bernoulli(shape(x), typed_number(1 - p, DType::F32), DType::Bool);
  keep = rebroadcast(keep, x.expr.type().broadcast);
  return switch_(keep, x.expr * typed_number(1 / (1 - p), x.expr.dtype()),
                 typed_number(0, x.expr.dtype()));
}

}  // namespace snug
