#include <functional>
#include <map>
#include <optional>
#include <unordered_set>

#include "kernel/cluster.h"

namespace snug {
namespace {

class MemoryChooser {
 public:
  MemoryChooser(const Graph& g, const Units& units)
      : g_(g), units_(units), memory_(g.nodes().size(), false) {}

  std::vector<bool> run() {
    find_needed();
    find_bases();
    for (std::uint32_t id = 0; id < memory_.size(); ++id) {
      switch (units_.kind[id]) {
        case NodeKind::Leaf:
        case NodeKind::Library:
        case NodeKind::Copy:
        case NodeKind::Loop: memory_[id] = true; break;
        case NodeKind::Sizes: memory_[id] = must_[id]; break;
        case NodeKind::Fused:
          memory_[id] =
              must_[id] || (leaves_[id] && !cheap_again(id)) || (base_[id] && !cheap_again(id, 1));
          break;
        case NodeKind::IndexView:
        case NodeKind::MemoryView: break;
      }
    }
    return std::move(memory_);
  }

 private:
  void find_needed() {
    must_.assign(memory_.size(), false);
    leaves_.assign(memory_.size(), false);
    for (Value v : g_.outputs()) need(v);
    for (const Update& u : g_.updates()) need(u.value);
    for (const auto& s : g_.runtime_sources())
      if (!s.extent) need(s.value);
    for (std::uint32_t id = 0; id < memory_.size(); ++id) {
      NodeKind kind = units_.kind[id];
      if (g_.node(id).op == &kToBfloat16Op) need({id, 0});
      if (kind == NodeKind::IndexView) continue;
      for (Value v : units_.data_of(g_, id)) {
        if (kind != NodeKind::Fused) {
          need(v);
          continue;
        }
        v = units_.below_index_views(g_, v);
        NodeKind from = units_.kind[v.node];
        if (from == NodeKind::Sizes || from == NodeKind::MemoryView)
          need(v);
        else if (units_.unit_of[v.node] != units_.unit_of[id])
          leaves_[v.node] = true;
      }
    }
  }

  /// What `v` shows must be in memory.
  void need(Value v) {
    while (!must_[v.node]) {
      must_[v.node] = true;
      NodeKind kind = units_.kind[v.node];
      if (kind != NodeKind::IndexView && kind != NodeKind::MemoryView) return;
      v = g_.node(v).inputs[0];
    }
  }

  /// The node and those it is made of in its kernel, each from one value of its size and from
  /// smaller ones: any of them in memory makes it cheap.
  std::vector<std::uint32_t> chain_below(std::uint32_t id) const {
    constexpr std::size_t kLongest = 6;
    std::vector<std::uint32_t> chain;
    const int rank = rank_of({id, 0});
    while (units_.kind[id] == NodeKind::Fused && chain.size() < kLongest &&
           !has(*g_.node(id).op, kReduction | kRandom)) {
      chain.push_back(id);
      std::optional<Value> whole;
      for (Value v : units_.data_of(g_, id)) {
        v = units_.below_index_views(g_, v);
        if (rank_of(v) < rank) continue;
        if (whole && *whole != v) return chain;
        whole = v;
      }
      if (!whole || units_.unit_of[whole->node] != units_.unit_of[id]) break;
      id = whole->node;
    }
    return chain;
  }

  /// Finds values to store instead of several that are made of them: of a gradient that goes on
  /// scaled in one way here and another there, one copy.
  void find_bases() {
    base_.assign(memory_.size(), false);
    std::map<std::uint32_t, std::vector<std::uint32_t>, std::greater<>> made_of;
    for (std::uint32_t id = 0; id < memory_.size(); ++id)
      if (units_.kind[id] == NodeKind::Fused && leaves_[id] && !must_[id])
        for (std::uint32_t below : chain_below(id)) made_of[below].push_back(id);
    std::vector<bool> done(memory_.size(), false);
    auto bytes = [&](std::uint32_t id) { return size_of(g_.type({id, 0}).dtype); };
    for (auto& [base, all] : made_of) {
      std::erase_if(all, [&](std::uint32_t id) { return done[id]; });
      std::int64_t sum = 0;
      for (std::uint32_t id : all) sum += bytes(id);
      if (sum < 2 * bytes(base)) continue;
      base_[base] = true;
      for (std::uint32_t id : all) done[id] = true;
    }
  }

  static bool cheap_prim(Prim p) {
    return p <= Prim::FlatIndex || (p >= Prim::Add && p <= Prim::Mul) || p == Prim::Min ||
           p == Prim::Max || p == Prim::Fma || (p >= Prim::Neg && p <= Prim::Sqr) ||
           (p >= Prim::Lt && p <= Prim::Cast);
  }

  /// The number of axes that are not known to be of size 1.
  int rank_of(Value v) const {
    int rank = 0;
    for (SizeId d : g_.type(v).dims) rank += !g_.sizes().is(d, 1);
    return rank;
  }

  /// Whether computing it again takes few steps and reads no more than `most_whole` values of its
  /// size, or a few smaller ones.
  bool cheap_again(std::uint32_t root, std::size_t most_whole = 2) const {
    std::vector<std::uint32_t> stack{root};
    std::unordered_set<std::uint32_t> seen{root};
    const int rank = rank_of({root, 0});
    std::size_t instructions = 0, operands = 0, whole = 0;  // whole: as large as the value
    while (!stack.empty()) {
      std::uint32_t id = stack.back();
      stack.pop_back();
      const Node& n = g_.node(id);
      if (has(*n.op, kReduction | kRandom)) return false;
      std::vector<Instr> body = scalar_body(g_, n).instrs;
      instructions += body.size();
      for (const Instr& in : body)
        if (!cheap_prim(in.prim)) return false;
      if (instructions > 24) return false;
      for (Value v : units_.data_of(g_, id)) {
        v = units_.below_index_views(g_, v);
        if (!seen.insert(v.node).second) continue;
        bool stored = v.node < root && (units_.kind[v.node] != NodeKind::Fused || memory_[v.node]);
        if (stored) {
          operands += g_.type(v).ndim() > 0;
          whole += rank_of(v) >= rank;
        } else
          stack.push_back(v.node);
      }
    }
    return (operands <= 2 && whole <= most_whole) || (whole <= 1 && operands <= 6);
  }

  const Graph& g_;
  const Units& units_;
  std::vector<bool> must_, leaves_, base_;
  std::vector<bool> memory_;
};

}  // namespace

std::vector<bool> choose_memory(const Graph& graph, const Units& units) {
  return MemoryChooser(graph, units).run();
}

}  // namespace snug
