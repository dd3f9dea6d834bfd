// What a C++ program may do wrong with the objects it holds: each is an error of its own class,
// never a crash, a hang or an internal error.
#include <gtest/gtest.h>
#include <snug/snug.h>

#include <thread>

#include "base/spelling.h"
#include "error_of.h"
#include "ops/watch_functions.h"

namespace {

using namespace snug;
using snug::testing::error_of;

Array numbers(std::vector<float> values) {
  const auto n = static_cast<std::int64_t>(values.size());
  return Array::from(values, {n});
}

std::vector<float> floats(const Array& a) {
  return {a.typed<float>(), a.typed<float>() + a.size()};
}

Function twice() {
  Expr x = fvector("x");
  return function({x}, x * 2.0f, {.name = "twice"});
}

// ---- arrays and arguments

TEST(Handles, StridesLeftEmptyMeanContiguous) {
  const float data[] = {1, 2, 3};
  float out[3] = {};
  const ArgView view{reinterpret_cast<const std::byte*>(data), DType::F32, {3}};
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(out)};
  twice().run_into({&view, 1}, outputs);
  EXPECT_EQ(std::vector<float>(out, out + 3), (std::vector<float>{2, 4, 6}));

  Array a = numbers({1, 2, 3, 4});
  a.shape = {2, 2};
  a.strides = {};
  EXPECT_TRUE(a.contiguous());
  EXPECT_EQ(a.at_double(3), 4);
  EXPECT_EQ(floats(a.contiguous_copy()), (std::vector<float>{1, 2, 3, 4}));
  Expr x = fmatrix("x");
  EXPECT_EQ(floats(function({x}, x + shared(a) + constant(a))(a)),
            (std::vector<float>{3, 6, 9, 12}));
  Expr z = cmatrix("z");
  Array c = Array::from(std::vector<std::complex<float>>{{1, 2}, {3, 4}}, {1, 2});
  c.strides = {};
  EXPECT_EQ(function({z}, imag(z))(c).at_double(1), 4);
}

TEST(Handles, AWrongNumberOfStridesIsAnError) {
  Array a = numbers({1, 2, 3});
  a.strides = {1, 1};
  EXPECT_NE(error_of<TypeError>([&] { twice()(a); }).message().find("2 strides for 1 dimensions"),
            std::string::npos);
  error_of<TypeError>([&] { shared(a); });
  error_of<TypeError>([&] { a.at_double(0); });
  error_of<TypeError>([&] { a.contiguous_copy(); });
}

TEST(Handles, EmptyArraysAreErrors) {
  error_of<TypeError>([] { Array{}.item<float>(); });
  error_of<TypeError>([] { Array{}.at_double(0); });
  error_of<TypeError>([] { Array{}.at_int(0); });
  error_of<TypeError>([] { Array{}.set_double(0, 1); });
  error_of<TypeError>([] { Array{}.contiguous_copy(); });
  error_of<TypeError>([] { Array{}.to(DType::F64); });
  error_of<TypeError>([] { same_bits(Array{}, Array{}); });
  error_of<TypeError>([] { describe_element(Array{}); });
  error_of<TypeError>([] { shared(Array{}); });
  error_of<TypeError>([] { constant(Array{}); });
  error_of<TypeError>([] { Expr e = Array{}; });
  error_of<TypeError>([] { fscalar("x") + Array{}; });
  Expr v = shared(Array::scalar(1.0f));
  error_of<TypeError>([&] { as_shared(v)->set_value(Array{}); });
  Expr x = fscalar("x");
  EXPECT_NE(
      error_of<TypeError>([&] { function({x}, x + 1.0f)(Array{}); }).message().find("no data"),
      std::string::npos);
  error_of<Error>([] { data::arrays({Array{}}); });
  error_of<TypeError>([] { io::save("/tmp/never.npz", {{{"a", Array{}}}, {}}); });
  error_of<TypeError>([] { io::save("/tmp/never.safetensors", {{{"a", Array{}}}, {}}); });
}

TEST(Handles, ElementsAreCheckedByPlaceAndType) {
  Array a = numbers({1, 2, 3});
  error_of<IndexError>([&] { a.at_double(3); });
  error_of<IndexError>([&] { a.at_int(-1); });
  error_of<IndexError>([&] { a.set_int(3, 0); });
  error_of<IndexError>([&] { a.at_complex(7); });
  error_of<ShapeError>([&] { a.item<float>(); });
  error_of<TypeError>([&] { a.typed<double>(); });
  error_of<TypeError>([&] { a.typed<std::int32_t>(); });
  error_of<TypeError>([&] { a.as_pairs(); });
  error_of<TypeError>([&] { a.as_complex(); });
  EXPECT_EQ(a.typed<const float>()[2], 3);
  EXPECT_EQ(Array::zeros(DType::Bool, {1}).typed<std::uint8_t>()[0], 0);
  EXPECT_EQ(Array::zeros(DType::F16, {1}).typed<std::uint16_t>()[0], 0);
}

// ---- functions

TEST(Handles, OutputsOfRunIntoAreChecked) {
  const float data[] = {1, 2, 3};
  const ArgView view{reinterpret_cast<const std::byte*>(data), DType::F32, {3}};
  const Function f = twice();
  std::byte* null[] = {nullptr};
  error_of<ValueError>([&] { f.run_into({&view, 1}, {}); });
  EXPECT_EQ(error_of<ValueError>([&] {
              f.run_into({&view, 1}, null);
            }).hint(),
            "it takes 12 bytes");
  const ArgView none{nullptr, DType::F32, {3}};
  float out[3];
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(out)};
  error_of<TypeError>([&] { f.run_into({&none, 1}, outputs); });
  error_of<TypeError>([&] { f.run_into({}, outputs); });
  const ArgView negative{view.data, DType::F32, {-3}};
  error_of<ShapeError>([&] { f.run_into({&negative, 1}, outputs); });
  const ArgView nothing{nullptr, DType::F32, {0}};
  f.run_into({&nothing, 1}, null);  // no element needs no memory
}

TEST(Handles, EmptyAndMovedFunctionsAreErrors) {
  Function made = twice(), other = std::move(made);
  EXPECT_FALSE(made.valid());
  const Function f;
  for (const Function* g : {&f, const_cast<const Function*>(&made)}) {
    error_of<TypeError>([&] { (*g)(numbers({1})); });
    error_of<TypeError>([&] { g->call({}); });
    error_of<TypeError>([&] { g->prepare({}); });
    error_of<TypeError>([&] { g->run_into({}, {}); });
    error_of<TypeError>([&] { g->name(); });
    error_of<TypeError>([&] { g->input_count(); });
    error_of<TypeError>([&] { g->input_name(0); });
    error_of<TypeError>([&] { g->input_type(0); });
    error_of<TypeError>([&] { g->output_count(); });
    error_of<TypeError>([&] { g->output_type(0); });
    error_of<TypeError>([&] { g->memory({{1}}); });
    error_of<TypeError>([&] { g->smallest_budget({{1}}); });
    error_of<TypeError>([&] { g->remedies({{1}}, 1); });
    error_of<TypeError>([&] { g->max_batch({{1}}, "1MiB"); });
    error_of<TypeError>([&] { g->explain(); });
    error_of<TypeError>([&] { g->profile(); });
    error_of<TypeError>([&] { g->counter("calls"); });
    error_of<TypeError>([&] { g->view(); });
    error_of<TypeError>([&] { g->free(); });
    g->visit_shared([](SharedVariable&) {});
  }
  error_of<IndexError>([&] { other.input_name(9); });
  error_of<IndexError>([&] { other.input_type(1); });
  error_of<IndexError>([&] { other.output_type(1); });
}

TEST(Handles, PreparedCallsAreChecked) {
  const Array a = numbers({1, 2});
  const ArgView view{a.data, a.dtype, a.shape};
  const Function f = twice();
  Function::Call call = f.prepare({&view, 1});
  EXPECT_EQ(call.output_shape(0), (Dims{2}));
  error_of<IndexError>([&] { call.output_shape(1); });
  error_of<IndexError>([&] { call.output_dtype(1); });
  float out[2];
  std::byte* outputs[] = {reinterpret_cast<std::byte*>(out)};
  call.run(outputs);
  EXPECT_EQ(out[1], 4);
  error_of<ValueError>([&] { call.run(outputs); });  // once
  Function::Call moved = std::move(call);
  error_of<TypeError>([&] { call.run(outputs); });
  error_of<TypeError>([&] { call.output_count(); });
}

// ---- expressions

TEST(Handles, EmptyExpressionsAreErrors) {
  Expr x = fmatrix("x"), e, moved = fmatrix("moved");
  Expr kept = std::move(moved);
  Expr w = shared(zeros({2, 2}), "w");
  EXPECT_FALSE(moved);
  for (const Expr& bad : {e, moved}) {
    error_of<TypeError>([&] { bad.type(); });
    error_of<TypeError>([&] { bad.dtype(); });
    error_of<TypeError>([&] { bad.ndim(); });
    error_of<TypeError>([&] { bad.name(); });
    error_of<TypeError>([&] { bad.named("n"); });
    error_of<TypeError>([&] { static_cast<void>(bad->origin); });
    EXPECT_EQ(as_shared(bad), nullptr);
    EXPECT_EQ(constant_value(bad), nullptr);
    EXPECT_EQ(label(bad), "(nothing)");
    error_of<TypeError>([&] { x + bad; });
    error_of<TypeError>([&] { bad * 2.0f; });
    error_of<TypeError>([&] { exp(bad); });
    error_of<TypeError>([&] { sum(bad); });
    error_of<TypeError>([&] { dot(x, bad); });
    error_of<TypeError>([&] { switch_(bad, x, x); });
    error_of<TypeError>([&] { reshape(x, bad); });
    error_of<TypeError>([&] { reshape(x, std::vector<Expr>{bad}); });
    error_of<TypeError>([&] { concatenate({x, bad}); });
    error_of<TypeError>([&] { stack({bad}); });
    error_of<TypeError>([&] { subtensor(bad, {0}); });
    error_of<TypeError>([&] { subtensor(x, {IndexItem(bad)}); });
    error_of<TypeError>([&] { set_subtensor(x, {0}, bad); });
    error_of<TypeError>([&] { cast(bad, DType::F64); });
    error_of<TypeError>([&] { softmax(bad); });
    error_of<TypeError>([&] { conv2d(bad, x); });
    error_of<TypeError>([&] { grad(bad, w); });
    error_of<TypeError>([&] { grad(sum(w), bad); });
    error_of<TypeError>([&] { grad(sum(w), std::vector<Expr>{w}, {.consider_constant = {bad}}); });
    error_of<TypeError>([&] { grad(sum(w), std::vector<Expr>{w}, {.known_grads = {{bad, w}}}); });
    error_of<TypeError>([&] { jacobian(bad, w); });
    error_of<TypeError>([&] { Rop({bad}, {w}, {w}); });
    error_of<TypeError>([&] { Lop({sum(w)}, {w}, {bad}); });
    error_of<TypeError>([&] { function({bad}, x); });
    error_of<TypeError>([&] { function({x}, bad); });
    error_of<TypeError>([&] { function({x}, x, {.updates = {{bad, x}}}); });
    error_of<TypeError>([&] { function({x}, x, {.updates = {{w, bad}}}); });
    error_of<TypeError>([&] { function({x}, x, {.givens = {{x, bad}}}); });
    error_of<TypeError>([&] { function({x}, x, {.givens = {{bad, x}}}); });
    error_of<TypeError>([&] { save_graph(std::vector<Expr>{bad}); });
    error_of<TypeError>([&] { topological(std::vector<Expr>{bad}); });
    error_of<TypeError>([&] { optim::sgd(bad, {w}); });
    error_of<TypeError>([&] { optim::adam(sum(w), {bad}); });
    error_of<TypeError>([&] { optim::clip_by_norm({bad}, 1); });
    error_of<TypeError>([&] { nn::cross_entropy(bad, x); });
    error_of<TypeError>([&] { (*nn::dense(2))(bad); });
    error_of<TypeError>([&] { RandomStream(1, {bad}).seed(2); });
    error_of<TypeError>([&] { RandomStream().uniform(bad); });
    error_of<TypeError>([&] {
      loop([&](const Expr&, auto&, auto&) { return LoopStep{{bad}, {}}; }, {}, {x}, Expr(3));
    });
    error_of<TypeError>([&] { loop({}, {x}, {}); });
    error_of<TypeError>([&] { loop([](auto&&...) { return LoopStep{}; }, {bad}, {}); });
    error_of<TypeError>([&] { loop([](auto&&...) { return LoopStep{}; }, {}, {bad}, Expr(2)); });
    error_of<TypeError>([&] { map({}, {x}); });
    error_of<TypeError>([&] { nn::Parameter{"p", bad}.size(); });
  }
}

// ---- layers, sources, loaders

TEST(Handles, EmptyLayersSourcesAndLoadersAreErrors) {
  error_of<TypeError>([] { nn::sequential({nn::LayerPtr{}}); });
  error_of<TypeError>([] { nn::residual(nullptr); });
  error_of<TypeError>([] { nn::skip(nullptr); });
  error_of<TypeError>([] { nn::concat({nn::LayerPtr{}}); });
  error_of<TypeError>([] { nn::call(nullptr); });
  error_of<TypeError>([] { data::Loader(nullptr); });
  error_of<TypeError>([] { data::slice(nullptr, 0, 1); });
  error_of<TypeError>([] { data::concat({nullptr}); });
  error_of<TypeError>([] { data::zip({nullptr}); });
  error_of<TypeError>([] { data::select(nullptr, {}); });
  error_of<TypeError>([] { data::split(nullptr, {0.5}); });
  error_of<TypeError>([] { data::Transform(nullptr); });
  error_of<TypeError>([] { optim::warm_up(3, nullptr); });

  data::SourcePtr rows = data::arrays({ones({4, 2}), Array::zeros(DType::I64, {4})});
  data::Loader loader(rows, {.batch = 2}), other = std::move(loader);
  error_of<TypeError>([&] { loader.next(); });
  error_of<TypeError>([&] { loader.fields(); });
  error_of<TypeError>([&] { loader.source(); });
  error_of<TypeError>([&] { loader.rows(); });
  error_of<TypeError>([&] { loader.batches(); });
  error_of<TypeError>([&] { loader.wait({}); });
  error_of<TypeError>([&] { loader.begin_epoch(); });
  error_of<TypeError>([&] { loader.state(); });
  error_of<TypeError>([&] { loader.seek({}); });
  error_of<TypeError>([&] { loader.memory(); });
  error_of<TypeError>([&] { loader.threads(); });
  const nn::LayerPtr model = nn::dense(2);
  error_of<TypeError>([&] { nn::fit(*model, loader); });
  error_of<TypeError>([&] { nn::evaluate(*model, loader); });
  error_of<TypeError>([&] { nn::plan(*model, loader); });
  error_of<TypeError>([&] { nn::fit(*model, other, {.loss = nn::Objective("mine", nullptr)}); });
  error_of<IndexError>([&] { static_cast<void>((*other.next())[2]); });
  error_of<ValueError>([&] { rows->read(0, 1, {}); });
  loader = std::move(other);
  EXPECT_EQ(loader.rows(), 4);
}

// ---- calls inside calls

/// A function with a callback that `f` is called by.
Function printing(const Expr& w, const std::function<void(const Array&)>& f,
                  FunctionOptions o = {}) {
  Expr x = fvector("x");
  o.name = "outer";
  return function({x}, print(x * w, "", f), o);
}

TEST(Handles, ACallbackThatCallsItsOwnFunctionIsAnError) {
  Expr w = shared(Array::scalar(3.0f), "w");
  Function f;
  std::string text;
  f = printing(w,
               [&](const Array&) { text = error_of<ValueError>([&] { f(numbers({1})); }).what(); });
  EXPECT_EQ(floats(f(numbers({2}))), (std::vector<float>{6}));
  EXPECT_NE(text.find("outer is called while a call of it on this thread is not finished"),
            std::string::npos);
  EXPECT_NE(text.find(".contexts = 2"), std::string::npos);
  // With a context more it works.
  int depth = 0;
  f = printing(w,
               [&](const Array&) {
                 if (++depth < 2) EXPECT_EQ(f(numbers({5})).item<float>(), 15);
               },
               {.contexts = 2});
  EXPECT_EQ(f(numbers({2})).item<float>(), 6);
  EXPECT_EQ(depth, 2);
}

TEST(Handles, CallbacksReadLockedVariablesAndDoNotWriteThem) {
  for (Mode mode : {Mode::Fast, Mode::Reference}) {
    Expr w = shared(Array::scalar(3.0f), "w"), x = fvector("x");
    SharedVariable& v = *as_shared(w);
    const Function reads = function({}, w + 1.0f, {.name = "reads"});
    const Function writes = function({}, w, {.updates = {{w, w + 1.0f}}, .name = "writes"});
    int asked = 0;
    const auto callback = [&](const Array&) {
      ++asked;
      EXPECT_EQ(v.get_value().item<float>(), 3);
      EXPECT_EQ(v.get_value(true).item<float>(), 3);
      EXPECT_EQ(v.shape(), Dims{});
      EXPECT_NE(error_of<ValueError>([&] { v.set_value(Array::scalar(7.0f)); })
                    .message()
                    .find("a call on this thread that uses w is not finished"),
                std::string::npos);
      EXPECT_EQ(reads().item<float>(), 4);
      EXPECT_EQ(reads.memory({}).parameters, 4);
      EXPECT_EQ(function({}, w * 2.0f)().item<float>(), 6);  // made here
      error_of<ValueError>([&] { writes(); });
    };
    const Expr seen = print(x * w, "", callback);
    const Function updates = function({x}, seen, {.updates = {{w, w + sum(seen)}}, .mode = mode});
    EXPECT_EQ(updates(numbers({2})).item<float>(), 6);
    EXPECT_EQ(v.get_value().item<float>(), 9);
    v.set_value(Array::scalar(3.0f));
    const Function only_reads = function({x}, print(x * w, "", callback), {.mode = mode});
    EXPECT_EQ(only_reads(numbers({2})).item<float>(), 6);
    EXPECT_EQ(asked, 2);
    writes();  // all locks are free again
    EXPECT_EQ(v.get_value().item<float>(), 4);
  }
}

TEST(Handles, TwoPreparedCallsOnOneThread) {
  Expr w = shared(Array::scalar(3.0f), "w");
  const Function reads = function({}, w * 2.0f, {.name = "reads"});
  const Function also = function({}, w * 5.0f, {.name = "also"});
  const Function writes = function({}, w, {.updates = {{w, w + 1.0f}}, .name = "writes"});
  float a = 0, b = 0;
  std::byte *to_a[] = {reinterpret_cast<std::byte*>(&a)},
            *to_b[] = {reinterpret_cast<std::byte*>(&b)};
  {
    Function::Call first = reads.prepare({}), second = also.prepare({});
    error_of<ValueError>([&] { reads.prepare({}); });  // it has one context
    error_of<ValueError>([&] { writes.prepare({}); });
    error_of<ValueError>([&] { as_shared(w)->set_value(Array::scalar(1.0f)); });
    EXPECT_EQ(as_shared(w)->get_value().item<float>(), 3);
    second.run(to_b);
    first.run(to_a);
    EXPECT_EQ(a, 6);
    EXPECT_EQ(b, 15);
  }
  {
    Function::Call writing = writes.prepare({});
    error_of<ValueError>([&] { reads.prepare({}); });  // it may run after the update
    EXPECT_EQ(as_shared(w)->get_value(true).item<float>(), 3);
    writing.run(to_a);
    EXPECT_EQ(as_shared(w)->get_value().item<float>(), 4);
  }
  EXPECT_EQ(reads().item<float>(), 8);
  // A call may end on another thread.
  auto call = std::make_unique<Function::Call>(writes.prepare({}));
  std::thread([&] {
    call->run(to_a);
    call.reset();
  }).join();
  EXPECT_EQ(writes().item<float>(), 5);
}

// ---- kinds of errors, and what they know

TEST(Errors, EachFaultHasItsClass) {
  for (int k = 0; k <= static_cast<int>(Fault::Internal); ++k) {
    const auto fault = static_cast<Fault>(k);
    EXPECT_EQ(error_of([&] { fail(fault, "m", "h"); }).fault(), fault);
  }
  error_of<ShapeError>([] { fail(Fault::Shape, "m"); });
  error_of<MemoryError>([] { fail(Fault::Memory, "m"); });
  error_of<DisconnectedError>([] { fail(Fault::Disconnected, "m"); });
  error_of<InternalError>([] { fail(Fault::Internal, "m"); });
  error_of<FileError>([] { io::load("/no/such.npz"); });
  error_of<ValueError>([] { io::load("/no/such.npz"); });
  Expr x = fmatrix("x"), y = fmatrix("y");
  const Array a = ones({2, 3});
  const auto e = error_of<ShapeError>([&] { function({x, y}, dot(x, y))(a, a); });
  EXPECT_NE(std::string(e.what()).find("handles_test.cpp:"), std::string::npos);
}

TEST(Errors, RefusalsKnowTheirNumbersAndRemedies) {
  Expr x = fmatrix("x"), h = x;
  std::vector<Expr> weights;
  for (int layer = 0; layer < 4; ++layer) {
    weights.push_back(shared(ones({64, 64})));
    h = tanh(dot(h, weights.back()));
  }
  const Expr loss = sum(h);
  const std::vector<Expr> by = grad(loss, weights);
  FunctionOptions options{.memory = "200KiB", .micro_batches = 1, .recompute = false};
  for (std::size_t k = 0; k < by.size(); ++k)
    options.updates.emplace_back(weights[k], weights[k] - 0.1f * by[k]);
  const Function f = function({x}, loss, options);
  try {
    f(ones({512, 64}));
    FAIL() << "no error";
  } catch (const MemoryError& e) {
    EXPECT_EQ(e.allowed(), 200u << 10);
    EXPECT_GT(e.needed(), e.allowed());
    EXPECT_GE(e.peak(), e.needed());
    ASSERT_FALSE(e.remedies().empty());
    for (const Remedy& r : e.remedies()) {
      EXPECT_GT(r.peak, 0);
      if (r.kind == Remedy::Kind::MicroBatches)
        EXPECT_EQ(r.option().substr(0, 17), ".micro_batches = ");
    }
    EXPECT_NE(std::string(e.what()).find(".memory = \""), std::string::npos) << e.what();
    EXPECT_EQ(std::string(e.what()).find("memory="), std::string::npos) << e.what();
  }
  set_memory_budget(1 << 20);
  const auto e = error_of<MemoryError>([] { shared(ones({1 << 20})); });
  set_memory_budget(0);
  EXPECT_NE(e.hint().find("set_memory_budget"), std::string::npos);
}

TEST(Errors, HintsSpeakTheLanguageOfTheCaller) {
  Expr i = lvector("i"), x = fvector("x"), w = shared(ones({2}), "w");
  const auto hint = [&] {
    return error_of<TypeError>([&] { function({x}, x)(Array::zeros(DType::F64, {2})); }).hint();
  };
  EXPECT_EQ(hint(), "convert it: x.to(DType::F32)");
  const auto update = [&] {
    return error_of<TypeError>([&] { function({i}, i, {.updates = {{w, i}}}); }).hint();
  };
  EXPECT_EQ(update(), "cast the new value: cast(value, DType::F32)");
  const auto unused = [&] { return error_of<UnusedError>([&] { function({i, x}, x); }).hint(); };
  EXPECT_EQ(unused(), "leave it out, or pass .on_unused_input = OnUnusedInput::Ignore");
  set_language(Language::Python);
  EXPECT_EQ(hint(), "convert it: x.astype('float32')");
  EXPECT_EQ(update(), "cast the new value: value.astype('float32')");
  EXPECT_EQ(unused(), "leave it out, or pass on_unused_input='ignore'");
  EXPECT_EQ(option("memory", "4GiB"), "memory=\"4GiB\"");
  set_language(Language::Tool);
  EXPECT_EQ(switched("resume", true), "--resume");
  EXPECT_EQ(option("micro_batches", 4), "--micro-batches 4");
  EXPECT_EQ((Remedy{Remedy::Kind::Recompute, 0, 3 << 20}.option()), "--memory 3MiB");
  EXPECT_EQ((Remedy{Remedy::Kind::Batch, 64}.option()), "--batch 64");
  set_language(Language::Cpp);
  EXPECT_EQ(switched("resume", true), ".resume = true");
  EXPECT_EQ(option("activations", DType::BF16), ".activations = DType::BF16");
}

/// No file of the library is named, and this one is.
void expect_users_lines(const std::string& text) {
  for (const char* file : {"layer.cpp", "trainer.cpp", "optim.cpp", "fit.cpp", "dense.cpp",
                           "losses.cpp", "function.cpp", "summary.cpp", "/src/"})
    EXPECT_EQ(text.find(file), std::string::npos) << file << "\n" << text;
  EXPECT_NE(text.find("handles_test.cpp:"), std::string::npos) << text;
}

TEST(Errors, RowsNameTheUsersLine) {
  const nn::LayerPtr model =
      nn::sequential({{"hidden", nn::dense(64, {.activation = "tanh"})}, {"out", nn::dense(2)}});
  model->build({-1, 8});
  data::Loader loader(data::arrays({ones({256, 8}), Array::zeros(DType::I64, {256})}),
                      {.batch = 256});
  const MemoryReport plan = nn::plan(*model, loader);
  std::string rows = plan.peak_step + "\n";
  for (const MemoryReport::Alive& a : plan.alive) rows += a.op + " " + a.where + "\n";
  expect_users_lines(rows);
  EXPECT_NE(rows.find("hidden, "), std::string::npos) << rows;
  Expr x = fmatrix("x"), y = lvector("y");
  nn::Pass pass{.training = true};
  const Expr loss = nn::cross_entropy((*model)(x, pass), y);
  const Function step =
      function({x, y}, loss, {.updates = optim::adam(loss, model->trainable()).pairs});
  rows = step.memory({{256, 8}, {256}}).peak_step;
  for (const MemoryReport::Alive& a : step.memory({{256, 8}, {256}}).alive) rows += a.where + "\n";
  expect_users_lines(rows);
  expect_users_lines(error_of([&] { nn::fit(*model, loader, {.memory = "8KiB"}); }).what());
  expect_users_lines(error_of([&] { optim::adam(x, {x}); }).what());
  expect_users_lines(error_of([&] { nn::dense(2)->build({}); }).what());
  expect_users_lines(error_of([&] { function({x, x}, x); }).what());
  expect_users_lines(error_of([&] { RandomStream().uniform({2}, 0, 1, DType::I8); }).what());
}

// ---- planning, settings

TEST(Handles, ShapesAreGivenByOrderOrName) {
  Expr x = matrix("x"), y = ivector("y"), W = shared(zeros({784, 10}), "W");
  const Expr loss = mean(categorical_crossentropy(softmax(dot(x, W)), y));
  const Function train = function({x, y}, loss, {.updates = {{W, W - 0.1f * grad(loss, W)}}});
  const std::int64_t peak = train.memory({{64, 784}, {64}}).peak;
  EXPECT_GT(peak, 0);
  EXPECT_EQ(train.memory({{"y", {64}}, {"x", {64, 784}}}).peak, peak);
  EXPECT_EQ(train.memory(std::vector<Dims>{{64, 784}, {64}}).peak, peak);
  const Dims shapes[] = {{64, 784}, {64}};
  EXPECT_EQ(train.memory(shapes).peak, peak);
  EXPECT_GT(train.max_batch({{1, 784}, {1}}, "1MiB").rows, 0);
  EXPECT_GT(train.max_batch({{"x", {1, 784}}, {"y", {1}}}, "1MiB").rows, 0);
  EXPECT_GT(train.smallest_budget({{64, 784}, {64}}), 0);
  EXPECT_EQ(train.smallest_budget({{"x", {64, 784}}, {"y", {64}}}),
            train.smallest_budget({{64, 784}, {64}}));
  EXPECT_FALSE(train.remedies({{64, 784}, {64}}, 1000).empty());
  EXPECT_FALSE(train.remedies({{"x", {64, 784}}, {"y", {64}}}, 1000).empty());
  EXPECT_EQ(function({}, W * 2.0f).memory({}).parameters, 31360);
  Expr n = fscalar("n");
  EXPECT_EQ(function({n}, n * 2.0f).memory({{}}).inputs, 4);

  for (const auto& bad : {Shapes{{64, 784}}, Shapes{{64, 784}, {64}, {1}}, Shapes{},
                          Shapes{{"x", {64, 784}}}, Shapes{{"x", {64, 784}}, {"z", {64}}},
                          Shapes{{"x", {64, 784}}, {"x", {64, 784}}, {"y", {64}}}}) {
    error_of<ValueError>([&] { train.memory(bad); });
    error_of<ValueError>([&] { train.max_batch(bad, "1MiB"); });
    error_of<ValueError>([&] { train.smallest_budget(bad); });
    error_of<ValueError>([&] { train.remedies(bad, 1); });
  }
  EXPECT_EQ(error_of([&] {
              train.memory({{"xx", {64, 784}}, {"y", {64}}});
            }).hint(),
            "did you mean \"x\"?");
  error_of<ShapeError>([&] { train.memory({{64}, {64}}); });
  error_of<ShapeError>([&] { train.memory({{-1, 784}, {64}}); });
  error_of<ValueError>([&] { train.memory({{64, 784}, {64}}, {1, 2, 3}); });
  error_of<ValueError>([&] { train.max_batch({{1, 784}, {1}}, "1MiB", 5); });
  error_of<ValueError>([&] { train.max_batch({{1, 784}, {1}}, "1MiB", -1); });
}

}  // namespace
