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
    for (std::uint32_t id = 0; id < memory_.size(); ++id) {
      switch (units_.kind[id]) {
        case NodeKind::Leaf:
        case NodeKind::Library:
        case NodeKind::Loop: memory_[id] = true; break;
        case NodeKind::Sizes: memory_[id] = must_[id]; break;
        case NodeKind::Fused: memory_[id] = must_[id] || (leaves_[id] && !cheap_again(id)); break;
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

  static bool cheap_prim(Prim p) {
    return p <= Prim::FlatIndex || (p >= Prim::Add && p <= Prim::Mul) || p == Prim::Min ||
           p == Prim::Max || p == Prim::Fma || (p >= Prim::Neg && p <= Prim::Sqr) ||
           (p >= Prim::Lt && p <= Prim::Cast);
  }

  bool cheap_again(std::uint32_t root) const {
    std::vector<std::uint32_t> stack{root};
    std::unordered_set<std::uint32_t> seen{root};
    const int ndim = g_.type({root, 0}).ndim();
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
      if (instructions > 16) return false;
      for (Value v : units_.data_of(g_, id)) {
        v = units_.below_index_views(g_, v);
        if (!seen.insert(v.node).second) continue;
        bool stored = v.node < root && (units_.kind[v.node] != NodeKind::Fused || memory_[v.node]);
        if (stored) {
          operands += g_.type(v).ndim() > 0;
          whole += g_.type(v).ndim() >= ndim;
        } else
          stack.push_back(v.node);
      }
    }
    return operands <= 2 || (whole <= 1 && operands <= 4);
  }

  const Graph& g_;
  const Units& units_;
  std::vector<bool> must_, leaves_;
  std::vector<bool> memory_;
};

}  // namespace

std::vector<bool> choose_memory(const Graph& graph, const Units& units) {
  return MemoryChooser(graph, units).run();
}

}  // namespace snug
