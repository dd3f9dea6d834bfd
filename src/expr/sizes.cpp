#include "expr/sizes.h"

#include <fmt/format.h>

#include <algorithm>

namespace snug {

std::int64_t floor_div(std::int64_t a, std::int64_t b) {
  if (b == 0) return 0;
  if (b == -1) return static_cast<std::int64_t>(0 - static_cast<std::uint64_t>(a));
  std::int64_t q = a / b;
  return q - ((a % b != 0) && ((a < 0) != (b < 0)));
}

std::int64_t floor_mod(std::int64_t a, std::int64_t b) {
  if (b == 0 || b == -1) return 0;
  std::int64_t r = a % b;
  return r != 0 && ((r < 0) != (b < 0)) ? r + b : r;
}

namespace {
// Sizes wrap instead of overflowing; impossible sizes are refused when bytes are counted.
std::int64_t wrap_add(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
}
std::int64_t wrap_sub(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
}
std::int64_t wrap_mul(std::int64_t a, std::int64_t b) {
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
}
}  // namespace

std::int64_t evaluate(const SizeNode& n, std::span<const std::int64_t> v) {
  switch (n.op) {
    case SizeOp::Const: return n.value;
    case SizeOp::Symbol: return 0;
    case SizeOp::Add: return wrap_add(v[n.a], v[n.b]);
    case SizeOp::Sub: return wrap_sub(v[n.a], v[n.b]);
    case SizeOp::Mul: return wrap_mul(v[n.a], v[n.b]);
    case SizeOp::FloorDiv: return floor_div(v[n.a], v[n.b]);
    case SizeOp::Mod: return floor_mod(v[n.a], v[n.b]);
    case SizeOp::Min: return std::min(v[n.a], v[n.b]);
    case SizeOp::Max: return std::max(v[n.a], v[n.b]);
    case SizeOp::Less: return v[n.a] < v[n.b];
    case SizeOp::Equal: return v[n.a] == v[n.b];
    case SizeOp::Select: return v[n.a] ? v[n.b] : v[n.c];
  }
  return 0;
}

std::size_t SizeTable::Hash::operator()(const SizeNode& n) const {
  std::size_t h = static_cast<std::size_t>(n.op);
  for (std::uint64_t part : {static_cast<std::uint64_t>(n.value), std::uint64_t{n.a},
                             std::uint64_t{n.b}, std::uint64_t{n.c}})
    h = (h ^ part) * 0x9e3779b97f4a7c15ull, h ^= h >> 29;
  return h;
}

SizeTable::SizeTable() {
  constant(0);
  constant(1);
}

SizeId SizeTable::intern(const SizeNode& node) {
  auto [it, added] = interned_.try_emplace(node, static_cast<SizeId>(nodes_.size()));
  if (added) {
    nodes_.push_back(node);
    bool runtime = false;
    if (node.op == SizeOp::Symbol)
      runtime = symbols_[node.value].kind == Symbol::Kind::Runtime;
    else if (node.op != SizeOp::Const)
      runtime =
          runtime_[node.a] || runtime_[node.b] || (node.op == SizeOp::Select && runtime_[node.c]);
    runtime_.push_back(runtime);
  }
  return it->second;
}

SizeId SizeTable::constant(std::int64_t value) { return intern({SizeOp::Const, value}); }

SizeId SizeTable::symbol(const Symbol& s) {
  if (s.kind == Symbol::Kind::Dim || s.kind == Symbol::Kind::Element)
    for (std::size_t i = 0; i < symbols_.size(); ++i)
      if (symbols_[i].kind == s.kind && symbols_[i].input == s.input &&
          symbols_[i].index == s.index)
        return intern({SizeOp::Symbol, static_cast<std::int64_t>(i)});
  symbols_.push_back(s);
  return intern({SizeOp::Symbol, static_cast<std::int64_t>(symbols_.size() - 1)});
}

std::vector<SizeId> SizeTable::factors(SizeId id, SizeId whole) const {
  std::vector<SizeId> open{id}, found;
  while (!open.empty()) {
    const SizeId top = open.back();
    open.pop_back();
    if (top == whole || nodes_[top].op != SizeOp::Mul) {
      found.push_back(top);
    } else {
      open.push_back(nodes_[top].b);
      open.push_back(nodes_[top].a);
    }
  }
  return found;
}

bool SizeTable::is_multiple(SizeId id, SizeId of) const {
  if (id == of) return true;
  std::vector<SizeId> others = factors(id, of);
  const auto it = std::find(others.begin(), others.end(), of);
  if (it == others.end()) return false;
  others.erase(it);
  bool depends = false;
  walk(std::move(others), [&](SizeId x) {
    depends |= x == of;
    return !depends;
  });
  return !depends;
}

std::optional<std::int64_t> SizeTable::known(SizeId id) const {
  if (nodes_[id].op != SizeOp::Const) return std::nullopt;
  return nodes_[id].value;
}

SizeId SizeTable::add(SizeId a, SizeId b) {
  auto ka = known(a), kb = known(b);
  if (ka && kb) return constant(wrap_add(*ka, *kb));
  if (ka) std::swap(a, b), std::swap(ka, kb);  // constants stand last
  if (kb == 0) return a;
  const SizeNode na = nodes_[a];
  if (kb && na.op == SizeOp::Add && known(na.b))
    return add(na.a, constant(wrap_add(*known(na.b), *kb)));
  if (na.op == SizeOp::Sub && na.b == b) return na.a;  // (x - y) + y
  const SizeNode nb = nodes_[b];
  if (nb.op == SizeOp::Sub && nb.b == a) return nb.a;
  if (na.op == SizeOp::Add && known(na.b)) return add(add(na.a, b), na.b);
  if (!kb && nb.op == SizeOp::Add && known(nb.b)) return add(add(a, nb.a), nb.b);
  if (!kb && a > b) std::swap(a, b);
  return intern({SizeOp::Add, 0, a, b});
}

SizeId SizeTable::sub(SizeId a, SizeId b) {
  if (a == b) return zero();
  auto ka = known(a), kb = known(b);
  if (ka && kb) return constant(wrap_sub(*ka, *kb));
  if (kb) return add(a, constant(wrap_sub(0, *kb)));
  const SizeNode na = nodes_[a];
  if (na.op == SizeOp::Add && na.a == b) return na.b;
  if (na.op == SizeOp::Add && na.b == b) return na.a;
  const SizeNode nb = nodes_[b];
  if (nb.op == SizeOp::Sub && nb.a == a) return nb.b;  // x - (x - y)
  return intern({SizeOp::Sub, 0, a, b});
}

SizeId SizeTable::mul(SizeId a, SizeId b) {
  auto ka = known(a), kb = known(b);
  if (ka && kb) return constant(wrap_mul(*ka, *kb));
  if (ka) std::swap(a, b), std::swap(ka, kb);
  if (kb == 0) return zero();
  if (kb == 1) return a;
  const SizeNode na = nodes_[a];
  if (na.op == SizeOp::Mul && known(na.b)) return mul(na.a, mul(b, na.b));
  if (!kb) {
    const SizeNode nb = nodes_[b];
    if (nb.op == SizeOp::Mul && known(nb.b)) return mul(mul(a, nb.a), nb.b);
    if (a > b) std::swap(a, b);
  }
  return intern({SizeOp::Mul, 0, a, b});
}

SizeId SizeTable::floor_div(SizeId a, SizeId b) {
  auto ka = known(a), kb = known(b);
  if (ka && kb) return constant(snug::floor_div(*ka, *kb));
  if (kb == 1) return a;
  const SizeNode na = nodes_[a];
  if (kb && *kb != 0 && na.op == SizeOp::Mul && known(na.b) && *known(na.b) % *kb == 0)
    return mul(na.a, constant(*known(na.b) / *kb));
  return intern({SizeOp::FloorDiv, 0, a, b});
}

SizeId SizeTable::mod(SizeId a, SizeId b) {
  auto ka = known(a), kb = known(b);
  if (ka && kb) return constant(floor_mod(*ka, *kb));
  if (kb == 1) return zero();
  return intern({SizeOp::Mod, 0, a, b});
}

SizeId SizeTable::ceil_div(SizeId a, SizeId b) { return sub(zero(), floor_div(sub(zero(), a), b)); }

SizeId SizeTable::min(SizeId a, SizeId b) {
  if (a == b) return a;
  auto ka = known(a), kb = known(b);
  if (ka && kb) return constant(std::min(*ka, *kb));
  if (a > b) std::swap(a, b);
  return intern({SizeOp::Min, 0, a, b});
}

SizeId SizeTable::max(SizeId a, SizeId b) {
  if (a == b) return a;
  auto ka = known(a), kb = known(b);
  if (ka && kb) return constant(std::max(*ka, *kb));
  // A size is never negative, nor is a product of sizes.
  auto is_dim = [&](SizeId id) {
    for (SizeId f : factors(id)) {
      const SizeNode& n = nodes_[f];
      if (n.op == SizeOp::Const
              ? n.value < 0
              : n.op != SizeOp::Symbol || symbols_[n.value].kind != Symbol::Kind::Dim)
        return false;
    }
    return true;
  };
  if (ka && *ka <= 0 && is_dim(b)) return b;
  if (kb && *kb <= 0 && is_dim(a)) return a;
  if (a > b) std::swap(a, b);
  return intern({SizeOp::Max, 0, a, b});
}

SizeId SizeTable::less(SizeId a, SizeId b) {
  if (a == b) return zero();
  auto ka = known(a), kb = known(b);
  if (ka && kb) return constant(*ka < *kb);
  // A size is never negative.
  if (kb && *kb <= 0 && nodes_[a].op == SizeOp::Symbol &&
      symbols_[nodes_[a].value].kind == Symbol::Kind::Dim)
    return zero();
  return intern({SizeOp::Less, 0, a, b});
}

SizeId SizeTable::equal(SizeId a, SizeId b) {
  if (a == b) return one();
  auto ka = known(a), kb = known(b);
  if (ka && kb) return constant(*ka == *kb);
  if (a > b) std::swap(a, b);
  return intern({SizeOp::Equal, 0, a, b});
}

SizeId SizeTable::select(SizeId condition, SizeId then, SizeId otherwise) {
  if (auto k = known(condition)) return *k ? then : otherwise;
  if (then == otherwise) return then;
  return intern({SizeOp::Select, 0, condition, then, otherwise});
}

SizeId SizeTable::product(std::span<const SizeId> ids) {
  SizeId p = one();
  for (SizeId id : ids) p = mul(p, id);
  return p;
}

std::string SizeTable::describe(SizeId id, std::span<const std::string> names) const {
  const SizeNode& n = nodes_[id];
  // Deep expressions are cut: this is for people.
  thread_local int depth = 0;
  if (depth > 6) return "...";
  ++depth;
  auto d = [&](SizeId x) { return describe(x, names); };
  std::string text;
  switch (n.op) {
    case SizeOp::Const: text = std::to_string(n.value); break;
    case SizeOp::Symbol: {
      const Symbol& s = symbols_[n.value];
      std::string input = s.input < names.size() && !names[s.input].empty()
                              ? names[s.input]
                              : fmt::format("in{}", s.input);
      if (s.kind == Symbol::Kind::Dim)
        text = fmt::format("{}.{}", input, s.index);
      else if (s.kind == Symbol::Kind::Element)
        text = fmt::format("{}[{}]", input, s.index);
      else if (s.kind == Symbol::Kind::Runtime)
        text = fmt::format("r{}", n.value);
      else
        text = "?";
      break;
    }
    case SizeOp::Add: text = fmt::format("{} + {}", d(n.a), d(n.b)); break;
    case SizeOp::Sub: text = fmt::format("{} - ({})", d(n.a), d(n.b)); break;
    case SizeOp::Mul: text = fmt::format("({})*({})", d(n.a), d(n.b)); break;
    case SizeOp::FloorDiv: text = fmt::format("({})//({})", d(n.a), d(n.b)); break;
    case SizeOp::Mod: text = fmt::format("({})%({})", d(n.a), d(n.b)); break;
    case SizeOp::Min: text = fmt::format("min({}, {})", d(n.a), d(n.b)); break;
    case SizeOp::Max: text = fmt::format("max({}, {})", d(n.a), d(n.b)); break;
    case SizeOp::Less: text = fmt::format("({} < {})", d(n.a), d(n.b)); break;
    case SizeOp::Equal: text = fmt::format("({} == {})", d(n.a), d(n.b)); break;
    case SizeOp::Select: text = fmt::format("({} ? {} : {})", d(n.a), d(n.b), d(n.c)); break;
  }
  --depth;
  return text;
}

}  // namespace snug
