#include <unordered_map>
#include <unordered_set>

#include "expr/loop_shape.h"
#include "ops/computed.h"
#include "ops/rules.h"

namespace snug::ops {
namespace {

/// The body takes the index, an element per sequence, the states and the captures.
void check_params(const Infer& f, const LoopShape& parts) {
  const std::vector<Expr>& params = f.attrs.lambda("body")->params;
  SNUG_CHECK(params.size() == f.count(), "loop: {} parameters for {} operands", params.size(),
             f.count());
  for (std::size_t i = 0; i < params.size(); ++i) {
    const bool sequence = i > 0 && i < parts.state(0);
    const int ndim = f.in(i).ndim() - (sequence && !parts.blocks ? 1 : 0);
    const bool dropped = sequence && !parts.blocks;  // the axis that the loop runs over
    const int stretched = dropped ? f.in(i).broadcast >> 1 : f.in(i).broadcast;
    SNUG_CHECK(params[i].ndim() == ndim &&
                   params[i].dtype() == (i == 0 ? DType::I64 : f.in(i).dtype) &&
                   (i == 0 || (params[i].type().broadcast & ~stretched) == 0),
               "loop: parameter {} does not fit its operand", i);
  }
}

void loop_rule(Infer& f) {
  const LoopShape parts = LoopShape::of(f.attrs);
  SizeTable& t = f.sizes;
  SNUG_CHECK(parts.sequences <= f.count() && parts.states <= f.count() &&
                 parts.first_seen_by_all() <= f.count(),
             "loop: {} operands", f.count());
  SNUG_CHECK(f.count() > 0, "loop: no operands");
  f.require_ndim(0, 0);
  require_discrete(f, 0);
  const SizeId count = f.size_element(0);
  require_nonnegative(f, count, "the number of iterations");
  for (std::size_t k = 0; k < parts.sequences; ++k) {
    const Type& x = f.in(parts.sequence(k));
    if (x.ndim() == 0) f.error(Fault::Type, fmt::format("sequence {} has no axis to run over", k));
    f.require_equal(x.dims[0], parts.blocks ? f.in(parts.sequence(0)).dims[0] : count,
                    parts.blocks
                        ? fmt::format("sequence {} is not as long as sequence 0", k)
                        : fmt::format("sequence {} is not as long as the number of iterations", k));
  }
  // In a graph the body's sizes are known in terms of the operands'; before, only constants are.
  std::vector<Type> results = f.inner_results;
  if (results.empty() && f.attrs.has("body")) check_params(f, parts);
  if (results.empty())
    for (const Expr& r : f.attrs.lambda("body")->results) {
      Type type{r.dtype(), {}, r.type().broadcast};
      for (std::int64_t d : r.type().shape)
        type.dims.push_back(d >= 0 ? t.constant(d) : t.symbol({}));
      results.push_back(type);
    }
  SNUG_CHECK(parts.outputs <= results.size() && results.size() == parts.states + parts.outputs,
             "loop: the body has {} results", results.size());
  for (std::size_t k = 0; k < parts.states; ++k) {
    const Type& before = f.in(parts.state(k));
    const Type& after = results[k];
    if (before.dtype != after.dtype || before.ndim() != after.ndim() ||
        before.broadcast != after.broadcast)
      f.error(
          Fault::Type,
          fmt::format("state {} is {} with {} dimensions before an iteration and {} with {} "
                      "after it",
                      k, name_of(before.dtype), before.ndim(), name_of(after.dtype), after.ndim()),
          "a state keeps its type; cast or reshape the initial value");
    for (std::size_t axis = 0; axis < before.dims.size(); ++axis)
      f.require_equal(before.dims[axis], after.dims[axis],
                      fmt::format("state {} changes its size on axis {}", k, axis));
    f.out(before);
  }
  for (std::size_t k = 0; k < parts.outputs; ++k) {
    const Type& one = results[parts.states + k];
    if (one.ndim() == 8 && !parts.blocks)
      f.error(Fault::Type, fmt::format("output {} would have more than 8 dimensions", k));
    Type out;
    out.dtype = one.dtype;
    if (parts.blocks) {
      if (one.ndim() == 0 || parts.sequences == 0)
        f.error(Fault::Type, fmt::format("output {} has no axis to join", k));
      out.dims = one.dims;
      out.dims[0] = f.in(parts.sequence(0)).dims[0];
      out.broadcast = one.broadcast & 0xfe;
    } else {
      out.dims.push_back(count);
      for (SizeId d : one.dims) out.dims.push_back(d);
      out.broadcast = static_cast<std::uint8_t>(one.broadcast << 1);
    }
    f.out(out);
  }
}

void loop_reference(const ReferenceArgs& r) {
  const LoopShape parts = LoopShape::of(r.attrs);
  const std::int64_t count = r.x[0]->i[0];
  std::vector<RefTensor> states;
  for (std::size_t k = 0; k < parts.states; ++k) states.push_back(*r.x[parts.state(k)]);
  std::vector<std::int64_t> filled(parts.outputs, 0);
  for (std::int64_t step = 0; step < count; ++step) {
    std::vector<RefTensor> args;
    RefTensor index = RefTensor::zeros(DType::I64, {});
    index.i[0] = step;
    args.push_back(std::move(index));
    for (std::size_t k = 0; k < parts.sequences; ++k) {
      const RefTensor& x = *r.x[parts.sequence(k)];
      std::int64_t inner = 1;
      for (std::size_t axis = 1; axis < x.shape.size(); ++axis) inner *= x.shape[axis];
      Dims shape = x.shape;
      std::int64_t begin = step, rows = 1;
      if (parts.blocks) {
        const std::int64_t block = (x.shape[0] + count - 1) / count;
        begin = std::min(step * block, x.shape[0]);
        rows = std::min(block, x.shape[0] - begin);
        shape[0] = rows;
      } else {
        shape.erase(0);
      }
      RefTensor element = RefTensor::zeros(x.dtype, shape);
      for (std::int64_t e = 0; e < rows * inner; ++e) element.set(e, x.at(begin * inner + e));
      args.push_back(std::move(element));
    }
    for (const RefTensor& s : states) args.push_back(s);
    for (std::size_t k = parts.first_seen_by_all(); k < r.x.size(); ++k) args.push_back(*r.x[k]);
    std::vector<RefTensor> results = r.inner(args);
    for (std::size_t k = 0; k < parts.states; ++k) states[k] = results[k];
    for (std::size_t k = 0; k < parts.outputs; ++k) {
      const RefTensor& one = results[parts.states + k];
      RefTensor& all = r.y[parts.states + k];
      for (std::int64_t e = 0; e < one.size(); ++e) all.set(filled[k] + e, one.at(e));
      filled[k] += one.size();
    }
  }
  for (std::size_t k = 0; k < parts.states; ++k) r.y[k] = states[k];
}

Expr reversed(const Expr& x) { return snug::slice_axis(x, 0, Expr(), Expr(), Expr(-1)); }

/// The loop backwards. Its body is the gradient of the forward body; the states before each
/// iteration come from running the loop again with them as outputs.
class LoopGradient {
 public:
  explicit LoopGradient(const GradArgs& g)
      : g_(g), parts_(LoopShape::of(g.attrs)), body_(*g.attrs.lambda("body")) {}

  Exprs run() {
    seed();
    lambda_->results = body_results();
    // Backwards, iteration r does what iteration count - 1 - r did.
    const Expr& count = g_.x[0];
    const Expr r = snug::input({DType::I64, {}, 0}), length = snug::input(count.type());
    lambda_->results =
        substitute(lambda_->results, {{param(0), snug::cast(length, DType::I64) - 1 - r}});
    for (const Expr& e : topological(lambda_->results)) used_.insert(e.get());
    lambda_->params.push_back(r);
    inputs_.push_back(count);
    pass_sequences();
    const std::size_t n_seq = inputs_.size() - 1;
    for (std::size_t k = 0; k < dstate_.size(); ++k) pass(dstate_[k], dstate_init_[k]);
    for (std::size_t k = 0; k < captures_.size(); ++k)
      pass(dcapture_[k], snug::zeros_like(g_.x[captures_[k]]));
    for (std::size_t k = parts_.first_seen_by_all(); k < g_.x.size(); ++k)
      pass_if_used(param(k), [&] { return g_.x[k]; });
    pass_if_used(length, [&] { return count; });
    const std::size_t n_state = dstate_.size() + captures_.size();
    return derivatives(apply_all(ops::loop, std::move(inputs_),
                                 loop_attrs(n_seq, n_state, sequences_.size(), lambda_)),
                       n_state);
  }

 private:
  const Expr& param(std::size_t k) const { return body_.params[k]; }
  bool wanted(std::size_t operand) const {
    return g_.wanted[operand] && is_continuous(g_.x[operand].dtype());
  }

  /// What the gradient of the body flows in by and out to.
  void seed() {
    dresults_.resize(body_.results.size());
    for (std::size_t k = 0; k < parts_.states; ++k) {
      const std::size_t operand = parts_.state(k);
      if (!is_continuous(g_.x[operand].dtype())) continue;
      states_.push_back(operand);
      dstate_.push_back(snug::input(param(operand).type()));
      dstate_init_.push_back(g_.dy[k] ? g_.dy[k] : snug::zeros_like(g_.x[operand]));
      dresults_[k] = dstate_.back();
      wrt_.push_back(param(operand));
    }
    for (std::size_t k = 0; k < parts_.outputs; ++k) {
      const Expr& dy = g_.dy[parts_.states + k];
      if (!dy) continue;
      dout_.push_back(snug::input(body_.results[parts_.states + k].type()));
      dout_sequences_.push_back(dy);
      dresults_[parts_.states + k] = dout_.back();
    }
    for (std::size_t k = 0; k < parts_.sequences; ++k)
      if (wanted(parts_.sequence(k))) {
        sequences_.push_back(parts_.sequence(k));
        wrt_.push_back(param(parts_.sequence(k)));
      }
    for (std::size_t k = parts_.first_seen_by_all(); k < g_.x.size(); ++k)
      if (wanted(k)) {
        captures_.push_back(k);
        wrt_.push_back(param(k));
        dcapture_.push_back(snug::input(param(k).type()));
      }
  }

  /// The new states: derivatives by states, and those by captures, summed up; then the outputs, by
  /// elements of sequences.
  Exprs body_results() const {
    const Exprs inner = g_.inner_grad(body_.results, dresults_, wrt_);
    Exprs results, outputs;
    std::size_t at = 0;
    const auto next = [&](std::size_t operand) {
      const Expr& d = inner[at++];
      return d ? d : snug::zeros_like(param(operand));
    };
    for (std::size_t operand : states_) results.push_back(next(operand));
    for (std::size_t operand : sequences_) outputs.push_back(next(operand));
    for (std::size_t k = 0; k < captures_.size(); ++k, ++at)
      results.push_back(inner[at] ? dcapture_[k] + inner[at] : dcapture_[k]);
    results.insert(results.end(), outputs.begin(), outputs.end());
    return results;
  }

  void pass(const Expr& p, const Expr& x) {
    lambda_->params.push_back(p);
    inputs_.push_back(x);
  }
  template <class F>
  void pass_if_used(const Expr& p, F&& x) {
    if (used_.count(p.get())) pass(p, x());
  }

  /// Sequences, states as they were before each iteration, and derivatives of outputs, all from
  /// their ends.
  void pass_sequences() {
    for (std::size_t k = 0; k < parts_.sequences; ++k)
      pass_if_used(param(parts_.sequence(k)), [&] { return reversed(g_.x[parts_.sequence(k)]); });
    std::vector<std::size_t> kept;  // states whose values the backward body reads
    for (std::size_t k = 0; k < parts_.states; ++k)
      if (used_.count(param(parts_.state(k)).get())) kept.push_back(k);
    if (!kept.empty()) {
      auto again = std::make_shared<Lambda>();
      again->params = body_.params;
      again->results.assign(body_.results.begin(),
                            body_.results.begin() + static_cast<std::ptrdiff_t>(parts_.states));
      for (std::size_t k : kept) again->results.push_back(param(parts_.state(k)));
      Exprs histories = apply_all(ops::loop, {g_.x.begin(), g_.x.end()},
                                  loop_attrs(parts_.sequences, parts_.states, kept.size(), again));
      for (std::size_t k = 0; k < kept.size(); ++k)
        pass(param(parts_.state(kept[k])), reversed(histories[parts_.states + k]));
    }
    for (std::size_t k = 0; k < dout_.size(); ++k)
      pass_if_used(dout_[k], [&] { return reversed(dout_sequences_[k]); });
  }

  /// By operand of the loop, from the results of the backward one.
  Exprs derivatives(const Exprs& back, std::size_t n_state) const {
    Exprs out(g_.x.size());
    for (std::size_t k = 0; k < states_.size(); ++k) out[states_[k]] = back[k];
    for (std::size_t k = 0; k < captures_.size(); ++k) out[captures_[k]] = back[states_.size() + k];
    for (std::size_t k = 0; k < sequences_.size(); ++k)
      out[sequences_[k]] = reversed(back[n_state + k]);
    return out;
  }

  const GradArgs& g_;
  const LoopShape parts_;
  const Lambda& body_;
  std::vector<std::size_t> states_, sequences_, captures_;  // operands
  Exprs dresults_, wrt_;                                    // of the body
  Exprs dstate_, dstate_init_, dcapture_, dout_, dout_sequences_;
  std::shared_ptr<Lambda> lambda_ = std::make_shared<Lambda>();  // the backward body
  Exprs inputs_;                                                 // of the backward loop
  std::unordered_set<Variable*> used_;                           // by the backward body
};

Exprs loop_grad(const GradArgs& g) {
  if (LoopShape::of(g.attrs).blocks)
    fail(Fault::Unsupported, "loop: a loop over blocks has no gradient",
         "differentiate the loop before it is cut into blocks");
  return LoopGradient(g).run();
}

}  // namespace

const OpDef loop = {
    .name = "loop",
    .doc =
        "Runs a body `count` times over the elements of sequences with states handed on; gives "
        "the last states and the stacked outputs.",
    .arity = -1,
    .outputs = -1,
    .traits = kTakesComplex | kInner,
    .infer = loop_rule,
    .grad = loop_grad,
    .reference = loop_reference,
};

Attrs loop_attrs(std::size_t n_seq, std::size_t n_state, std::size_t n_out,
                 std::shared_ptr<const Lambda> body) {
  Attrs attrs = LoopShape{n_seq, n_state, n_out}.attrs();
  attrs.set("body", std::move(body));
  return attrs;
}

namespace {
thread_local std::vector<Expr> open_indices;
}  // namespace

const std::vector<Expr>& open_loops() { return open_indices; }

}  // namespace snug::ops

namespace snug {
namespace {

/// Says that a body is being built.
struct OpenLoop {
  explicit OpenLoop(const Expr& index) { ops::open_indices.push_back(index); }
  ~OpenLoop() { ops::open_indices.pop_back(); }
  OpenLoop(const OpenLoop&) = delete;
  OpenLoop& operator=(const OpenLoop&) = delete;
};

/// The type of an element of a sequence.
TensorType element_type(const TensorType& t) {
  TensorType out = t;
  out.shape.erase(0);
  out.broadcast = static_cast<std::uint8_t>(t.broadcast >> 1);
  return out;
}

/// Whether a value that does not depend on the iteration is better made again inside: reordering
/// and stretching cost nothing there, and sizes keep their meaning for the sizes of the body.
bool belongs_inside(const Expr& e, const std::unordered_set<Variable*>& inside) {
  if (!e->owner) return constant_value(e) != nullptr;
  const OpDef* op = e->owner->op;
  if (op == &ops::shape || op == &ops::dimshuffle || op == &ops::broadcast_to ||
      op == &ops::rebroadcast)
    return true;
  if (!is_discrete(e.dtype()) || e.ndim() > 1 || has(*op, kMayFail | kReduction | kInner))
    return false;
  // An integer that is known before may be handed in, and sizes made of it there.
  for (const Expr& x : e->owner->inputs)
    if (!inside.count(x.get()) && (x.ndim() != 0 || !is_int(x.dtype()) || ops::is_computed(x)))
      return false;
  return true;
}

/// `results` in terms of `params` and of what they use from outside, which is handed in. Computed
/// inside is what depends on the params, and what `region` holds.
std::vector<Expr> close_over(Lambda& lambda, const std::unordered_set<Variable*>& region = {}) {
  std::unordered_set<Variable*> varying, inside;
  for (const Expr& p : lambda.params) varying.insert(p.get());
  std::vector<Expr> order = topological(lambda.results, lambda.params);
  std::vector<Expr> captures;
  std::vector<std::pair<Expr, Expr>> replacements;
  std::unordered_set<Variable*> taken;
  auto capture = [&](const Expr& e) {
    if (constant_value(e) || !taken.insert(e.get()).second) return;
    captures.push_back(e);
    lambda.params.push_back(input(e.type(), e->name));
    replacements.push_back({e, lambda.params.back()});
  };
  for (const Expr& e : order) {
    if (varying.count(e.get())) continue;
    bool depends = region.count(e.get()) != 0;
    if (e->owner && !depends)
      for (const Expr& x : e->owner->inputs) depends |= varying.count(x.get()) != 0;
    if (depends) {
      varying.insert(e.get());
    } else if (belongs_inside(e, inside)) {
      inside.insert(e.get());
    }
  }
  // What is used inside and made outside. A value inside is only made there if it is used there.
  std::vector<Expr> stack;
  std::unordered_set<Variable*> seen;
  auto visit = [&](const Expr& e) {
    if (varying.count(e.get())) return;
    if (!inside.count(e.get())) return capture(e);
    if (seen.insert(e.get()).second) stack.push_back(e);
  };
  for (const Expr& e : order) {
    if (!varying.count(e.get()) || !e->owner) continue;
    for (const Expr& x : e->owner->inputs) visit(x);
  }
  for (const Expr& e : lambda.results) visit(e);
  while (!stack.empty()) {
    Expr e = stack.back();
    stack.pop_back();
    if (e->owner)
      for (const Expr& x : e->owner->inputs) visit(x);
  }
  lambda.results = substitute(lambda.results, replacements);
  return captures;
}

}  // namespace

LoopResult loop(const LoopBody& fn, const std::vector<Expr>& given_sequences,
                const std::vector<Expr>& given_states, const Expr& given_count, Here where) {
  OriginScope scope(where.file_name(), static_cast<int>(where.line()), where.function_name());
  if (!fn) fail(Fault::Type, "loop: the body is empty");
  std::vector<Expr> sequences = given_sequences, states = given_states;
  Expr count = given_count;
  if (!count) {
    if (sequences.empty())
      fail(Fault::Value, "loop: with no sequences the number of iterations must be given");
    if (sequences[0].ndim() > 0) count = shape_i(sequences[0], 0);
  } else {
    count = cast(count, DType::I64);
    for (Expr& s : sequences)
      if (s.ndim() > 0) s = slice_axis(s, 0, Expr(), count);
  }
  for (std::size_t k = 0; k < sequences.size(); ++k)
    if (sequences[k].ndim() == 0)
      fail(Fault::Type, fmt::format("loop: sequence {} has no axis to run over", k));

  // An initial state may be broadcastable where later ones are not: then try again without.
  for (int attempt = 0;; ++attempt) {
    auto lambda = std::make_shared<Lambda>();
    Expr index = input({DType::I64, {}, 0}, "i");
    lambda->params.push_back(index);
    std::vector<Expr> elements, before;
    for (const Expr& s : sequences) {
      elements.push_back(input(element_type(s.type()), s->name));
      lambda->params.push_back(elements.back());
    }
    for (const Expr& s : states) {
      before.push_back(input(s.type(), s->name));
      lambda->params.push_back(before.back());
    }
    LoopStep step;
    {
      OpenLoop open(index);
      step = fn(index, elements, before);
    }
    if (step.states.size() != states.size())
      fail(Fault::Value, fmt::format("loop: the body gives {} states, there are {}",
                                     step.states.size(), states.size()));
    bool again = false;
    for (std::size_t k = 0; k < states.size(); ++k) {
      Expr& after = step.states[k];
      if (after.ndim() != states[k].ndim()) continue;  // the rule says what is wrong
      if (after.dtype() != states[k].dtype() &&
          upcast(after.dtype(), states[k].dtype()) == states[k].dtype())
        after = cast(after, states[k].dtype());
      std::uint8_t both = after.type().broadcast & states[k].type().broadcast;
      if (both != states[k].type().broadcast) {
        states[k] = rebroadcast(states[k], both);
        again = true;
      } else if (both != after.type().broadcast) {
        after = rebroadcast(after, both);
      }
    }
    if (again) {
      SNUG_CHECK(attempt < 9, "loop: broadcastable axes of the states do not settle");
      continue;
    }
    lambda->results = step.states;
    lambda->results.insert(lambda->results.end(), step.outputs.begin(), step.outputs.end());
    if (lambda->results.empty()) return {};
    std::vector<Expr> inputs{count};
    inputs.insert(inputs.end(), sequences.begin(), sequences.end());
    inputs.insert(inputs.end(), states.begin(), states.end());
    for (Expr& c : close_over(*lambda)) inputs.push_back(std::move(c));
    Attrs attrs =
        ops::loop_attrs(sequences.size(), states.size(), step.outputs.size(), std::move(lambda));
    std::vector<Expr> all = apply_all(ops::loop, std::move(inputs), std::move(attrs));
    LoopResult result;
    result.states.assign(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(states.size()));
    result.outputs.assign(all.begin() + static_cast<std::ptrdiff_t>(states.size()), all.end());
    return result;
  }
}

std::vector<Expr> ops::run_if(const Expr& count, const std::vector<Expr>& results,
                              const std::unordered_set<Variable*>& region) {
  auto lambda = std::make_shared<Lambda>();
  lambda->params.push_back(snug::input({DType::I64, {}, 0}, "i"));
  lambda->results = results;
  std::vector<Expr> inputs{count};
  for (Expr& c : close_over(*lambda, region)) inputs.push_back(std::move(c));
  return apply_all(ops::loop, std::move(inputs), loop_attrs(0, 0, results.size(), lambda));
}

Expr map(const std::function<Expr(const std::vector<Expr>&)>& fn,
         const std::vector<Expr>& sequences, Here where) {
  if (!fn) fail(Fault::Type, "map: the function is empty");
  LoopBody body = [&](const Expr&, const std::vector<Expr>& elements, const std::vector<Expr>&) {
    return LoopStep{{}, {fn(elements)}};
  };
  return loop(body, sequences, {}, {}, where).outputs[0];
}

}  // namespace snug
