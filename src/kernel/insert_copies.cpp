#include <unordered_set>

#include "kernel/program.h"
#include "place/place.h"

namespace snug {
namespace {

void copy_infer(Infer& f) {
  auto e = f.elements(0);
  f.out(f.in(0), {e.begin(), e.end()});
}

bool matrix_layout(SizeTable& sizes, const SizeDims& dims, const Layout& layout) {
  std::size_t n = dims.size();
  if (n < 2) return is_contiguous(sizes, dims, layout);
  auto unit = [&](std::size_t i) { return sizes.is(layout.strides[i], 1) || sizes.is(dims[i], 1); };
  auto zero = [&](std::size_t i) {
    return sizes.is(layout.strides[i], 0) && !sizes.is(dims[i], 1);
  };
  return (unit(n - 1) || unit(n - 2)) && !zero(n - 1) && !zero(n - 2);
}

/// Builds the new graph; `layouts` says how each value would lie if everything that can be a view
/// were one.
class Inserter {
 public:
  Inserter(const Graph& g, Libraries libraries) : g_(g), libraries_(libraries), b_(g, map_) {
    for (const GraphInput& in : g.inputs()) note_contiguous(map_[in.value.node][0]);
  }

  /// Nothing if no value needs a copy.
  std::optional<Graph> run(RuleCounts& counts) {
    for (std::uint32_t id = static_cast<std::uint32_t>(g_.inputs().size()); id < g_.nodes().size();
         ++id)
      add(id);
    std::vector<Value> outputs;
    std::vector<Update> updates;
    // An update keeps its value if it can, so that it may be computed in place; outputs copy.
    const std::int64_t of_operands = copies_;
    for (Update u : g_.updates())
      updates.push_back({u.input, own(map_[u.value.node][u.value.output])});
    for (Value v : g_.outputs()) outputs.push_back(own(map_[v.node][v.output]));
    if (copies_ == 0) return std::nullopt;
    const auto count = [&](std::string_view what, std::int64_t n) {
      if (n) counts.emplace_back(what, static_cast<std::size_t>(n));
    };
    count("operand -> copy in a layout that a library, a loop or a reshape takes", of_operands);
    count("result -> copy, as it is a leaf, a view or not alone", copies_ - of_operands);
    return std::move(b_).finish(std::move(outputs), std::move(updates));
  }

 private:
  void note_contiguous(Value v) { layouts_[v] = contiguous_layout(b_.sizes(), b_.type(v).dims); }

  Value copy(Value v) {
    OriginOverride origin(b_.node(v).origin);
    Value c = b_.add(kCopyOp, {v}, Attrs{{"n", std::int64_t{copies_++}}});
    note_contiguous(c);
    return c;
  }

  /// A value nobody else owns and that a task writes whole; what comes from a device does so into
  /// memory that is planned.
  Value own(Value v) {
    const OpDef& op = *b_.node(v).op;
    const bool comes = &op == &transfer_op && b_.node(v).device == 0;
    if (has(op, kLeaf | kView) || comes || !owned_.insert(v).second) v = copy(v), owned_.insert(v);
    return v;
  }

  void add(std::uint32_t id) {
    const Node& n = g_.node(id);
    std::vector<Value> inputs;
    for (Value v : n.inputs) inputs.push_back(map_[v.node][v.output]);
    OriginOverride origin(n.origin);
    if (const LibraryEntry* entry = find_library(libraries_, n)) {
      for (std::size_t i = 0; i < data_inputs(n); ++i)
        if (!accepts(*entry, inputs[i])) {
          // One copy serves all calls.
          auto [at, fresh] = copied_.try_emplace(inputs[i]);
          if (fresh) at->second = copy(inputs[i]);
          inputs[i] = at->second;
        }
    } else if (n.op == &transfer_op) {
      // It is contiguous, and on the host what a task makes: that is planned where devices copy
      // from.
      const Value v = inputs[0];
      const OpDef& made = *b_.node(v).op;
      if (has(made, kView) || (has(made, kLeaf) && b_.node(v).device == 0)) {
        auto [at, fresh] = moved_.try_emplace(v);
        if (fresh) at->second = copy(v);
        inputs[0] = at->second;
      }
    } else if (n.inner) {
      for (std::size_t i = 1; i < inputs.size(); ++i)
        if (!is_contiguous(b_.sizes(), b_.type(inputs[i]).dims, layouts_.at(inputs[i])))
          inputs[i] = copy(inputs[i]);
    }
    Value v = b_.copy(n, inputs);
    if (has(*n.op, kView)) {
      Layout out;
      if (view(n, inputs, v, out)) {
        layouts_[v] = out;
      } else {
        inputs[0] = copy(inputs[0]);
        v = b_.copy(n, inputs);
        SNUG_CHECK(view(n, inputs, v, out), "{} is no view of contiguous memory", n.op->name);
        layouts_[v] = out;
      }
    } else {
      for (std::uint32_t k = 0; k < b_.node(v).types.size(); ++k) note_contiguous({v.node, k});
    }
    for (std::uint32_t k = 0; k < n.types.size(); ++k) map_[id].push_back({v.node, k});
  }

  bool view(const Node& n, const std::vector<Value>& inputs, Value v, Layout& out) {
    std::vector<std::vector<SizeId>> elements;
    std::vector<std::span<const SizeId>> spans;
    for (Value x : inputs) {
      auto e = b_.elements(x);
      elements.emplace_back(e.begin(), e.end());
    }
    for (const auto& e : elements) spans.push_back(e);
    Type in = b_.type(inputs[0]), result = b_.type(v);
    Layout layout = layouts_.at(inputs[0]);
    return n.op->view({n.attrs, b_.sizes(), in, result, layout, spans}, out);
  }

  bool accepts(const LibraryEntry& entry, Value v) {
    const Layout& layout = layouts_.at(v);
    const SizeDims dims = b_.type(v).dims;
    if (is_contiguous(b_.sizes(), dims, layout)) return true;
    if (entry.strides == LibraryEntry::Strides::Any) return true;
    return entry.strides == LibraryEntry::Strides::Matrix &&
           matrix_layout(b_.sizes(), dims, layout);
  }

  const Graph& g_;
  Libraries libraries_;
  std::vector<std::vector<Value>> map_;
  Builder b_;
  std::unordered_map<Value, Layout, ValueHash> layouts_;
  std::unordered_set<Value, ValueHash> owned_;
  std::unordered_map<Value, Value, ValueHash> copied_;  // for library calls
  std::unordered_map<Value, Value, ValueHash> moved_;   // for transfers
  std::int64_t copies_ = 0;
};

}  // namespace

const OpDef kCopyOp = {
    .name = "copy",
    .doc = "The same values in memory of their own.",
    .traits = kElementwise,
    .infer = copy_infer,
    .no_grad = "copies are inserted after differentiation",
    .scalar = [](ScalarBuilder& s, const Attrs&) { return s.arg(0); },
};

std::optional<Graph> insert_copies(const Graph& g, Libraries libraries, RuleCounts& counts) {
  return Inserter(g, libraries).run(counts);
}

}  // namespace snug
