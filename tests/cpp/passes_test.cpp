#include "passes.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>

#include "autodiff/grad.h"
#include "backend/devices.h"
#include "graph_text.h"
#include "ops/functions.h"
#include "rewrite/passes.h"

namespace snug::testing {
namespace {

struct Family {
  std::string_view name;                  // of the pass, and of its file
  const RuleTable& (*rules)() = nullptr;  // that all have a case; null: it is no table of rules
  bool special = true;                    // exact on NaN, infinities, -0 and wrapping integers
  double tolerance = 0;
  bool lossy = false;  // the tolerance is of the largest element
  bool fixed_point = true;
};
const Family kFamilies[] = {
    {"canonicalize", canonicalize_rules},
    {"lift_shapes", lift_shapes_rules},
    {"fold_constants", fold_constants_rules, true, 1e-7},
    {"stabilize", stabilize_rules, false, 1e-9},
    {"simplify", simplify_rules, true, 1e-14},
    {"relu_behind_pool", nullptr, false},
    {"expand", expand_rules, false, 1e-9},
    {"pool_without_index"},
    {"multiply_in_bfloat16", nullptr, false, 0.02, true},
    {"split_batch", nullptr, false, 1e-12, false, false},
    {"prefer_channels_last", nullptr, false, 1e-12},
    {"absorb_bias", nullptr, false, 1e-12},
    {"insert_copies"},
    {"round_activations", nullptr, false, 0.02, true, false},
};

const PassRow& row_of(std::string_view name) {
  for (const PassRow& row : all_passes())
    if (row.name == name) return row;
  throw std::runtime_error(fmt::format("no pass {}", name));
}

std::optional<Graph> run_pass(const Family& family, const Graph& graph, RuleCounts& counts) {
  CompileOptions options;
  options.micro_batches = 2;
  PassNotes notes;
  std::optional<Graph> out =
      row_of(family.name).run(graph, {options, host_only()->libraries()}, notes);
  counts = std::move(notes.counts);
  return out;
}

std::string golden_path(std::string_view name) {
  return fmt::format("{}/golden/{}.txt", SNUG_TESTS, name);
}

/// Without where nodes are from: a line of a test.
std::string text_without_origins(const Graph& graph) {
  return std::regex_replace(print(graph), std::regex(" +#[^\n]*"), "");
}

struct Case {
  std::string title, in, out;
};

/// "== title", the graph as text, "---", the graph that comes out.
std::vector<Case> read_cases(const std::string& path, std::string& header) {
  std::ifstream file(path);
  EXPECT_TRUE(file.good()) << path;
  std::vector<Case> cases;
  std::string line;
  bool out = false;
  while (std::getline(file, line)) {
    if (line.rfind("== ", 0) == 0) {
      cases.push_back({line.substr(3), {}, {}});
      out = false;
    } else if (cases.empty()) {
      header += line + "\n";
    } else if (line == "---") {
      out = true;
    } else if (!line.empty()) {
      (out ? cases.back().out : cases.back().in) += line + "\n";
    }
  }
  return cases;
}

std::vector<RefTensor> random_inputs(const TextGraph& t, std::mt19937& rng, bool special) {
  std::vector<RefTensor> inputs;
  for (std::size_t k = 0; k < t.shapes.size(); ++k)
    inputs.push_back(
        random_tensor(t.graph.type(t.graph.inputs()[k].value).dtype, t.shapes[k], rng, special));
  return inputs;
}

/// Equal up to `tolerance` of the largest element.
bool near(const RefTensor& a, const RefTensor& b, double tolerance) {
  double largest = 0, apart = 0;
  for (std::size_t k = 0; k < a.f.size(); ++k) {
    largest = std::max(largest, std::fabs(a.f[k]));
    apart = std::max(apart, std::fabs(a.f[k] - b.f[k]));
  }
  return a.dtype == b.dtype && a.shape == b.shape && apart <= tolerance * largest;
}

void expect_same_numbers(const TextGraph& before, const Graph& after, bool special,
                         double tolerance, const std::string& what, bool lossy = false) {
  std::mt19937 rng(7);
  for (int round = 0; round < 20; ++round) {
    std::vector<RefTensor> inputs = random_inputs(before, rng, special);
    std::vector<RefTensor> a = interpret(before.graph, inputs), b = interpret(after, inputs);
    ASSERT_EQ(a.size(), b.size());
    for (std::size_t k = 0; k < a.size(); ++k) {
      if (lossy ? near(a[k], b[k], tolerance) : close(a[k], b[k], tolerance, special)) continue;
      std::string text;
      for (const RefTensor& x : inputs) text += text_of(x) + "\n";
      FAIL() << what << "\ninputs\n"
             << text << "before\n"
             << text_of(a[k]) << "\nafter\n"
             << text_of(b[k]) << "\n"
             << print(before.graph) << print(after);
    }
  }
}

class GoldenTest : public ::testing::TestWithParam<Family> {};

TEST_P(GoldenTest, RulesDoWhatTheyDid) {
  const Family& family = GetParam();
  std::string header, path = golden_path(family.name);
  std::vector<Case> cases = read_cases(path, header);
  bool update = std::getenv("SNUG_UPDATE_GOLDEN") != nullptr;
  std::set<std::string> covered;
  std::string rewritten = header;
  for (Case& c : cases) {
    SCOPED_TRACE(c.title);
    TextGraph in = graph_from(c.in);
    verify(in.graph, "golden");
    RuleCounts counts;
    std::optional<Graph> changed = run_pass(family, in.graph, counts);
    std::string out = changed ? text_without_origins(*changed) : "unchanged\n";
    for (const auto& [rule, count] : counts) {
      covered.insert(std::string(rule));
      out += fmt::format("{} x {}\n", count, rule);
    }
    if (update)
      rewritten += fmt::format("== {}\n{}---\n{}\n", c.title, c.in, out);
    else
      EXPECT_EQ(out, c.out);
    if (!changed) continue;
    verify(*changed, std::string(family.name));
    expect_same_numbers(in, *changed, false, family.tolerance, c.title, family.lossy);
    if (family.special) expect_same_numbers(in, *changed, true, family.tolerance, c.title);
    RuleCounts again;
    if (family.fixed_point) {
      EXPECT_FALSE(run_pass(family, *changed, again)) << "no fixed point";
    }
  }
  EXPECT_FALSE(cases.empty());
  if (update) std::ofstream(path) << rewritten;
  if (!family.rules) return;
  for (std::string_view rule : family.rules().names())
    EXPECT_TRUE(covered.count(std::string(rule))) << "no case for: " << rule;
}

INSTANTIATE_TEST_SUITE_P(Rewrite, GoldenTest, ::testing::ValuesIn(kFamilies),
                         [](const auto& info) { return std::string(info.param.name); });

TEST(Passes, EachHasCases) {
  for (const PassRow& row : all_passes())
    EXPECT_TRUE(std::any_of(std::begin(kFamilies), std::end(kFamilies),
                            [&](const Family& f) { return f.name == row.name; }))
        << row.name << " has no golden file";
}

Graph rewritten(const Graph& graph, PassTrace& trace, std::vector<std::string> disabled = {},
                const PassOptions& passes = {}) {
  CompileOptions options;
  options.disabled_passes = std::move(disabled);
  trace = begin_passes(options);
  return run_passes(PassStage::Rewrite, graph, {options, host_only()->libraries()}, trace, passes);
}
Graph rewritten(const Graph& graph, std::vector<std::string> disabled = {}) {
  PassTrace trace;
  return rewritten(graph, trace, std::move(disabled));
}

bool has_op(const Graph& graph, std::string_view name) {
  for (const Node& node : graph.nodes())
    if (node.op->name == name) return true;
  return false;
}

RefTensor vector_of(std::vector<double> values, DType dtype = DType::F64) {
  RefTensor t = RefTensor::zeros(dtype, {static_cast<std::int64_t>(values.size())});
  t.f = std::move(values);
  return t;
}

// ---- formulas ----

TEST(Formula, ReadsOpsNumbersAndVariables) {
  Formula f = parse_formula("log(1 + x) -> log1p(x)");
  EXPECT_EQ(f.root().name, "log");
  EXPECT_EQ(f.left.size(), 2u);  // 1 + x and x + 1
  EXPECT_EQ(f.variables.size(), 1u);
  EXPECT_EQ(f.terms[f.right].op->name, "log1p");
}

TEST(Formula, RefusesWhatItCannotRead) {
  EXPECT_THROW(parse_formula("log(1 + x"), Error);
  EXPECT_THROW(parse_formula("log(x) -> y"), Error);
  EXPECT_THROW(parse_formula("x -> x"), Error);
  EXPECT_THROW(parse_formula("lgo(x) -> x"), Error);
}

TEST(Formula, KeepsTheSignOfZero) {
  Formula f = parse_formula("x + -0 -> x");
  const Term& root = f.terms[f.left[0]];
  EXPECT_TRUE(std::signbit(f.terms[root.operands[1]].number));
}

// ---- the runner ----

TEST(Rewrite, TraceNamesRulesAndReasons) {
  TextGraph t = graph_from("x: float32 (n, m)\nreturn log(softmax(x * 1.0))\n");
  PassTrace trace;
  Graph g = rewritten(t.graph, trace, {}, {.keep_graphs = true});
  ASSERT_EQ(trace.passes.size(), all_passes().size());
  std::size_t fired = 0;
  for (const auto& pass : trace.passes) {
    EXPECT_FALSE(pass.why_here.empty());
    for (const auto& rule : pass.rules) fired += rule.count;
  }
  EXPECT_GE(fired, 2u);
  EXPECT_NE(trace.describe().find("log(softmax(x)) -> log_softmax(x)"), std::string::npos);
  EXPECT_FALSE(has_op(g, "softmax"));
  EXPECT_FALSE(has_op(g, "log_softmax"));
}

TEST(Rewrite, PassesCanBeDisabledByName) {
  TextGraph t = graph_from("x: float32 (n, m)\nreturn x * 1.0\n");
  EXPECT_FALSE(has_op(rewritten(t.graph), "mul"));
  EXPECT_TRUE(has_op(rewritten(t.graph, {"simplify"}), "mul"));
  try {
    rewritten(t.graph, {"simplifi"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Value);
    EXPECT_NE(e.hint().find("simplify"), std::string::npos);
  }
  EXPECT_THROW(rewritten(t.graph, {"expand"}), Error);
  try {
    rewritten(t.graph, {"split_batch"});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Value);
    EXPECT_NE(e.hint().find("micro_batches"), std::string::npos);
  }
}

TEST(Rewrite, NewNodesHaveTheOriginOfWhatTheyReplace) {
  std::vector<Expr> inputs{input({DType::F32, {-1}, 0}, "x")};
  Frame frame{"model.py", 12, "f"};
  Expr y;
  {
    OriginOverride origin(intern_origin({&frame, 1}));
    y = apply(find_op("log"), {apply(find_op("softmax"), {inputs[0]})});
  }
  std::vector<Expr> outputs{y};
  Graph g = rewritten(capture({inputs, outputs, {}, {}, false}).graph);
  for (std::uint32_t id = 1; id < g.nodes().size(); ++id)
    EXPECT_EQ(describe(g.node(id).origin), "model.py:12") << g.node(id).op->name;
}

TEST(Rewrite, EndlessRulesAreAnInternalError) {
  static constexpr Rule kLoop[] = {{"sin(x) -> cos(x)"}, {"cos(x) -> sin(x)"}};
  static constexpr Rule kGrow[] = {{"sin(x) -> sin(tanh(x))"}};
  TextGraph t = graph_from("x: float32 (n)\nreturn sin(x)\n");
  for (std::span<const Rule> rules : {std::span<const Rule>(kLoop), std::span<const Rule>(kGrow)}) {
    RuleTable table(rules, {});
    RuleCounts counts;
    try {
      apply_rules(t.graph, table, counts);
      FAIL();
    } catch (const Error& e) {
      EXPECT_EQ(e.fault(), Fault::Internal);
      EXPECT_NE(std::string(e.what()).find("sin(x) ->"), std::string::npos);
    }
  }
}

// ---- what must not happen ----

TEST(Rewrite, KeepsWhatIsNotExact) {
  const char* same[] = {
      "x: float32 (n)\nreturn x + 0.0\n",            // -0
      "x: float32 (n)\nreturn x * 0.0\n",            // NaN
      "x: float32 (n)\nreturn x - x\n",              // inf
      "x: float32 (n)\nreturn x / x\n",              // 0
      "x: float32 (n)\nreturn exp(log(x))\n",        // negative x
      "x: float32 (n)\nreturn pow(x, 0.5)\n",        // -inf
      "x: float32 (n)\nreturn sum(-x, axis=[0])\n",  // the sign of 0
      "x: float32 (n)\nreturn x / 3.0\n",
      "x: int32 (n)\nreturn cast(cast(x, float32), int64)\n",
      "x: int8 (n)\ny: int32 (n)\nreturn y - (-x)\n",  // -x wraps in int8
      "x: uint8 (n)\nreturn abs(-x)\n",
      "x: int32 (n)\nreturn log(1 + x)\n",  // 1 + x wraps
  };
  for (const char* text : same) {
    TextGraph t = graph_from(text);
    for (const Family& family : kFamilies) {
      if (!family.rules || family.name == "canonicalize") continue;
      RuleCounts counts;
      EXPECT_FALSE(run_pass(family, t.graph, counts)) << text << counts[0].first;
    }
  }
}

// ---- stability ----

double first(const Graph& g, std::vector<RefTensor> x) { return interpret(g, x)[0].f[0]; }

TEST(Stabilize, IsFiniteWhereTheOldFormIsNot) {
  struct {
    const char* text;
    double x, expected;
  } cases[] = {
      {"x: float64 (n)\nreturn log(1.0 + exp(x))\n", 1000, 1000},
      {"x: float64 (n)\nreturn log(sigmoid(x))\n", -1000, -1000},
      {"x: float64 (n)\nreturn log(1.0 - sigmoid(x))\n", 1000, -1000},
      {"x: float64 (n)\nreturn 1.0 / (1.0 + exp(-x))\n", -1000, 0},
      {"x: float64 (n)\nreturn exp(x) / (1.0 + exp(x))\n", 1000, 1},
      {"x: float64 (n)\nreturn log(1.0 + x)\n", 1e-20, 1e-20},
      {"x: float64 (n)\nreturn exp(x) - 1.0\n", 1e-20, 1e-20},
      {"x: float64 (n)\nreturn log(sum(exp(x), axis=[0]))\n", 1000, 1000},
      {"x: float64 (n)\nreturn exp(x) / sum(exp(x), axis=[0])\n", 1000, 1},
      {"x: float64 (n)\nreturn (2.0 / sum(exp(x), axis=[0])) * exp(x)\n", 1000, 2},
      {"x: float64 (n)\nreturn log(softmax(x))\n", 5, 0},
  };
  for (const auto& c : cases) {
    TextGraph t = graph_from(c.text);
    EXPECT_NEAR(first(rewritten(t.graph), {vector_of({c.x})}), c.expected,
                1e-12 * std::fabs(c.expected))
        << c.text;
  }
}

TEST(Stabilize, LogSumExpOfInfinities) {
  const double inf = std::numeric_limits<double>::infinity();
  TextGraph t = graph_from("x: float64 (n)\nreturn log(sum(exp(x), axis=[0]))\n");
  Graph g = rewritten(t.graph);
  EXPECT_EQ(first(g, {vector_of({-inf, -inf})}), -inf);
  EXPECT_EQ(first(g, {vector_of({-inf, 2.0})}), 2.0);
  EXPECT_EQ(first(g, {vector_of({inf, 2.0})}), inf);
  EXPECT_EQ(first(g, {vector_of({inf, -inf})}), inf);
  EXPECT_TRUE(std::isnan(first(g, {vector_of({std::nan(""), 2.0})})));
}

TEST(Stabilize, GradientOfCrossEntropy) {
  // t - p * sum(t), t = scatter_add(0, d / p[i, y], i, y) * p
  TextGraph t = graph_from(
      "x: float64 (n, m)\ni: int64 (n)\ny: int64 (n)\nd: float64 (1)\n"
      "p = softmax(x)\n"
      "z = broadcast_to(0.0, shape(x))\n"
      "t = scatter_add(cast(z, float64), broadcast_to(d / gather(p, i, y), shape(i)), i, y) * p\n"
      "return t - p * dimshuffle(sum(t, axis=[1]), pattern=[0, -1])\n");
  Graph g = rewritten(t.graph);
  EXPECT_FALSE(has_op(g, "gather")) << print(g);
  RefTensor x = RefTensor::zeros(DType::F64, {1, 2}), i = RefTensor::zeros(DType::I64, {1}), y = i,
            d = RefTensor::zeros(DType::F64, {1});
  x.f = {0, 2000};
  d.f = {-1};
  RefTensor dx = interpret(g, {x, i, y, d})[0];
  EXPECT_EQ(dx.f[0], -1);
  EXPECT_EQ(dx.f[1], 1);
}

Graph with_gradient(const std::vector<Expr>& inputs, const Expr& loss, const Expr& x) {
  std::vector<Expr> outputs{loss, gradients(loss, {x})[0]};
  return capture({inputs, outputs, {}, {}, false}).graph;
}

TEST(Stabilize, LossesAndTheirGradientsAtTheExtremes) {
  Expr x = dmatrix("x"), t = dmatrix("t"), y = lvector("y");
  RefTensor xv = RefTensor::zeros(DType::F64, {2, 3}), tv = xv,
            yv = RefTensor::zeros(DType::I64, {2});
  xv.f = {0, -1000, 2000, 1, 2, 800};
  tv.f = {0, 1, 0, 1, 0.5, 1};
  yv.i = {0, 1};
  struct {
    const char* name;
    Graph graph;
    std::vector<RefTensor> inputs;
    double loss;
    std::vector<double> gradient;
  } cases[] = {
      {"integer targets",
       with_gradient({x, y}, mean(categorical_crossentropy(softmax(x), y)), x),
       {xv, yv},
       1399,
       {-0.5, 0, 0.5, 0, -0.5, 0.5}},
      {"distributions",
       with_gradient({x, t}, mean(categorical_crossentropy(softmax(x), t)), x),
       {xv, tv},
       2099,
       {0, -0.5, 0.5, -0.5, -0.25, 0.75}},
      {"binary",
       with_gradient({x, t}, sum(binary_crossentropy(sigmoid(x), t)), x),
       {xv, tv},
       3002.1333368791214,
       {0.5, -1, 1, 1 / (1 + std::exp(-1.0)) - 1, 1 / (1 + std::exp(-2.0)) - 0.5, 0}},
      {"logsumexp",
       with_gradient({x}, sum(log(sum(exp(x), 1))), x),
       {xv},
       2800,
       {0, 0, 1, 0, 0, 1}},
      {"softplus",
       with_gradient({x}, sum(log(1 + exp(x))), x),
       {xv},
       2804.1333368791214,
       {0.5, 0, 1, 1 / (1 + std::exp(-1.0)), 1 / (1 + std::exp(-2.0)), 1}},
  };
  for (const auto& c : cases) {
    SCOPED_TRACE(c.name);
    std::vector<RefTensor> out = interpret(rewritten(c.graph), c.inputs);
    EXPECT_NEAR(out[0].f[0], c.loss, 1e-9);
    for (std::size_t k = 0; k < c.gradient.size(); ++k)
      EXPECT_NEAR(out[1].f[k], c.gradient[k], 1e-12) << k;
  }
}

// ---- loops ----

TEST(Rewrite, BodiesOfLoopsAreRewrittenToo) {
  Expr x = dmatrix("x"), w = dvector("w");
  LoopResult r = loop(
      [&](const Expr&, const std::vector<Expr>& e, const std::vector<Expr>& s) {
        Expr next = log(softmax(s[0] * 1.0 + e[0] * w));
        return LoopStep{{next}, {sum(next)}};
      },
      {x}, {w});
  std::vector<Expr> inputs{x, w}, outputs{r.states[0], r.outputs[0]};
  Graph g = capture({inputs, outputs, {}, {}, false}).graph, after = rewritten(g);
  bool found = false;
  for (const Node& node : after.nodes())
    if (node.inner) {
      found = true;
      EXPECT_FALSE(has_op(*node.inner, "softmax"));
      EXPECT_FALSE(has_op(*node.inner, "log_softmax"));
    }
  EXPECT_TRUE(found);
  std::mt19937 rng(3);
  std::vector<RefTensor> values{random_tensor(DType::F64, {4, 3}, rng, false),
                                random_tensor(DType::F64, {3}, rng, false)};
  auto a = interpret(g, values), b = interpret(after, values);
  ASSERT_EQ(a.size(), 2u);
  EXPECT_EQ(a[1].shape, (Dims{4}));
  for (std::size_t k = 0; k < a.size(); ++k) EXPECT_TRUE(close(a[k], b[k], 1e-9, false));
}

// ---- sizes known while running ----

TEST(Rewrite, RunTimeSizesKeepTheirSymbols) {
  Expr x = dvector("x");
  Expr picked = subtensor(x, {IndexItem(gt(x, 0.0))});       // bounded
  Expr steps = arange(cast(sum(picked * 1.0), DType::I64));  // unbounded
  std::vector<Expr> inputs{x}, outputs{sum(picked * 2.0), sum(steps), shape(picked * 1.0)};
  Graph g = capture({inputs, outputs, {}, {}, false}).graph, after = rewritten(g);
  RefTensor v = vector_of({1, -2, 3, 0, 2});
  auto a = interpret(g, {v}), b = interpret(after, {v});
  EXPECT_EQ(a[0].f[0], 12);
  EXPECT_EQ(a[1].i[0], 15);
  EXPECT_EQ(a[2].i[0], 3);
  for (std::size_t k = 0; k < a.size(); ++k) EXPECT_TRUE(close(a[k], b[k], 0)) << text_of(b[k]);
}

// ---- shapes ----

TEST(LiftShapes, AskingForAShapeComputesNothing) {
  TextGraph t = graph_from(
      "x: float32 (n, m)\ny: float32 (m, k)\n"
      "return shape(tanh(dot(x, y))), shape(sum(exp(x), axis=[0]))\n");
  Graph g = rewritten(t.graph);
  for (std::string_view op : {"dot", "tanh", "exp", "sum"}) EXPECT_FALSE(has_op(g, op)) << op;
  RefTensor x = RefTensor::zeros(DType::F32, {3, 4}), y = RefTensor::zeros(DType::F32, {4, 2});
  auto out = interpret(g, {x, y});
  EXPECT_EQ(out[0].i, (std::vector<std::int64_t>{3, 2}));
  EXPECT_EQ(out[1].i, (std::vector<std::int64_t>{4}));
}

// ---- size ----

Graph chain(std::size_t ops, bool busy) {
  Expr x = input({DType::F32, {-1}, 0}, "x"), y = x;
  for (std::size_t k = 0; k < ops; ++k) {
    const char* name = !busy ? "tanh" : k % 4 == 3 ? "neg" : k % 4 == 2 ? "neg" : "tanh";
    y = apply(find_op(name), {y});
  }
  std::vector<Expr> inputs{x}, outputs{y};
  return capture({inputs, outputs, {}, {}, false}).graph;
}

TEST(Rewrite, LongChains) {
  for (bool busy : {false, true}) {
    PassTrace trace;
    Graph r = rewritten(chain(10'000, busy), trace, {}, {.verify = false});
    EXPECT_EQ(r.nodes().size(), busy ? 5'001u : 10'001u) << trace.describe();
  }
}

TEST(Rewrite, DeepChainsDoNotRecurse) {
  Graph r = rewritten(chain(100'000, true));
  EXPECT_EQ(r.nodes().size(), 50'001u);
}

// ---- random graphs ----

/// A program of random elementwise ops, reductions and views in one of several dtypes.
std::string random_program(std::mt19937& rng) {
  auto pick = [&](std::vector<const char*> from) { return std::string(from[rng() % from.size()]); };
  std::string dtype = pick({"float32", "float64", "int32", "int8", "uint8", "int64", "uint64"});
  bool floating = dtype[0] == 'f';
  std::string text =
      fmt::format("a: {0} (n, m)\nb: {0} (m)\nc: {0} (1, m)\ne: {0} (n, 1)\n", dtype);
  std::vector<std::string> names{"a", "b", "c", "e"};
  std::vector<std::string> full{"a"};
  for (int k = 0; k < 12; ++k) {
    auto any = [&] { return names[rng() % names.size()]; };
    std::string v = fmt::format("v{}", k), rhs;
    switch (rng() % 10) {
      case 0:
      case 1: rhs = fmt::format("{} {} {}", any(), pick({"+", "-", "*"}), any()); break;
      case 2:
        rhs =
            fmt::format("{} {} {}", any(), pick({"+", "-", "*"}), pick({"0", "1", "-1", "2", "1"}));
        break;
      case 3: rhs = fmt::format("-{}", any()); break;
      case 4: rhs = fmt::format("{}({})", pick({"abs", "sqr", "sign", "floor"}), any()); break;
      case 5: rhs = fmt::format("{}({}, {})", pick({"minimum", "maximum"}), any(), any()); break;
      case 6:
        rhs = fmt::format(
            "switch({}, {}, {})",
            pick({"true", "false", "lt(a, b)", "invert(eq(a, b))", "invert(invert(lt(a, c)))"}),
            any(), any());
        break;
      case 7: rhs = fmt::format("pow({}, {})", any(), pick({"1", "2", "3"})); break;
      case 8:
        rhs = fmt::format("dimshuffle(dimshuffle({0} + a, pattern=[1, 0]), pattern=[1, 0])", any());
        break;
      default:
        if (floating)
          rhs = fmt::format("{} {} {}", any(), pick({"/", "*"}),
                            pick({"2.0", "-1.0", "1.0", "0.25", "0.0"}));
        else
          rhs = fmt::format("cast(cast({}, {}), {})", any(), pick({"int64", "float64", "int16"}),
                            dtype);
    }
    text += fmt::format("{} = {}\n", v, rhs);
    // Arithmetic with int8 numbers may widen; keep one dtype so that rules meet.
    text += fmt::format("{0} = cast({0}, {1})\n", v, dtype);
    names.push_back(v);
  }
  std::string last = names.back(), other = names[names.size() - 2];
  text += fmt::format("return {} + {}, {}, broadcast_to({}, shape(a)) * 1\n", last, other,
                      names[names.size() - 3], "b");
  return text;
}

/// SNUG_FUZZ=n: n times as many graphs.
int graphs(int usual) {
  const char* factor = std::getenv("SNUG_FUZZ");
  return factor ? usual * std::atoi(factor) : usual;
}

TEST(Rewrite, RandomGraphsKeepTheirNumbers) {
  std::mt19937 rng(11);
  const char* passes[] = {"canonicalize", "lift_shapes", "fold_constants", "stabilize", "simplify"};
  for (int k = 0; k < graphs(300); ++k) {
    std::string text = random_program(rng);
    SCOPED_TRACE(text);
    TextGraph t = graph_from(text);
    for (int off = -1; off < 1; ++off) {
      std::vector<std::string> disabled;
      if (off == 0) disabled.push_back(passes[rng() % std::size(passes)]);
      Graph g = rewritten(t.graph, disabled);
      std::vector<RefTensor> inputs = random_inputs(t, rng, true);
      auto a = interpret(t.graph, inputs), b = interpret(g, inputs);
      for (std::size_t i = 0; i < a.size(); ++i)
        ASSERT_TRUE(close(a[i], b[i], 1e-12)) << text_of(a[i]) << "\n"
                                              << text_of(b[i]) << "\n"
                                              << print(g);
    }
  }
}

/// Functions that the rules of stability look for.
std::string random_functions(std::mt19937& rng) {
  auto pick = [&](std::vector<const char*> from) { return std::string(from[rng() % from.size()]); };
  std::string text = "a: float64 (n, m)\nb: float64 (n, m)\nc: float64 (1, m)\n";
  std::vector<std::string> names{"a", "b", "c"};
  for (int k = 0; k < 8; ++k) {
    auto any = [&] {
      return names[names.size() - 1 - rng() % std::min<std::size_t>(names.size(), 4)];
    };
    std::string rhs;
    switch (rng() % 8) {
      case 0:
      case 1:
        rhs = fmt::format("{}({})", pick({"exp", "log", "sigmoid", "softplus", "log1p", "expm1"}),
                          any());
        break;
      case 2: rhs = fmt::format("{} {} {}", any(), pick({"+", "-", "*"}), any()); break;
      case 3: rhs = fmt::format("1.0 {} {}", pick({"+", "-"}), any()); break;
      case 4: rhs = fmt::format("-{}", any()); break;
      case 5: rhs = fmt::format("log(softmax({} + a))", any()); break;
      case 6:
        rhs = fmt::format("dimshuffle(sum(exp({} + a), axis=[1]), pattern=[0, -1])", any());
        break;
      default: rhs = fmt::format("exp({0}) / sum(exp({0}), axis=[0])", any());
    }
    text += fmt::format("v{} = {}\n", k, rhs);
    names.push_back(fmt::format("v{}", k));
  }
  return text + fmt::format("return {} + a, {}\n", names.back(), names[names.size() - 2]);
}

TEST(Rewrite, RandomFunctionsKeepTheirNumbers) {
  std::mt19937 rng(12);
  std::size_t compared = 0;
  for (int k = 0; k < graphs(300); ++k) {
    std::string text = random_functions(rng);
    SCOPED_TRACE(text);
    TextGraph t = graph_from(text);
    Graph g = rewritten(t.graph);
    std::vector<RefTensor> inputs = random_inputs(t, rng, false);
    auto a = interpret(t.graph, inputs), b = interpret(g, inputs);
    for (std::size_t i = 0; i < a.size(); ++i)
      for (std::size_t j = 0; j < a[i].f.size(); ++j) {
        double x = a[i].f[j], y = b[i].f[j];
        // Rules of stability may give a number where there was none, or a better one.
        if (!std::isfinite(x) || std::fabs(x) > 1e4 || std::fabs(x) < 1e-4) continue;
        ++compared;
        ASSERT_NEAR(x, y, 1e-6 * std::max(1.0, std::fabs(x))) << print(g);
      }
  }
  EXPECT_GT(compared, 1000u);
}

}  // namespace
}  // namespace snug::testing
