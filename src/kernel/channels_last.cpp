#include <algorithm>
#include <array>

#include "base/origin_marks.h"
#include "kernel/program.h"

namespace snug {
namespace {

// Images are (batch, channels, rows, columns) for the user and (batch, rows, columns, channels)
// where a library prefers that. kToLast[k] is the axis of the first that axis k of the second runs
// along; kFromLast the other way round.
constexpr std::array<std::int64_t, 4> kToLast = {0, 2, 3, 1}, kFromLast = {0, 3, 1, 2};

Type permuted(const Type& t, const std::array<std::int64_t, 4>& order) {
  Type out{t.dtype, {}, 0};
  for (std::size_t k = 0; k < 4; ++k) {
    out.dims.push_back(t.dims[order[k]]);
    if (t.broadcastable(order[k])) out.broadcast |= static_cast<std::uint8_t>(1u << k);
  }
  return out;
}

/// An op on images and its form with channels last. Bits say which inputs and outputs are images.
struct ImageOp {
  std::string_view name;
  const OpDef& last;
  std::uint8_t in, out;
};
std::span<const ImageOp> image_ops();

const ImageOp* image_op(const OpDef& op) {
  for (const ImageOp& i : image_ops())
    if (i.name == op.name) return &i;
  return nullptr;
}
const ImageOp& image_op_of_last(const OpDef& last) {
  for (const ImageOp& i : image_ops())
    if (&i.last == &last) return i;
  SNUG_CHECK(false, "{} is not an op with channels last", last.name);
}
bool bit(std::uint8_t bits, std::size_t k) { return k < 8 && bits >> k & 1; }

/// The rule of the op it stands for, on images turned back.
void last_infer(Infer& f) {
  const ImageOp& i = image_op_of_last(f.op);
  std::vector<Type> types;
  for (std::size_t k = 0; k < f.count(); ++k)
    types.push_back(bit(i.in, k) ? permuted(f.in(k), kFromLast) : f.in(k));
  Infer plain(find_op(i.name), f.attrs, f.sizes);
  for (const Type& t : types) plain.inputs.push_back(&t);
  plain.input_elements = f.input_elements;
  plain.op.infer(plain);
  f.requirements = std::move(plain.requirements);
  for (std::size_t k = 0; k < plain.results.size(); ++k)
    f.out(bit(i.out, k) ? permuted(plain.results[k].type, kToLast) : plain.results[k].type);
}

RefTensor permuted(const RefTensor& t, const std::array<std::int64_t, 4>& order) {
  RefTensor out = RefTensor::zeros(
      t.dtype, {t.shape[order[0]], t.shape[order[1]], t.shape[order[2]], t.shape[order[3]]});
  std::array<std::int64_t, 4> stride{};
  std::int64_t step = 1;
  for (int k = 3; k >= 0; --k) stride[k] = step, step *= t.shape[k];
  std::int64_t at = 0;
  for (std::int64_t a = 0; a < out.shape[0]; ++a)
    for (std::int64_t b = 0; b < out.shape[1]; ++b)
      for (std::int64_t c = 0; c < out.shape[2]; ++c)
        for (std::int64_t d = 0; d < out.shape[3]; ++d)
          out.set(at++, t.at(a * stride[order[0]] + b * stride[order[1]] + c * stride[order[2]] +
                             d * stride[order[3]]));
  return out;
}

template <const OpDef& Last>
void last_reference(const ReferenceArgs& r) {
  const ImageOp& i = image_op_of_last(Last);
  std::vector<RefTensor> in, out;
  std::vector<const RefTensor*> places;
  for (std::size_t k = 0; k < r.x.size(); ++k)
    in.push_back(bit(i.in, k) ? permuted(*r.x[k], kFromLast) : *r.x[k]);
  for (const RefTensor& t : in) places.push_back(&t);
  for (std::size_t k = 0; k < r.y.size(); ++k)
    out.push_back(bit(i.out, k) ? permuted(r.y[k], kFromLast) : r.y[k]);
  find_op(i.name).reference({r.attrs, places, out, {}});
  for (std::size_t k = 0; k < r.y.size(); ++k)
    r.y[k] = bit(i.out, k) ? permuted(out[k], kToLast) : std::move(out[k]);
}

constexpr std::string_view kDoc = "The op without _last, on images with channels as the last axis.";
constexpr std::string_view kNoGrad = "it is made after differentiation";

template <const OpDef& Self>
constexpr OpDef last_row(std::string_view name, int arity, int size_inputs_from, int outputs = 1) {
  OpDef row;
  row.name = name;
  row.doc = kDoc;
  row.arity = arity;
  row.outputs = outputs;
  row.size_inputs_from = size_inputs_from;
  row.infer = last_infer;
  row.no_grad = kNoGrad;
  row.reference = last_reference<Self>;
  return row;
}

extern const OpDef kConvLast, kConvGradInputLast, kConvGradWeightLast, kMaxPoolLast, kMaxUnpoolLast,
    kMaxPoolTakeLast, kAveragePoolLast, kAveragePoolGradLast;
const OpDef kConvLast = last_row<kConvLast>("conv2d_last", 2, -1);
const OpDef kConvGradInputLast = last_row<kConvGradInputLast>("conv2d_grad_input_last", 3, 2);
const OpDef kConvGradWeightLast = last_row<kConvGradWeightLast>("conv2d_grad_weight_last", 3, 2);
const OpDef kMaxPoolLast = last_row<kMaxPoolLast>("max_pool_last", 1, -1, 2);
const OpDef kMaxUnpoolLast = last_row<kMaxUnpoolLast>("max_unpool_last", 3, 2);
const OpDef kMaxPoolTakeLast = last_row<kMaxPoolTakeLast>("max_pool_take_last", 2, -1);
const OpDef kAveragePoolLast = last_row<kAveragePoolLast>("average_pool_last", 1, -1);
const OpDef kAveragePoolGradLast = last_row<kAveragePoolGradLast>("average_pool_grad_last", 2, 1);

const ImageOp kImageOps[] = {
    {"conv2d", kConvLast, 0b01, 1},
    {"conv2d_grad_input", kConvGradInputLast, 0b10, 1},
    {"conv2d_grad_weight", kConvGradWeightLast, 0b11, 0},
    {"max_pool", kMaxPoolLast, 0b1, 0b11},
    {"max_unpool", kMaxUnpoolLast, 0b11, 1},
    {"max_pool_take", kMaxPoolTakeLast, 0b11, 1},
    {"average_pool", kAveragePoolLast, 0b1, 1},
    {"average_pool_grad", kAveragePoolGradLast, 0b1, 1},
};
std::span<const ImageOp> image_ops() { return kImageOps; }

/// Builds the new graph. A value is made in one of the two forms; the other is a view of it, made
/// when somebody asks.
class Turner {
 public:
  Turner(const Graph& g, Libraries libraries)
      : g_(g), libraries_(libraries), b_(g, plain_), last_(g.nodes().size()) {
    plain_.resize(g.nodes().size());
  }

  /// Nothing if no op on images is better with channels last.
  std::optional<Graph> run(RuleCounts& counts) {
    std::size_t images = 0, others = 0;
    for (auto id = static_cast<std::uint32_t>(g_.inputs().size()); id < g_.nodes().size(); ++id) {
      OriginOverride origin(g_.node(id).origin);
      if (turn(id)) {
        ++(image_op(*g_.node(id).op) ? images : others);
      } else {
        for (Value v : g_.node(id).inputs) plain(v);
        b_.keep_all(g_, id, plain_);
      }
    }
    if (images == 0) return std::nullopt;
    for (Value v : g_.outputs()) plain(v);
    for (const Update& u : g_.updates()) plain(u.value);
    counts.emplace_back("op on images -> the op on images with channels last", images);
    if (others) counts.emplace_back("f(x) -> f(x with channels last)", others);
    if (turned_) counts.emplace_back("x -> x with channels last", turned_);
    return std::move(b_).finish_as(g_, plain_);
  }

 private:
  bool is_last(Value v) const {
    return !last_[v.node].empty() && last_[v.node][v.output] && !made_plain(v);
  }
  bool made_plain(Value v) const { return natively_plain_.count(v) != 0; }

  Value shuffled(Value v, Attrs::Ints pattern) {
    // Of a view that renames axes: one view of what it is of.
    const Node& n = b_.node(v);
    if (n.op->name == "dimshuffle") {
      for (std::int64_t& axis : pattern)
        if (axis >= 0) axis = n.attrs.ints("pattern")[static_cast<std::size_t>(axis)];
      v = n.inputs[0];
    }
    bool same = static_cast<int>(pattern.size()) == b_.type(v).ndim();
    for (std::size_t k = 0; k < pattern.size(); ++k)
      same &= pattern[k] == static_cast<std::int64_t>(k);
    return same ? v : b_.add(find_op("dimshuffle"), {v}, {{"pattern", std::move(pattern)}});
  }

  Value plain(Value v) {
    std::vector<Value>& values = plain_[v.node];
    if (values.empty()) {  // all outputs, as later passes of the map expect
      const std::vector<std::optional<Value>>& last = last_[v.node];
      for (const std::optional<Value>& x : last)
        values.push_back(shuffled(*x, {kFromLast.begin(), kFromLast.end()}));
    }
    return values[v.output];
  }
  Value last(Value v) {
    std::vector<std::optional<Value>>& values = last_[v.node];
    values.resize(g_.node(v).types.size());
    if (!values[v.output]) {
      natively_plain_.insert(v);
      const Value given = plain(v);
      const OriginOverride origin(as_channels_last(current_origin()));
      values[v.output] = shuffled(given, {kToLast.begin(), kToLast.end()});
      ++turned_;
    }
    return *values[v.output];
  }

  /// A node whose results are images with channels last.
  void make_last(std::uint32_t id, const OpDef& op, std::vector<Value> inputs, Attrs attrs) {
    const OriginOverride origin(as_channels_last(current_origin()));
    const Value first = b_.add(op, std::move(inputs), std::move(attrs));
    for (std::uint32_t k = 0; k < g_.node(id).types.size(); ++k)
      last_[id].push_back(Value{first.node, k});
  }

  bool any_last(const Node& n, std::uint8_t bits = 0xff) const {
    for (std::size_t i = 0; i < data_inputs(n); ++i)
      if (bit(bits, i) && is_last(n.inputs[i])) return true;
    return false;
  }

  /// Makes the node with channels last if that is better; false: the node stays as it is.
  bool turn(std::uint32_t id) {
    const Node& n = g_.node(id);
    if (const ImageOp* op = image_op(*n.op)) return turn_image_op(id, *op);
    if (n.inner || n.types.size() != 1 || !any_last(n)) return false;
    if (has(*n.op, kElementwise) && !has(*n.op, kGenerator)) return turn_elementwise(id);
    if (has(*n.op, kReduction)) return turn_reduction(id);
    if (n.op->name == "dimshuffle") {
      Attrs::Ints pattern = n.attrs.ints("pattern");
      for (std::int64_t& axis : pattern)
        if (axis >= 0) axis = kFromLast[static_cast<std::size_t>(axis)];
      plain_[id] = {shuffled(last(n.inputs[0]), std::move(pattern))};
      return true;
    }
    if (n.op->name == "concatenate") {
      std::vector<Value> inputs;
      for (Value v : n.inputs) inputs.push_back(last(v));
      Attrs attrs = n.attrs;
      attrs.set("axis", kFromLast[static_cast<std::size_t>(n.attrs.integer("axis"))]);
      make_last(id, *n.op, std::move(inputs), std::move(attrs));
      return true;
    }
    return false;
  }

  bool turn_image_op(std::uint32_t id, const ImageOp& op) {
    const Node& n = g_.node(id);
    if (g_.type(n.inputs[0]).ndim() != 4) return false;
    Node like = n;
    like.op = &op.last;
    const LibraryEntry* entry = find_library(libraries_, like);
    if (!entry || !(entry->prefers_channels_last || any_last(n, op.in))) return false;
    std::vector<Value> inputs;
    for (std::size_t i = 0; i < n.inputs.size(); ++i)
      inputs.push_back(bit(op.in, i) ? last(n.inputs[i]) : plain(n.inputs[i]));
    // Users know the op by the name without "_last".
    const OriginId now = current_origin();
    const OriginOverride origin(word_of(now).empty() ? with_word(now, op.name) : now);
    if (op.out) {
      make_last(id, op.last, std::move(inputs), n.attrs);
      return true;
    }
    const Value made = b_.add(op.last, std::move(inputs), n.attrs);
    for (std::uint32_t k = 0; k < n.types.size(); ++k) plain_[id].push_back({made.node, k});
    return true;
  }

  bool turn_elementwise(std::uint32_t id) {
    const Node& n = g_.node(id);
    for (Value v : n.inputs)
      if (g_.type(v).ndim() != 4) return false;
    std::vector<Value> inputs;
    for (Value v : n.inputs) inputs.push_back(last(v));
    make_last(id, *n.op, std::move(inputs), n.attrs);
    return true;
  }

  bool turn_reduction(std::uint32_t id) {
    const Node& n = g_.node(id);
    Attrs::Ints axes;
    std::array<bool, 4> dropped{};
    for (std::int64_t axis : n.attrs.ints("axes")) {
      dropped[static_cast<std::size_t>(axis)] = true;
      axes.push_back(kFromLast[static_cast<std::size_t>(axis)]);
    }
    std::sort(axes.begin(), axes.end());
    Attrs attrs = n.attrs;
    attrs.set("axes", std::move(axes));
    const Value made = b_.add(*n.op, {last(n.inputs[0])}, std::move(attrs));
    // The axes that are left, in the order of the result before and of this one.
    std::vector<std::int64_t> left;
    for (std::int64_t axis : kToLast)
      if (!dropped[static_cast<std::size_t>(axis)]) left.push_back(axis);
    Attrs::Ints pattern;
    for (std::int64_t axis = 0; axis < 4; ++axis)
      if (auto at = std::find(left.begin(), left.end(), axis); at != left.end())
        pattern.push_back(at - left.begin());
    plain_[id] = {shuffled(made, std::move(pattern))};
    return true;
  }

  const Graph& g_;
  Libraries libraries_;
  std::vector<std::vector<Value>> plain_;
  Builder b_;
  std::vector<std::vector<std::optional<Value>>> last_;
  std::unordered_set<Value, ValueHash> natively_plain_;
  std::size_t turned_ = 0;
};

}  // namespace

std::optional<Graph> prefer_channels_last(const Graph& graph, Libraries libraries,
                                          RuleCounts& counts) {
  bool any = false;
  for (const Node& n : graph.nodes()) any |= image_op(*n.op) != nullptr;
  if (!any) return std::nullopt;
  return Turner(graph, libraries).run(counts);
}

}  // namespace snug
