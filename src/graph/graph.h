#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "expr/op_def.h"

namespace snug {

/// Output `output` of node `node`.
struct Value {
  std::uint32_t node = 0, output = 0;
  bool operator==(const Value&) const = default;
  auto operator<=>(const Value&) const = default;
};
struct ValueHash {
  std::size_t operator()(Value v) const { return (std::size_t(v.node) << 8) ^ v.output; }
};

using DeviceId = std::uint8_t;

class Graph;
struct Node {
  const OpDef* op = nullptr;
  std::vector<Value> inputs;
  std::vector<Type> types;  // of the outputs
  Attrs attrs;
  std::shared_ptr<const Graph> inner;  // of a loop or branch
  DeviceId device = 0;
  OriginId origin = 0;
};

/// Inputs from this number on only decide sizes and offsets.
inline std::size_t data_inputs(const Node& n) { return data_inputs(*n.op, n.inputs.size()); }

/// An input of a graph: an argument of the function or a shared variable.
struct GraphInput {
  Value value;
  std::string name;
  Ref<SharedVariable> shared;  // null: an argument
  bool state = false;          // of a loop: has storage of its own, which an update renews
};
/// After a call, shared variable `inputs()[input]` has the value `value`.
struct Update {
  std::uint32_t input = 0;
  Value value;
};

/// What a function computes. Immutable; node ids are in topological order, so a pass is one forward
/// loop. Node 0 is the first input; inputs come first.
class Graph {
 public:
  std::span<const Node> nodes() const { return nodes_; }
  const Node& node(std::uint32_t id) const { return nodes_[id]; }
  const Node& node(Value v) const { return nodes_[v.node]; }
  const Type& type(Value v) const { return nodes_[v.node].types[v.output]; }
  std::span<const GraphInput> inputs() const { return inputs_; }
  std::span<const Value> outputs() const { return outputs_; }
  std::span<const Update> updates() const { return updates_; }
  const SizeTable& sizes() const { return *sizes_; }
  /// Later stages add strides and offsets; they only append.
  SizeTable& mutable_sizes() const { return *sizes_; }
  std::span<const Infer::Requirement> requirements() const {
    if (!requirements_) return {};
    return *requirements_;
  }
  /// Elements of a small integer value as size expressions; empty if not known before running.
  std::span<const SizeId> elements(Value v) const;
  /// The values behind size symbols of kind Runtime: symbol id -> the value that decides it.
  /// `extent`: the symbol is the run-time size of axis 0 of that value, else element `element`.
  struct RuntimeSource {
    SizeId symbol;
    Value value;
    bool extent;
    std::uint32_t element;
  };
  std::span<const RuntimeSource> runtime_sources() const { return runtime_sources_; }
  std::vector<std::string> input_names() const;

 private:
  friend class Builder;
  std::vector<Node> nodes_;
  std::vector<GraphInput> inputs_;
  std::vector<Value> outputs_;
  std::vector<Update> updates_;
  std::shared_ptr<SizeTable> sizes_;
  std::shared_ptr<std::vector<Infer::Requirement>> requirements_;  // shared by what passes make
  std::unordered_map<Value, std::vector<SizeId>, ValueHash> elements_;
  std::vector<RuntimeSource> runtime_sources_;
};

/// Builds a Graph. Equal nodes on one device merge, so common subexpressions need no pass. Inside
/// an OriginOverride new nodes get that origin.
class Builder {
 public:
  /// `record_requirements`: only `capture` does; rewrites pass the graph's own list on.
  explicit Builder(bool record_requirements = false);
  /// Starts from the inputs, sizes and requirements of `from`; fills `map` for its inputs.
  Builder(const Graph& from, std::vector<std::vector<Value>>& map);

  Value input(Type type, std::string name, Ref<SharedVariable> shared,
              std::vector<SizeId> elements = {});
  /// Output 0 of a node on the device of its first input.
  Value add(const OpDef& op, std::vector<Value> inputs, Attrs attrs = {},
            std::shared_ptr<const Graph> inner = nullptr);
  Value add_on(DeviceId device, const OpDef& op, std::vector<Value> inputs, Attrs attrs = {},
               std::shared_ptr<const Graph> inner = nullptr);
  Value constant(std::shared_ptr<const Array> value);
  Value constant(double value, const Type& like);  // a 0-d constant of like.dtype
  /// Copies a node of another graph onto new inputs.
  Value copy(const Node& node, std::vector<Value> inputs);
  /// Copies node `id` of a graph with this builder's sizes onto inputs of equal types: nothing is
  /// inferred again, so it is quick and its run-time sizes keep their symbols. `inner`: stands for
  /// the node's own inner graph, with the same types; `device`: for its own one.
  Value keep(const Graph& from, std::uint32_t id, std::vector<Value> inputs,
             std::shared_ptr<const Graph> inner = nullptr, std::optional<DeviceId> device = {});
  Value keep(std::uint32_t id, std::vector<Value> inputs) {  // a node of this builder
    return keep(graph_, id, std::move(inputs));
  }
  /// Input `input` is the state of a loop.
  void set_state(std::uint32_t input) { graph_.inputs_[input].state = true; }
  void set_device(std::uint32_t node, DeviceId device) { graph_.nodes_[node].device = device; }
  /// As `keep` for all its outputs, with inputs as `map` has them, which gets the new values.
  /// Brings the run-time sizes that the node decides along.
  void keep_all(const Graph& from, std::uint32_t id, std::vector<std::vector<Value>>& map,
                std::shared_ptr<const Graph> inner = nullptr);
  /// The symbol behind `source` is decided by that value; once per symbol.
  void add_runtime_source(const Graph::RuntimeSource& source);

  const Node& node(Value v) const { return graph_.nodes_[v.node]; }
  const Type& type(Value v) const { return graph_.type(v); }
  SizeTable& sizes() { return *graph_.sizes_; }
  std::span<const SizeId> elements(Value v) const { return graph_.elements(v); }
  std::size_t size() const { return graph_.nodes_.size(); }
  std::span<const Graph::RuntimeSource> runtime_sources() const { return graph_.runtime_sources_; }
  void set_requirements(std::vector<Infer::Requirement> r) {
    graph_.requirements_ = std::make_shared<std::vector<Infer::Requirement>>(std::move(r));
  }

  /// Drops what neither outputs nor updates reach; keeps all inputs.
  Graph finish(std::vector<Value> outputs, std::vector<Update> updates) &&;
  /// With the outputs and updates of `from`, as `map` has them.
  Graph finish_as(const Graph& from, const std::vector<std::vector<Value>>& map) &&;

 private:
  /// The equal node there is, or kNone.
  static constexpr std::uint32_t kNone = 0xffffffff;
  std::uint32_t find(std::size_t hash, const Node& like, std::span<const Value> inputs,
                     const Graph* inner, DeviceId device) const;
  void remember(std::size_t hash, std::uint32_t id);

  /// Once per pair of sizes: the first op that asks is the one to name.
  void record(std::vector<Infer::Requirement> requirements);

  Graph graph_;
  bool record_requirements_;
  std::unordered_set<std::uint64_t> recorded_[2];  // by `equal`
  // Open addressing: node ids, kNone where free; a power of two long.
  std::vector<std::uint32_t> slots_;
  std::vector<std::size_t> hashes_;  // by node id
  std::size_t remembered_ = 0;
};

/// The body of a loop with its states as storage: the results that follow from them are updates.
Graph states_as_updates(const Node& loop);

/// Checks ids, order, types (by inferring again) and the table of inputs. An internal error names
/// `where`, the node and its neighbourhood.
void verify(const Graph& graph, std::string_view where);

/// One line per node: "%3 = dot(%0, %2) : float32 (n, 10)   # train.py:41".
std::string print(const Graph& graph);

}  // namespace snug
