#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "base/inline_vec.h"

namespace snug {

/// An integer expression over what a call knows before it runs: the shapes of its arguments and
/// the few integer values that sizes depend on. Sizes, strides, offsets and slice bounds are all
/// of this kind. An id is an index into its SizeTable; equal expressions have equal ids.
using SizeId = std::uint32_t;
using SizeDims = InlineVec<SizeId, 8>;

enum class SizeOp : std::uint8_t {
  Const,
  Symbol,
  Add,
  Sub,
  Mul,
  FloorDiv,
  Mod,
  Min,
  Max,
  Less,
  Equal,
  Select,
};

struct SizeNode {
  SizeOp op = SizeOp::Const;
  std::int64_t value = 0;      // Const: the number. Symbol: index into symbols().
  SizeId a = 0, b = 0, c = 0;  // Select: a ? b : c
  bool operator==(const SizeNode&) const = default;
};

struct Symbol {
  enum class Kind : std::uint8_t {
    Unknown,  // while an expression is built: nothing is known
    Dim,      // size of axis `index` of graph input `input`
    Element,  // element `index` of the integer graph input `input`
    Runtime,  // becomes known while the call runs; lies in [low, high]
  };
  Kind kind = Kind::Unknown;
  std::uint32_t input = 0, index = 0;
  SizeId low = 0, high = 0;
};

/// A flat table of integer expressions; operands come before their users, so evaluating all of
/// them is one forward loop. Building simplifies: constants fold, x - x is 0, (x + 1) - 1 is x.
class SizeTable {
 public:
  static constexpr SizeId kNoSize = 0xffffffff;
  SizeTable();
  SizeId constant(std::int64_t value);
  SizeId symbol(const Symbol& symbol);  // always fresh for Unknown and Runtime, else interned
  SizeId add(SizeId a, SizeId b);
  SizeId sub(SizeId a, SizeId b);
  SizeId mul(SizeId a, SizeId b);
  SizeId floor_div(SizeId a, SizeId b);  // towards minus infinity; by 0 gives 0
  SizeId mod(SizeId a, SizeId b);        // sign of b; by 0 gives 0
  SizeId ceil_div(SizeId a, SizeId b);
  SizeId min(SizeId a, SizeId b);
  SizeId max(SizeId a, SizeId b);
  SizeId less(SizeId a, SizeId b);   // 0 or 1
  SizeId equal(SizeId a, SizeId b);  // 0 or 1
  SizeId select(SizeId condition, SizeId then, SizeId otherwise);
  SizeId product(std::span<const SizeId> ids);
  SizeId zero() const { return 0; }
  SizeId one() const { return 1; }

  /// What a size is a product of; the size itself if it is none. `whole` is not taken apart.
  std::vector<SizeId> factors(SizeId id, SizeId whole = kNoSize) const;
  /// A product of `of` and factors that do not depend on it.
  bool is_multiple(SizeId id, SizeId of) const;

  std::optional<std::int64_t> known(SizeId id) const;
  bool is(SizeId id, std::int64_t value) const { return known(id) == value; }
  const SizeNode& node(SizeId id) const { return nodes_[id]; }
  const Symbol& symbol_of(SizeId id) const { return symbols_[nodes_[id].value]; }
  std::span<const SizeNode> nodes() const { return nodes_; }
  std::span<const Symbol> symbols() const { return symbols_; }
  /// True if the value becomes known only while the call runs.
  bool is_runtime(SizeId id) const { return runtime_[id]; }
  /// "x.0", "2*x.0 + 1", "min(i, 60000)"; `input_names` may be empty.
  std::string describe(SizeId id, std::span<const std::string> input_names = {}) const;

  /// Calls `enter(id)` once for each expression that `ids` are made of, themselves included; where
  /// it gives false, what that expression is made of is left out.
  template <class F>
  void walk(std::vector<SizeId> ids, F&& enter) const;

  /// Copies an expression of `from` into this table; `map_symbol` says what its symbols become.
  /// `memo` has from.size() entries, kNoSize where not yet copied.
  template <class F>
  SizeId import(const SizeTable& from, SizeId id, std::vector<SizeId>& memo, F&& map_symbol);

 private:
  SizeId intern(const SizeNode& node);
  struct Hash {
    std::size_t operator()(const SizeNode& n) const;
  };
  std::vector<SizeNode> nodes_;
  std::vector<bool> runtime_;
  std::vector<Symbol> symbols_;
  std::unordered_map<SizeNode, SizeId, Hash> interned_;
};

std::int64_t floor_div(std::int64_t a, std::int64_t b);  // by 0 gives 0
std::int64_t floor_mod(std::int64_t a, std::int64_t b);  // by 0 gives 0
/// The value of one node from the values of the nodes before it. Symbols are not asked for.
std::int64_t evaluate(const SizeNode& node, std::span<const std::int64_t> values);

template <class F>
void SizeTable::walk(std::vector<SizeId> ids, F&& enter) const {
  std::unordered_set<SizeId> seen;
  while (!ids.empty()) {
    const SizeId id = ids.back();
    ids.pop_back();
    if (!seen.insert(id).second || !enter(id)) continue;
    const SizeNode& n = nodes_[id];
    if (n.op == SizeOp::Const || n.op == SizeOp::Symbol) continue;
    ids.push_back(n.a);
    ids.push_back(n.b);
    if (n.op == SizeOp::Select) ids.push_back(n.c);
  }
}

template <class F>
SizeId SizeTable::import(const SizeTable& from, SizeId id, std::vector<SizeId>& memo,
                         F&& map_symbol) {
  // Operands have smaller ids: collect what is missing, then build in ascending order.
  std::vector<SizeId> stack{id};
  while (!stack.empty()) {
    SizeId top = stack.back();
    if (memo[top] != kNoSize) {
      stack.pop_back();
      continue;
    }
    const SizeNode n = from.nodes_[top];
    bool leaf = n.op == SizeOp::Const || n.op == SizeOp::Symbol;
    if (!leaf) {
      bool ready = true;
      for (SizeId operand : {n.a, n.b, n.op == SizeOp::Select ? n.c : n.a})
        if (memo[operand] == kNoSize) {
          stack.push_back(operand);
          ready = false;
        }
      if (!ready) continue;
    }
    stack.pop_back();
    switch (n.op) {
      case SizeOp::Const: memo[top] = constant(n.value); break;
      case SizeOp::Symbol: memo[top] = map_symbol(from.symbols_[n.value], top); break;
      case SizeOp::Add: memo[top] = add(memo[n.a], memo[n.b]); break;
      case SizeOp::Sub: memo[top] = sub(memo[n.a], memo[n.b]); break;
      case SizeOp::Mul: memo[top] = mul(memo[n.a], memo[n.b]); break;
      case SizeOp::FloorDiv: memo[top] = floor_div(memo[n.a], memo[n.b]); break;
      case SizeOp::Mod: memo[top] = mod(memo[n.a], memo[n.b]); break;
      case SizeOp::Min: memo[top] = min(memo[n.a], memo[n.b]); break;
      case SizeOp::Max: memo[top] = max(memo[n.a], memo[n.b]); break;
      case SizeOp::Less: memo[top] = less(memo[n.a], memo[n.b]); break;
      case SizeOp::Equal: memo[top] = equal(memo[n.a], memo[n.b]); break;
      case SizeOp::Select: memo[top] = select(memo[n.a], memo[n.b], memo[n.c]); break;
    }
  }
  return memo[id];
}

}  // namespace snug
