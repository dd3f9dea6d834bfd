#include <algorithm>

#include "base/origin_marks.h"
#include "kernel/program.h"

namespace snug {
namespace {

constexpr std::uint32_t kNobody = 0xffffffff;

/// Finds sums of a product and a row that no kernel would read anyway: the library adds the row,
/// and cuts off what is not above 0, while the product is still in its registers. Where a kernel
/// reads the sum it adds the row for nothing.
class Absorber {
 public:
  Absorber(const Graph& g, Libraries libraries)
      : g_(g), libraries_(libraries), readers_(g.nodes().size()), last_(g.nodes().size(), kNobody) {
    for (std::uint32_t id = 0; id < g.nodes().size(); ++id)
      for (Value v : g.node(id).inputs) readers_[v.node].push_back(id);
    for (Value v : g.outputs()) readers_[v.node].push_back(kNobody);
    for (const Update& u : g.updates()) readers_[u.value.node].push_back(kNobody);
  }

  std::optional<Graph> run(RuleCounts& counts) {
    bool any = false;
    for (std::uint32_t id = 0; id < g_.nodes().size(); ++id) any |= find(id);
    if (!any) return std::nullopt;
    std::size_t with_relu = 0, without = 0;
    std::vector<std::vector<Value>> map;
    Builder b(g_, map);
    for (auto id = static_cast<std::uint32_t>(g_.inputs().size()); id < g_.nodes().size(); ++id) {
      if (last_[id] == kNobody) {
        b.keep_all(g_, id, map);
        continue;
      }
      const Parts parts = *parts_of(last_[id]);
      const Node& dot = g_.node(parts.dot);
      const bool relu = last_[id] != id;
      ++(relu ? with_relu : without);
      OriginOverride origin(word_of(dot.origin).empty()
                                ? with_word(dot.origin, relu ? "dot, add, relu" : "dot, add")
                                : dot.origin);
      auto moved = [&](Value v) { return map[v.node][v.output]; };
      map[id] = {b.add(kAffineOp, {moved(dot.inputs[0]), moved(dot.inputs[1]), moved(parts.bias)},
                       Attrs{{"relu", relu}})};
    }
    if (without) counts.emplace_back("dot(a, b) + row -> affine(a, b, row)", without);
    if (with_relu) counts.emplace_back("relu(dot(a, b) + row) -> affine(a, b, row)", with_relu);
    return std::move(b).finish_as(g_, map);
  }

 private:
  struct Parts {
    std::uint32_t dot;
    Value bias;
  };

  /// add(dot(a, b), row), where nothing else reads the product.
  std::optional<Parts> parts_of(std::uint32_t add) const {
    const Node& n = g_.node(add);
    if (n.op->name != "add") return std::nullopt;
    for (std::size_t i = 0; i < 2; ++i) {
      const Node &dot = g_.node(n.inputs[i]), &row = g_.node(n.inputs[1 - i]);
      if (dot.op->name != "dot" || readers_[n.inputs[i].node].size() != 1) continue;
      if (row.op->name != "dimshuffle" || row.attrs.ints("pattern") != Attrs::Ints{-1, 0}) continue;
      if (n.types[0].dims != dot.types[0].dims || row.types[0].dtype != dot.types[0].dtype)
        continue;
      if (row.types[0].broadcastable(1) || row.types[0].dims[1] != dot.types[0].dims[1]) continue;
      return Parts{n.inputs[i].node, row.inputs[0]};
    }
    return std::nullopt;
  }

  bool is_zero(Value v) const {
    while (g_.node(v).op->name == "dimshuffle") v = g_.node(v).inputs[0];
    const Node& n = g_.node(v);
    return has(*n.op, kLeaf) && n.attrs.has("value") && n.attrs.array("value")->size() == 1 &&
           n.attrs.array("value")->at_double(0) == 0;
  }

  /// The node switch(sum > 0, sum, 0) if that is all that reads the sum.
  std::optional<std::uint32_t> relu_of(std::uint32_t sum) const {
    if (readers_[sum].size() != 2) return std::nullopt;
    const std::uint32_t test = readers_[sum][0], cut = readers_[sum][1];
    if (test == kNobody || cut == kNobody) return std::nullopt;
    const Node &gt = g_.node(test), &choice = g_.node(cut);
    const Value v{sum, 0};
    if (gt.op->name != "gt" || gt.inputs[0] != v || !is_zero(gt.inputs[1]) ||
        readers_[test].size() != 1)
      return std::nullopt;
    if (choice.op->name != "switch" || choice.inputs[0] != Value{test, 0} ||
        choice.inputs[1] != v || !is_zero(choice.inputs[2]))
      return std::nullopt;
    return cut;
  }

  /// Notes in last_ that the node is the end of a group to be absorbed.
  bool find(std::uint32_t id) {
    std::optional<Parts> parts = parts_of(id);
    if (!parts) return false;
    Node like = g_.node(parts->dot);
    like.op = &kAffineOp;
    if (!find_library(libraries_, like)) return false;
    const std::uint32_t end = relu_of(id).value_or(id);
    auto fused = [&](std::uint32_t reader) {
      return reader != kNobody &&
             has(*g_.node(reader).op, kElementwise | kReduction | kGenerator | kView);
    };
    if (std::any_of(readers_[end].begin(), readers_[end].end(), fused)) return false;
    last_[end] = id;
    return true;
  }

  const Graph& g_;
  Libraries libraries_;
  std::vector<std::vector<std::uint32_t>> readers_;
  std::vector<std::uint32_t> last_;  // per end of a group: its sum
};

void affine_infer(Infer& f) {
  const Type &a = f.in(0), &b = f.in(1);
  f.require_equal(f.in(2).dims[0], b.dims[1], "the row has another length than the product");
  Type out{a.dtype, {a.dims[0], b.dims[1]}, 0};
  if (a.broadcastable(0)) out.broadcast |= 1;
  if (b.broadcastable(1)) out.broadcast |= 2;
  f.out(out);
}

void affine_reference(const ReferenceArgs& r) {
  const RefTensor &a = *r.x[0], &b = *r.x[1], &bias = *r.x[2];
  const std::int64_t m = a.shape[0], k = a.shape[1], n = b.shape[1];
  const bool relu = r.attrs.flag("relu");
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = 0;
      for (std::int64_t l = 0; l < k; ++l) sum += a.f[i * k + l] * b.f[l * n + j];
      sum += bias.f[j];
      r.y[0].f[i * n + j] = relu && !(sum > 0) ? 0 : sum;
    }
}

}  // namespace

const OpDef kAffineOp = {
    .name = "affine",
    .doc = "The product of two matrices plus a row; with `relu`, 0 for what is not above 0.",
    .arity = 3,
    .infer = affine_infer,
    .no_grad = "it is made after differentiation",
    .reference = affine_reference,
};

std::optional<Graph> absorb_bias(const Graph& graph, Libraries libraries, RuleCounts& counts) {
  return Absorber(graph, libraries).run(counts);
}

}  // namespace snug
