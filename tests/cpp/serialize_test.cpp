#include "expr/serialize.h"

#include <gtest/gtest.h>
#define XXH_INLINE_ALL  // the library keeps its own to itself
#include <xxhash.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "api/function.h"
#include "damage.h"
#include "error_of.h"
#include "ops/functions.h"

namespace snug {
namespace {

using testing::error_of;

constexpr std::size_t kHeader = 40, kHashAt = 24;

/// Makes damaged bytes look whole, so that what is behind the hash is tested.
std::string with_hash(std::string bytes) {
  const std::uint64_t size = bytes.size() - kHeader;
  const XXH128_hash_t h = XXH3_128bits(bytes.data() + kHeader, size);
  std::memcpy(bytes.data() + kHashAt - 8, &size, 8);
  std::memcpy(bytes.data() + kHashAt, &h.low64, 8);
  std::memcpy(bytes.data() + kHashAt + 8, &h.high64, 8);
  return bytes;
}

/// Default updates that read their variables are circles: whoever is done with them opens them.
struct Circles {
  std::vector<Expr> variables;
  ~Circles() {
    for (const Expr& e : variables)
      if (SharedVariable* s = as_shared(e)) s->default_update = Expr();
  }
};

/// A graph with every kind of record: leaves, attributes of all kinds, a loop, a default update.
std::vector<Expr> rich_graph() {
  Expr x = matrix("x"), n = iscalar("n");
  Expr w = shared(Array::from<float>({1, 2, 3, 4, 5, 6}, {2, 3}), "w");
  Expr hidden = tanh(dot(x, w)).named("hidden");
  as_shared(w)->default_update = w * constant(Array::scalar<float>(2));
  LoopResult r = loop(
      [&](const Expr&, const std::vector<Expr>& elements, const std::vector<Expr>& states) {
        return LoopStep{{states[0] + elements[0] * Expr(2.0f)}, {sqr(elements[0])}};
      },
      {hidden}, {zeros_like(sum(hidden, Axes(0)))}, Expr());
  RandomStream stream(7);
  Expr noise = stream.uniform(Sizes(std::vector<Expr>{Expr(3)}));
  Expr part = slice_axis(hidden, 0, Expr(), n, Expr());
  Expr mixed = concatenate({part, hidden}, 0);
  Expr shaped = reshape(transpose(mixed), Sizes(std::vector<Expr>{Expr(-1)}));
  Expr cost = sum(r.states[0] + noise) + mean(shaped) + max(mixed) + sum(eye(Expr(3), Expr(3)));
  return {cost, r.outputs[0], cast(argmax(hidden, Axes(1)), DType::I8)};
}

Function compiled(const std::vector<Expr>& roots) {
  std::vector<Expr> inputs;
  for (const Expr& e : topological(roots))
    if (!e->owner && !constant_value(e) && !as_shared(e)) inputs.push_back(e);
  std::sort(inputs.begin(), inputs.end(),
            [](const Expr& a, const Expr& b) { return a.name() > b.name(); });
  FunctionOptions options;
  options.mode = Mode::Reference;
  return function(inputs, roots, options);
}

std::vector<Array> run(const std::vector<Expr>& roots) {
  return compiled(roots).call(
      {Array::from<float>({1, 2, 3, 4}, {2, 2}), Array::scalar<std::int32_t>(1)});
}

TEST(Serialize, KeepsEverything) {
  std::vector<Expr> roots = rich_graph();
  std::string bytes = save_graph(roots);
  std::vector<Expr> loaded = load_graph(bytes);
  const Circles circles{topological(roots)}, loaded_circles{topological(loaded)};
  ASSERT_EQ(loaded.size(), roots.size());
  EXPECT_EQ(save_graph(loaded), bytes);
  std::vector<Array> a = run(roots), b = run(loaded), c = run(roots), d = run(loaded);
  for (std::size_t i = 0; i < a.size(); ++i) {
    EXPECT_TRUE(same_bits(a[i], b[i])) << i;
    EXPECT_TRUE(same_bits(c[i], d[i])) << i;  // the default updates did the same
  }
  EXPECT_FALSE(same_bits(a[0], c[0]));
  std::vector<Expr> before = topological(roots), after = topological(loaded);
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].name(), after[i].name());
    EXPECT_EQ(before[i].type(), after[i].type());
    EXPECT_EQ(frames_of(before[i]->origin), frames_of(after[i]->origin));
  }
}

TEST(Serialize, AliasesStayAliases) {
  Expr a = shared(Array::scalar<float>(1), "a");
  Expr b{Ref<Variable>(new SharedVariable(Ref<SharedVariable>(as_shared(a))))};
  std::vector<Expr> loaded = load_graph(save_graph(std::vector<Expr>{a + b, a, b}));
  as_shared(loaded[1])->set_value(Array::scalar<float>(5));
  EXPECT_EQ(as_shared(loaded[2])->get_value().item<float>(), 5);
  EXPECT_EQ(as_shared(a)->get_value().item<float>(), 1);
  EXPECT_EQ(function({}, loaded[0])().item<float>(), 10);
}

TEST(Serialize, WhatIsOutsideStaysThere) {
  Expr x = vector("x"), w = shared(Array::from<float>({1, 2}, {2}), "w");
  Expr y = exp(x), z = y * w;
  SaveOptions save;
  std::vector<Expr> outside;
  std::vector<Array> values;
  save.is_outside = [&](const Expr& e) { return same(e, y); };
  save.outside = &outside;
  save.values = &values;
  std::string bytes = save_graph(std::vector<Expr>{z}, save);
  ASSERT_EQ(outside.size(), 1u);
  ASSERT_EQ(values.size(), 1u);
  LoadOptions load;
  load.outside = outside;
  load.values = values;
  Expr again = load_graph(bytes, load)[0];
  EXPECT_TRUE(same(again->owner->inputs[0], y));
  EXPECT_FALSE(same(again->owner->inputs[1], w));
  EXPECT_THROW(load_graph(bytes), Error);
  std::vector<Expr> wrong{matrix("m")};
  load.outside = wrong;
  EXPECT_THROW(load_graph(bytes, load), Error);
}

TEST(Serialize, DeepChains) {
  Expr x = vector("x"), y = x;
  for (int i = 0; i < 100000; ++i) y = y + x;
  std::vector<Expr> loaded = load_graph(save_graph(std::vector<Expr>{y}));
  EXPECT_EQ(topological(loaded).size(), 100001u);
}

TEST(Serialize, OtherBytesAreErrors) {
  const std::vector<Expr> roots = rich_graph();
  const Circles circles{topological(roots)};
  std::string bytes = save_graph(roots);
  auto message = [](std::string_view b) { return error_of([&] { load_graph(b); }).message(); };
  EXPECT_NE(message("").find("no saved graph"), std::string::npos);
  EXPECT_NE(message("a text of some length, which is no graph").find("no saved graph"),
            std::string::npos);
  std::string other = bytes;
  other[8] = 9;
  EXPECT_NE(message(other).find("version 9"), std::string::npos);
  for (std::size_t cut = 0; cut < bytes.size(); cut += 7)
    EXPECT_THROW(load_graph(std::string_view(bytes).substr(0, cut)), Error) << cut;
  for (std::size_t i = 0; i < bytes.size(); i += 3) {
    std::string flipped = bytes;
    flipped[i] = static_cast<char>(flipped[i] ^ (1 << i % 8));
    EXPECT_THROW(load_graph(flipped), Error) << i;
  }
}

/// Behind a right hash: whatever the bytes are, they make a graph or an Error, and so does
/// capturing what they made.
TEST(Serialize, HostileBytesAreErrors) {
  const std::vector<Expr> whole = rich_graph();
  const Circles circles{topological(whole)};
  const std::string bytes = save_graph(whole);
  std::mt19937 random(1);
  int loaded = 0;
  for (int round = 0; round < testing::rounds(6000); ++round) {
    std::string bad = bytes;
    const int changes = 1 + static_cast<int>(random() % 3);
    for (int k = 0; k < changes; ++k) {
      std::size_t at = kHeader + random() % (bad.size() - kHeader);
      switch (random() % 4) {
        case 0: bad[at] = static_cast<char>(random()); break;
        case 1: bad[at] = static_cast<char>(bad[at] ^ (1 << random() % 8)); break;
        case 2: bad.erase(at, 1 + random() % 4); break;
        default: bad.insert(at, 1, static_cast<char>(random()));
      }
      if (bad.size() <= kHeader + 1) break;
    }
    Circles made;
    LoadOptions load;
    load.variables = &made.variables;
    std::vector<Expr> roots;
    try {
      roots = load_graph(with_hash(bad), load);
    } catch (const Error& e) {
      ASSERT_EQ(e.fault(), Fault::Value) << e.message();
      continue;
    }
    ++loaded;
    try {
      if (round % 16 == 0) compiled(roots);
    } catch (const Error&) {
    }
  }
  EXPECT_GT(loaded, 0);
}

}  // namespace
}  // namespace snug
