#include <unordered_map>
#include <unordered_set>

#include "ops/computed.h"
#include "ops/rules.h"

namespace snug::ops {
namespace {

/// The parts of a loop's operands: count, sequences, states, captures. `blocks`: an iteration sees
/// ceil(rows / count) rows of each sequence (the last one fewer) instead of one element, and
/// outputs are joined instead of stacked.
struct Parts {
  std::size_t n_seq, n_state, n_out;
  bool blocks;
  explicit Parts(const Attrs& a)
      : n_seq(static_cast<std::size_t>(a.integer("n_seq"))),
        n_state(static_cast<std::size_t>(a.integer("n_state"))),
        n_out(static_cast<std::size_t>(a.integer("n_out"))),
        blocks(a.flag("blocks")) {}
  std::size_t seq(std::size_t k) const { return 1 + k; }
  std::size_t state(std::size_t k) const { return 1 + n_seq + k; }
  std::size_t captures() const { return 1 + n_seq + n_state; }
};

/// The body takes the index, an element per sequence, the states and the captures.
void check_params(const Infer& f, const Parts& parts) {
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
  const Parts parts(f.attrs);
  SizeTable& t = f.sizes;
  SNUG_CHECK(
      parts.n_seq <= f.count() && parts.n_state <= f.count() && parts.captures() <= f.count(),
      "loop: {} operands", f.count());
  SNUG_CHECK(f.count() > 0, "loop: no operands");
  f.require_ndim(0, 0);
  require_discrete(f, 0);
  const SizeId count = f.size_element(0);
  require_nonnegative(f, count, "the number of iterations");
  for (std::size_t k = 0; k < parts.n_seq; ++k) {
    const Type& x = f.in(parts.seq(k));
    if (x.ndim() == 0) f.error(Fault::Type, fmt::format("sequence {} has no axis to run over", k));
    f.require_equal(x.dims[0], parts.blocks ? f.in(parts.seq(0)).dims[0] : count,
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
  SNUG_CHECK(parts.n_out <= results.size() && results.size() == parts.n_state + parts.n_out,
             "loop: the body has {} results", results.size());
  for (std::size_t k = 0; k < parts.n_state; ++k) {
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
  for (std::size_t k = 0; k < parts.n_out; ++k) {
    const Type& one = results[parts.n_state + k];
    if (one.ndim() == 8 && !parts.blocks)
      f.error(Fault::Type, fmt::format("output {} would have more than 8 dimensions", k));
    Type out;
    out.dtype = one.dtype;
    if (parts.blocks) {
      if (one.ndim() == 0 || parts.n_seq == 0)
        f.error(Fault::Type, fmt::format("output {} has no axis to join", k));
      out.dims = one.dims;
      out.dims[0] = f.in(parts.seq(0)).dims[0];
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
  const Parts parts(r.attrs);
  const std::int64_t count = r.x[0]->i[0];
  std::vector<RefTensor> states;
  for (std::size_t k = 0; k < parts.n_state; ++k) states.push_back(*r.x[parts.state(k)]);
  std::vector<std::int64_t> filled(parts.n_out, 0);
  for (std::int64_t step = 0; step < count; ++step) {
    std::vector<RefTensor> args;
    RefTensor index = RefTensor::zeros(DType::I64, {});
    index.i[0] = step;
    args.push_back(std::move(index));
    for (std::size_t k = 0; k < parts.n_seq; ++k) {
      const RefTensor& x = *r.x[parts.seq(k)];
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
    for (std::size_t k = parts.captures(); k < r.x.size(); ++k) args.push_back(*r.x[k]);
    std::vector<RefTensor> results = r.inner(args);
    for (std::size_t k = 0; k < parts.n_state; ++k) states[k] = results[k];
    for (std::size_t k = 0; k < parts.n_out; ++k) {
      const RefTensor& one = results[parts.n_state + k];
      RefTensor& all = r.y[parts.n_state + k];
      for (std::int64_t e = 0; e < one.size(); ++e) all.set(filled[k] + e, one.at(e));
      filled[k] += one.size();
    }
  }
  for (std::size_t k = 0; k < parts.n_state; ++k) r.y[k] = states[k];
}

Expr reversed(const Expr& x) { return snug::slice_axis(x, 0, Expr(), Expr(), Expr(-1)); }

/// The loop backwards. Its body is the gradient of the forward body; the states before each
/// iteration come from running the loop again with them as outputs.
Exprs loop_grad(const GradArgs& g) {
  const Parts parts(g.attrs);
  const Lambda& body = *g.attrs.lambda("body");
  if (parts.blocks)
    fail(Fault::Unsupported, "loop: a loop over blocks has no gradient",
         "differentiate the loop before it is cut into blocks");
  const Expr& count = g.x[0];
  auto param = [&](std::size_t k) -> const Expr& { return body.params[k]; };

  // What the gradient of the body flows in by and out to.
  Exprs dresults(body.results.size()), wrt;
  Exprs dstate, dstate_init, dcapture, dout, dout_sequences;
  std::vector<std::size_t> states, sequences, captures;  // operand numbers
  for (std::size_t k = 0; k < parts.n_state; ++k) {
    const std::size_t operand = parts.state(k);
    if (!is_continuous(g.x[operand].dtype())) continue;
    states.push_back(operand);
    dstate.push_back(snug::input(param(operand).type()));
    dstate_init.push_back(g.dy[k] ? g.dy[k] : snug::zeros_like(g.x[operand]));
    dresults[k] = dstate.back();
    wrt.push_back(param(operand));
  }
  for (std::size_t k = 0; k < parts.n_out; ++k) {
    const Expr& dy = g.dy[parts.n_state + k];
    if (!dy) continue;
    dout.push_back(snug::input(body.results[parts.n_state + k].type()));
    dout_sequences.push_back(dy);
    dresults[parts.n_state + k] = dout.back();
  }
  for (std::size_t k = 0; k < parts.n_seq; ++k)
    if (g.wanted[parts.seq(k)] && is_continuous(g.x[parts.seq(k)].dtype())) {
      sequences.push_back(parts.seq(k));
      wrt.push_back(param(parts.seq(k)));
    }
  for (std::size_t k = parts.captures(); k < g.x.size(); ++k)
    if (g.wanted[k] && is_continuous(g.x[k].dtype())) {
      captures.push_back(k);
      wrt.push_back(param(k));
      dcapture.push_back(snug::input(param(k).type()));
    }
  Exprs inner = g.inner_grad(body.results, dresults, wrt);

  Exprs results;
  std::size_t at = 0;
  for (std::size_t k = 0; k < states.size(); ++k, ++at)
    results.push_back(inner[at] ? inner[at] : snug::zeros_like(param(states[k])));
  Exprs outputs;
  for (std::size_t k = 0; k < sequences.size(); ++k, ++at)
    outputs.push_back(inner[at] ? inner[at] : snug::zeros_like(param(sequences[k])));
  for (std::size_t k = 0; k < captures.size(); ++k, ++at)
    results.push_back(inner[at] ? dcapture[k] + inner[at] : dcapture[k]);
  results.insert(results.end(), outputs.begin(), outputs.end());

  // Backwards, iteration r does what iteration count - 1 - r did.
  Expr r = snug::input({DType::I64, {}, 0}), length = snug::input(count.type());
  results = substitute(results, {{param(0), snug::cast(length, DType::I64) - 1 - r}});
  std::unordered_set<Variable*> used;
  for (const Expr& e : topological(results)) used.insert(e.get());

  auto lambda = std::make_shared<Lambda>();
  lambda->results = results;
  lambda->params.push_back(r);
  Exprs inputs{count};
  auto pass = [&](const Expr& p, const Expr& x) {
    lambda->params.push_back(p);
    inputs.push_back(x);
  };
  for (std::size_t k = 0; k < parts.n_seq; ++k)
    if (used.count(param(parts.seq(k)).get()))
      pass(param(parts.seq(k)), reversed(g.x[parts.seq(k)]));
  std::vector<std::size_t> kept;  // states whose values the backward body reads
  for (std::size_t k = 0; k < parts.n_state; ++k)
    if (used.count(param(parts.state(k)).get())) kept.push_back(k);
  if (!kept.empty()) {
    auto again = std::make_shared<Lambda>();
    again->params = body.params;
    again->results.assign(body.results.begin(),
                          body.results.begin() + static_cast<std::ptrdiff_t>(parts.n_state));
    for (std::size_t k : kept) again->results.push_back(param(parts.state(k)));
    Exprs histories = apply_all(ops::loop, {g.x.begin(), g.x.end()},
                                loop_attrs(parts.n_seq, parts.n_state, kept.size(), again));
    for (std::size_t k = 0; k < kept.size(); ++k)
      pass(param(parts.state(kept[k])), reversed(histories[parts.n_state + k]));
  }
  for (std::size_t k = 0; k < dout.size(); ++k)
    if (used.count(dout[k].get())) pass(dout[k], reversed(dout_sequences[k]));
  const std::size_t n_seq = inputs.size() - 1;
  for (std::size_t k = 0; k < dstate.size(); ++k) pass(dstate[k], dstate_init[k]);
  for (std::size_t k = 0; k < captures.size(); ++k)
    pass(dcapture[k], snug::zeros_like(g.x[captures[k]]));
  for (std::size_t k = parts.captures(); k < g.x.size(); ++k)
    if (used.count(param(k).get())) pass(param(k), g.x[k]);
  if (used.count(length.get())) pass(length, count);

  const std::size_t n_state = dstate.size() + captures.size();
  Exprs back =
      apply_all(ops::loop, std::move(inputs), loop_attrs(n_seq, n_state, sequences.size(), lambda));
  Exprs out(g.x.size());
  for (std::size_t k = 0; k < states.size(); ++k) out[states[k]] = back[k];
  for (std::size_t k = 0; k < captures.size(); ++k) out[captures[k]] = back[states.size() + k];
  for (std::size_t k = 0; k < sequences.size(); ++k)
    out[sequences[k]] = reversed(back[n_state + k]);
  return out;
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
  return {{"n_seq", static_cast<std::int64_t>(n_seq)},
          {"n_state", static_cast<std::int64_t>(n_state)},
          {"n_out", static_cast<std::int64_t>(n_out)},
          {"body", std::move(body)},
          {"blocks", false}};
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
