#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "error_of.h"
#include "expr_eval.h"
#include "ops/rows.h"

namespace snug {
namespace {

using testing::counted;
using testing::error_of;
using testing::Givens;
using testing::ints;
using testing::random_array;
using testing::run;
using testing::shape_of;
using testing::values;
using Ints = std::vector<std::int64_t>;
using Doubles = std::vector<double>;

Array scalar64(std::int64_t v) { return Array::scalar<std::int64_t>(v); }

// ---- the table ----

TEST(OpTable, IsSortedAndComplete) {
  std::set<std::string_view> names;
  std::string_view last;
  for (const OpDef* op : all_ops()) {
    SCOPED_TRACE(std::string(op->name));
    EXPECT_LT(last, op->name);
    last = op->name;
    EXPECT_TRUE(names.insert(op->name).second);
    EXPECT_FALSE(op->doc.empty());
    EXPECT_EQ(op->doc.back(), '.');
    EXPECT_NE(op->infer, nullptr);
    EXPECT_NE(op->grad != nullptr, !op->no_grad.empty());
    EXPECT_TRUE(op->scalar || !has(*op, kElementwise | kGenerator));
    EXPECT_TRUE(op->reference || has(*op, kElementwise | kReduction | kLeaf));
    EXPECT_EQ(has(*op, kView), op->view != nullptr);
    EXPECT_EQ(has(*op, kIndexView), op->source_axis != nullptr);
    EXPECT_TRUE(has(*op, kView) || !has(*op, kIndexView));
    EXPECT_EQ(&find_op(op->name), op);
  }
  EXPECT_EQ(names.size(), all_ops().size());
}

TEST(OpTable, SuggestsTheNearestName) {
  const auto e = error_of([] { find_op("sigmoyd"); });
  EXPECT_EQ(e.fault(), Fault::Value);
  EXPECT_EQ(e.hint(), "did you mean 'sigmoid'?");
}

// ---- dtypes ----

TEST(OpTypes, FollowTheano) {
  Expr i8 = tensor(DType::I8, 1), i32 = ivector(), i64 = lvector(), f32 = fvector(),
       f64 = dvector(), f16 = tensor(DType::F16, 1), u8 = tensor(DType::U8, 1),
       b = tensor(DType::Bool, 1);
  EXPECT_EQ((i32 * f32).dtype(), DType::F64);
  EXPECT_EQ((i8 * f32).dtype(), DType::F32);
  EXPECT_EQ((f32 + 1.0).dtype(), DType::F32);
  EXPECT_EQ((f32 + f64).dtype(), DType::F64);
  EXPECT_EQ((i8 + 1000).dtype(), DType::I16);
  EXPECT_EQ((i32 / i32).dtype(), default_float());
  EXPECT_EQ(exp(i32).dtype(), DType::F64);
  EXPECT_EQ(exp(i8).dtype(), DType::F32);
  EXPECT_EQ(exp(f16).dtype(), DType::F16);
  EXPECT_EQ(lt(i32, f32).dtype(), DType::Bool);
  EXPECT_EQ(sum(b).dtype(), DType::I64);
  EXPECT_EQ(sum(i32).dtype(), DType::I64);
  EXPECT_EQ(sum(u8).dtype(), DType::U64);
  EXPECT_EQ(sum(f32).dtype(), DType::F32);
  EXPECT_EQ(sum(f32)->owner->attrs.dtype("acc"), DType::F64);
  EXPECT_EQ(sum(f16)->owner->attrs.dtype("acc"), DType::F32);
  EXPECT_EQ(mean(b).dtype(), DType::F64);
  EXPECT_EQ(mean(i64).dtype(), DType::F64);
  EXPECT_EQ(mean(f16).dtype(), DType::F16);
  EXPECT_EQ(argmax(f32).dtype(), DType::I64);
  EXPECT_EQ(shape(f32).dtype(), DType::I64);
  EXPECT_EQ(arange(5).dtype(), DType::I64);
  EXPECT_EQ(floor(i32).dtype(), DType::I32);
  EXPECT_EQ(switch_(b, i8, f32).dtype(), DType::F32);
  EXPECT_EQ(error_of([&] { b - b; }).fault(), Fault::Type);
  EXPECT_EQ(error_of([&] { bit_and(f32, i8); }).fault(), Fault::Type);
}

// ---- elementwise ----

TEST(OpValues, ElementwiseSamples) {
  Expr a = dvector(), b = dvector();
  Array x = Array::from<double>({-1.5, 0.25, 2}, {3}), y = Array::from<double>({2, -0.5, 3}, {3});
  Givens given{{a, x}, {b, y}};
  auto check = [&](const Expr& e, const std::function<double(double, double)>& f) {
    Array got = run(e, given);
    for (std::int64_t k = 0; k < 3; ++k)
      EXPECT_DOUBLE_EQ(got.at_double(k), f(x.at_double(k), y.at_double(k))) << label(e);
  };
  check(a + b * 2, [](double p, double q) { return p + q * 2; });
  check(tanh(a) - sqr(b), [](double p, double q) { return std::tanh(p) - q * q; });
  check(clip(a, -1, 1), [](double p, double) { return std::clamp(p, -1.0, 1.0); });
  check(mod(a, b), [](double p, double q) { return p - q * std::floor(p / q); });
  check(floor_div(a, b), [](double p, double q) { return std::floor(p / q); });
  check(switch_(gt(a, b), a, b), [](double p, double q) { return p > q ? p : q; });
  check(relu(a), [](double p, double) { return p > 0 ? p : 0; });
  check(softplus(a), [](double p, double) { return std::log1p(std::exp(p)); });
  check(round(a), [](double p, double) { return std::nearbyint(p); });
}

TEST(OpValues, Integers) {
  Expr a = lvector();
  Givens given{{a, ints({-7, 7, 0})}};
  EXPECT_EQ(values(run(floor_div(a, 2), given)), (Doubles{-4, 3, 0}));
  EXPECT_EQ(values(run(mod(a, 3), given)), (Doubles{2, 1, 0}));
  EXPECT_EQ(values(run(floor_div(a, 0), given)), (Doubles{0, 0, 0}));
  EXPECT_EQ(values(run(invert(a), given)), (Doubles{6, -8, -1}));
  EXPECT_EQ(values(run(shl(a, 1), given)), (Doubles{-14, 14, 0}));
}

TEST(OpErrors, UnlikeSizes) {
  Expr x = dmatrix("x"), y = dmatrix("y");
  Expr z = x + y;
  const auto e = error_of([&] { run(z, {{x, counted({3, 4})}, {y, counted({1, 4})}}); });
  EXPECT_EQ(e.fault(), Fault::Shape);
  EXPECT_NE(e.message().find("add: sizes differ on axis 0: (3, 4) and (1, 4)"), std::string::npos)
      << e.what();
  EXPECT_NE(e.hint().find("addbroadcast(x, 0)"), std::string::npos);
  Expr fits = x + addbroadcast(y, {0});
  EXPECT_EQ(shape_of(run(fits, {{x, counted({3, 4})}, {y, counted({1, 4})}})), (Ints{3, 4}));
}

// ---- reductions ----

TEST(OpValues, Reductions) {
  Expr x = dmatrix();
  Givens given{{x, Array::from<double>({1, 5, 2, 4, 5, 0}, {2, 3})}};
  EXPECT_EQ(values(run(sum(x, 0), given)), (Doubles{5, 10, 2}));
  EXPECT_EQ(values(run(mean(x, -1), given)), (Doubles{8.0 / 3, 3}));
  EXPECT_EQ(values(run(max(x), given)), (Doubles{5}));
  EXPECT_EQ(values(run(argmax(x), given)), (Doubles{1}));
  EXPECT_EQ(values(run(argmin(x, 1), given)), (Doubles{0, 2}));
  EXPECT_EQ(values(run(prod(x, 1), given)), (Doubles{10, 0}));
  EXPECT_EQ(values(run(any(x, 1), given)), (Doubles{1, 1}));
  EXPECT_EQ(values(run(all(x, 1), given)), (Doubles{1, 0}));
  EXPECT_EQ(sum(x, 1, true).type().broadcast, 2);
  EXPECT_EQ(error_of([&] { sum(x, 2); }).fault(), Fault::Value);
  EXPECT_EQ(error_of([&] { run(max(x, 1), {{x, counted({2, 0})}}); }).fault(), Fault::Shape);
  EXPECT_EQ(shape_of(run(max(x, 1), {{x, counted({0, 3})}})), (Ints{0}));
}

// ---- sizes ----

TEST(OpSizes, ShapesAreKnownWhileBuilding) {
  Expr x = input({DType::F64, {-1, 3, 4}, 0}, "x");
  Expr s = shape(x);
  ASSERT_EQ(s->elements.size(), 3u);
  EXPECT_EQ(s->elements, (Ints{-1, 3, 4}));
  Expr tail = subtensor(s, {IndexItem::range(1)});
  EXPECT_EQ(tail->elements, (Ints{3, 4}));
  EXPECT_EQ(reshape(x, concatenate({make_vector({Expr(-1)}), tail}, 0)).type().shape,
            (Dims{-1, 3, 4}));
  EXPECT_EQ(flatten(x, 2).type().shape, (Dims{-1, 12}));
  EXPECT_EQ(broadcast_to(0.0, tail * 2).type().shape, (Dims{6, 8}));
  EXPECT_EQ(subtensor(x, {IndexItem(), IndexItem::range(1), IndexItem::range({}, -1)}).type().shape,
            (Dims{-1, 2, 3}));
}

TEST(OpSizes, Reshape) {
  Expr x = dmatrix("x");
  Array a = counted({6, 4});
  EXPECT_EQ(shape_of(run(reshape(x, {-1, 8}), {{x, a}})), (Ints{3, 8}));
  EXPECT_EQ(reshape(x, {1, -1}).type().broadcast, 1);
  Expr bad = reshape(x, {5, 5});
  const auto e = error_of([&] { run(bad, {{x, a}}); });
  EXPECT_EQ(e.fault(), Fault::Shape);
  EXPECT_NE(e.message().find("(6, 4) and (5, 5)"), std::string::npos) << e.what();
  Expr fixed = input({DType::F64, {6, 4}, 0});
  const auto now = error_of([&] { reshape(fixed, {5, 5}); });
  EXPECT_NE(now.message().find("(6, 4) has 24 elements, (5, 5) has 25"), std::string::npos)
      << now.what();
  EXPECT_EQ(error_of([&] { run(reshape(x, {-1, 5}), {{x, a}}); }).fault(), Fault::Shape);
  EXPECT_EQ(error_of([&] { reshape(x, {-1, -1}); }).fault(), Fault::Shape);
}

TEST(OpSizes, DimshuffleDropsOnlyWhatStretches) {
  Expr x = dmatrix();
  EXPECT_EQ(error_of([&] { dimshuffle(x, {0}); }).fault(), Fault::Type);
  EXPECT_EQ(dimshuffle(drow(), {1}).ndim(), 1);
  EXPECT_EQ(dimshuffle(x, {1, -1, 0}).type().broadcast, 2);
}

TEST(OpSizes, Concatenate) {
  Expr x = dmatrix(), y = dmatrix();
  Givens given{{x, counted({2, 3})}, {y, counted({1, 3})}};
  EXPECT_EQ(values(run(concatenate({x, y}), given)), (Doubles{0, 1, 2, 3, 4, 5, 0, 1, 2}));
  EXPECT_EQ(error_of([&] { run(concatenate({x, y}, 1), given); }).fault(), Fault::Shape);
}

// ---- slices ----

struct Ranged {
  std::optional<std::int64_t> start, stop, step;
};

/// Python's slice.indices, written from its definition.
Ints python_slice(std::int64_t n, const Ranged& r) {
  std::int64_t step = r.step.value_or(1), low = step < 0 ? -1 : 0, high = step < 0 ? n - 1 : n;
  auto adjust = [&](std::int64_t e) { return std::clamp(e < 0 ? e + n : e, low, high); };
  std::int64_t start = r.start ? adjust(*r.start) : step < 0 ? high : low;
  std::int64_t stop = r.stop ? adjust(*r.stop) : step < 0 ? low : high;
  Ints out;
  for (std::int64_t i = start; step < 0 ? i > stop : i < stop; i += step) out.push_back(i);
  return out;
}

/// The elements a view's layout addresses, in C order of the result.
Doubles through_view(const Expr& y, const Array& x) {
  const Apply& a = *y->owner;
  SizeTable sizes;
  std::vector<Type> types;
  std::vector<std::vector<SizeId>> elements;
  for (std::size_t i = 0; i < a.inputs.size(); ++i) {
    Type t{a.inputs[i].dtype(), {}, a.inputs[i].type().broadcast};
    const Array* value = i == 0 ? &x : constant_value(a.inputs[i]);
    for (std::int64_t d : value->shape) t.dims.push_back(sizes.constant(d));
    types.push_back(t);
    elements.emplace_back();
    if (i > 0)
      for (std::int64_t k = 0; k < value->size(); ++k)
        elements.back().push_back(sizes.constant(value->at_int(k)));
  }
  Infer infer(*a.op, a.attrs, sizes);
  std::vector<std::span<const SizeId>> spans;
  for (std::size_t i = 0; i < types.size(); ++i) {
    infer.inputs.push_back(&types[i]);
    spans.push_back(elements[i]);
  }
  infer.input_elements = spans;
  run_infer(infer);
  Layout in = contiguous_layout(sizes, types[0].dims), out;
  const Type& type = infer.results[0].type;
  if (!a.op->view({a.attrs, sizes, types[0], type, in, spans}, out)) return {};
  Dims shape;
  for (SizeId d : type.dims) shape.push_back(*sizes.known(d));
  Doubles got;
  Dims at(shape.size(), 0);
  for (std::int64_t k = 0, n = product(shape); k < n; ++k) {
    std::int64_t place = *sizes.known(out.offset);
    for (std::size_t i = 0; i < at.size(); ++i) place += at[i] * *sizes.known(out.strides[i]);
    EXPECT_GE(place, 0);
    EXPECT_LT(place, x.size());
    got.push_back(x.at_double(place));
    for (std::size_t i = at.size(); i-- > 0;) {
      if (++at[i] < shape[i]) break;
      at[i] = 0;
    }
  }
  return got;
}

TEST(OpSlice, EveryRangeAsInPython) {
  Expr x = dvector("x"), a = lscalar("a"), b = lscalar("b"), s = lscalar("s");
  std::vector<std::optional<std::int64_t>> bounds{{}, -6, -4, -2, -1, 0, 1, 3, 4, 6},
      steps{{}, -3, -1, 1, 2};
  auto constant_or_none = [](const std::optional<std::int64_t>& v) {
    return v ? constant(scalar64(*v)) : Expr();
  };
  for (std::int64_t n : {0, 1, 4})
    for (const auto& start : bounds)
      for (const auto& stop : bounds)
        for (const auto& step : steps) {
          Ranged r{start, stop, step};
          SCOPED_TRACE(fmt::format("{}: [{}:{}:{}]", n, start.value_or(99), stop.value_or(99),
                                   step.value_or(99)));
          Array data = counted({n});
          Ints expected = python_slice(n, r);
          Doubles want(expected.begin(), expected.end());
          Expr fixed =
              subtensor(x, {IndexItem::range(constant_or_none(start), constant_or_none(stop),
                                             constant_or_none(step))});
          Expr moving = subtensor(
              x, {IndexItem::range(start ? a : Expr(), stop ? b : Expr(), step ? s : Expr())});
          ASSERT_EQ(values(run(fixed, {{x, data}})), want);
          Givens given{{x, data},
                       {a, scalar64(start.value_or(0))},
                       {b, scalar64(stop.value_or(0))},
                       {s, scalar64(step.value_or(0))}};
          ASSERT_EQ(values(run(moving, given)), want);
          if (fixed->owner) {
            ASSERT_EQ(through_view(fixed, data), want);
          }
        }
}

TEST(OpSlice, Errors) {
  Expr x = dmatrix("x"), i = lscalar("i");
  Expr row = subtensor(x, {IndexItem(i)});
  for (std::int64_t bad : {3, -4, 100}) {
    const auto e = error_of([&] { run(row, {{x, counted({3, 2})}, {i, scalar64(bad)}}); });
    EXPECT_NE(e.message().find("outside axis 0"), std::string::npos) << e.what();
  }
  EXPECT_EQ(values(run(row, {{x, counted({3, 2})}, {i, scalar64(-1)}})), (Doubles{4, 5}));
  Expr stepped = subtensor(x, {IndexItem::range({}, {}, i)});
  EXPECT_THROW(run(stepped, {{x, counted({3, 2})}, {i, scalar64(0)}}), Error);
  EXPECT_THROW(subtensor(x, {IndexItem::range({}, {}, 0)}), Error);
  EXPECT_EQ(error_of([&] {
              subtensor(input({DType::F64, {3}, 0}), {IndexItem(3)});
            }).fault(),
            Fault::Index);
  EXPECT_EQ(error_of([&] {
              subtensor(x, {IndexItem(0), IndexItem(0), IndexItem(0)});
            }).fault(),
            Fault::Index);
}

TEST(OpSlice, KeepsBroadcastableAxes) {
  Expr r = drow();
  EXPECT_EQ(subtensor(r, {IndexItem::range(0, 1)}).type().broadcast, 1);
  EXPECT_EQ(subtensor(r, {IndexItem::range({}, {}, -1)}).type().broadcast, 1);
  EXPECT_EQ(subtensor(r, {IndexItem::range(1)}).type().broadcast, 0);
  EXPECT_EQ(subtensor(r, {IndexItem::ellipsis(), IndexItem::newaxis()}).type().broadcast, 5);
}

TEST(OpViews, LayoutsAddressTheSameElements) {
  Array x = counted({2, 3, 4});
  Expr t = dtensor3();
  for (const Expr& y :
       {dimshuffle(t, {2, -1, 0, 1}), reshape(t, {4, 6}), reshape(t, {2, 3, 1, 4}),
        subtensor(t, {IndexItem::range({}, {}, -1), IndexItem(1), IndexItem::range(1, {}, 2)}),
        broadcast_to(t, {5, 2, 3, 4})}) {
    ASSERT_FALSE(through_view(y, x).empty());
    EXPECT_EQ(through_view(y, x), values(run(y, {{t, x}}))) << label(y);
  }
}

// ---- indexing ----

/// A sum that depends on the order.
std::int64_t mixed(const Array& a) {
  double s = 0;
  for (std::int64_t k = 0; k < a.size(); ++k) s += static_cast<double>(k + 1) * a.at_double(k);
  return static_cast<std::int64_t>(s);
}

TEST(OpIndex, AsInNumPy) {
  auto bools = [](const std::function<bool(std::int64_t)>& f, const Dims& shape) {
    Array a = Array::empty(DType::Bool, shape);
    for (std::int64_t k = 0; k < a.size(); ++k) a.set_int(k, f(k));
    return constant(a);
  };
  // Shapes unknown to the compiler where NumPy's are data.
  Expr x = dtensor3("x"), i1 = lvector("i1"), i2 = lvector("i2"), i22 = lmatrix("i22"),
       col = lcol("col"), row = lrow("row");
  Expr m1 = bools([](std::int64_t k) { return k != 1; }, {3});
  Expr m2 = bools([](std::int64_t k) { return 5 * k % 3 == 0; }, {3, 4});
  Expr m45 = bools([](std::int64_t k) { return (20 + k) % 4 == 1; }, {4, 5});
  Givens given{{x, counted({3, 4, 5})},
               {i1, ints({2, 0})},
               {i2, ints({1, -1})},
               {i22, Array::from<std::int64_t>({0, 1, 2, -1}, {2, 2})},
               {col, Array::from<std::int64_t>({0, 2}, {2, 1})},
               {row, Array::from<std::int64_t>({1, 3}, {1, 2})}};
  IndexItem all, na = IndexItem::newaxis(), el = IndexItem::ellipsis();
  Expr none;
  auto rg = [](const Expr& a, const Expr& b, const Expr& c) { return IndexItem::range(a, b, c); };
  struct Case {
    std::vector<IndexItem> items;
    Ints shape;
    std::int64_t read, set, increased;  // sums over x[items], and x after = -1 and += 1000
  };
  // Computed by NumPy (the sums by np.add.at).
  const Case cases[] = {
      {{IndexItem(0)}, {4, 5}, 2660, 69110, 281980},
      {{IndexItem(-1), rg(Expr(1), Expr(3), none)}, {2, 5}, 2805, 46395, 576980},
      {{rg(none, none, Expr(-1)), el, IndexItem(2)}, {3, 4}, 1736, 57242, 437980},
      {{na, IndexItem(1), el, na}, {1, 4, 5, 1}, 6860, 52710, 681980},
      {{el}, {3, 4, 5}, 71980, -1830, 1901980},
      {{IndexItem(i1)}, {2, 4, 5}, 17520, 17440, 1291980},
      {{all, IndexItem(i1)}, {3, 2, 5}, 16240, 39650, 911980},
      {{IndexItem(i1), IndexItem(i2)}, {2, 5}, 1405, 58820, 401980},
      {{IndexItem(i1), all, IndexItem(i2)}, {2, 4}, 834, 61304, 319980},
      {{all, IndexItem(i1), IndexItem(i2)}, {3, 2}, 727, 65433, 242980},
      {{IndexItem(0), all, IndexItem(i1)}, {2, 4}, 340, 71000, 147980},
      {{all, IndexItem(0), IndexItem(i1)}, {3, 2}, 598, 67470, 203980},
      {{IndexItem(i22)}, {2, 2, 4, 5}, 142440, -1830, 2911980},
      {{all, IndexItem(i22), rg(Expr(1), none, none)}, {3, 2, 2, 4}, 46780, 11492, 1559980},
      {{IndexItem(col), IndexItem(row)}, {2, 2, 5}, 9010, 41660, 731980},
      {{all, IndexItem(col), IndexItem(row)}, {3, 2, 2}, 2812, 59060, 407980},
      {{el, IndexItem(i1)}, {3, 4, 2}, 11398, 43920, 779980},
      {{all, IndexItem(i1), el, IndexItem(i2)}, {2, 3}, 626, 65433, 242980},
      {{IndexItem(m1)}, {2, 4, 5}, 33520, 17440, 1291980},
      {{IndexItem(m2)}, {4, 5}, 7060, 53310, 581980},
      {{all, IndexItem(m45)}, {3, 5}, 4600, 54000, 521980},
      {{IndexItem(m1), all, IndexItem(i1)}, {2, 4}, 1380, 61880, 307980},
      {{IndexItem(m1), IndexItem(0)}, {2, 5}, 1730, 62670, 301980},
      {{all, na, IndexItem(i1)}, {3, 1, 2, 5}, 16240, 39650, 911980},
      {{IndexItem(i1), na, IndexItem(i2)}, {2, 1, 5}, 1405, 58820, 401980},
      {{rg(Expr(0), Expr(2), none), IndexItem(i1), rg(none, none, Expr(2))},
       {2, 2, 3},
       1612,
       66560,
       287980},
      {{na, IndexItem(i1), rg(Expr(1), none, none), IndexItem(0)}, {2, 1, 3}, 470, 63714, 257980},
  };
  for (std::size_t k = 0; k < std::size(cases); ++k) {
    SCOPED_TRACE(k);
    const Case& c = cases[k];
    Array got = run(subtensor(x, c.items), given);
    EXPECT_EQ(shape_of(got), c.shape);
    EXPECT_EQ(mixed(got), c.read);
    EXPECT_EQ(mixed(run(set_subtensor(x, c.items, -1), given)), c.set);
    EXPECT_EQ(mixed(run(inc_subtensor(x, c.items, 1000.0f), given)), c.increased);
  }
}

TEST(OpIndex, Errors) {
  Expr x = dmatrix("x"), i = lvector("i"), m = tensor(DType::Bool, 1, "m");
  Expr y = subtensor(x, {IndexItem(i)});
  const auto e = error_of([&] { run(y, {{x, counted({3, 2})}, {i, ints({0, 3})}}); });
  EXPECT_EQ(e.fault(), Fault::Index);
  EXPECT_NE(e.message().find("index 3 is outside an axis of size 3"), std::string::npos)
      << e.what();
  Expr masked = subtensor(x, {IndexItem(m)});
  EXPECT_EQ(error_of([&] {
              run(masked, {{x, counted({3, 2})}, {m, Array::zeros(DType::Bool, {4})}});
            }).fault(),
            Fault::Shape);
  EXPECT_EQ(error_of([&] { subtensor(x, {IndexItem(dvector())}); }).fault(), Fault::Type);
  Expr k = lvector();
  EXPECT_EQ(error_of([&] { set_subtensor(k, {IndexItem(0)}, 0.5); }).fault(), Fault::Type);
}

TEST(OpIndex, AnEmptyMask) {
  Expr x = dmatrix("x");
  Array got = run(subtensor(x, {IndexItem(gt(x, 100))}), {{x, counted({3, 2})}});
  EXPECT_EQ(shape_of(got), (Ints{0}));
}

// ---- generators ----

TEST(OpGenerate, Arange) {
  Expr n = lscalar();
  EXPECT_EQ(values(run(arange(2, n, 3), {{n, scalar64(11)}})), (Doubles{2, 5, 8}));
  EXPECT_EQ(values(run(arange(5, n, -2), {{n, scalar64(-1)}})), (Doubles{5, 3, 1}));
  EXPECT_EQ(shape_of(run(arange(n), {{n, scalar64(-3)}})), (Ints{0}));
  EXPECT_EQ(values(run(arange(0.0, 1.0, 0.25))), (Doubles{0, 0.25, 0.5, 0.75}));
  EXPECT_EQ(values(run(eye(2, 3, 1, DType::F64))), (Doubles{0, 1, 0, 0, 0, 1}));
  Expr x = dmatrix();
  EXPECT_EQ(values(run(tril(x), {{x, counted({2, 3})}})), (Doubles{0, 0, 0, 3, 4, 0}));
  EXPECT_EQ(values(run(triu(x, 1), {{x, counted({2, 3})}})), (Doubles{0, 1, 2, 0, 0, 5}));
}

/// The loop body of a generator, element by element.
Doubles by_body(const OpDef& op, const Attrs& attrs, DType dtype, const Dims& shape,
                const std::vector<std::pair<DType, std::int64_t>>& args) {
  ScalarBuilder b;
  b.result = dtype;
  for (const auto& [t, v] : args) b.arg_types.push_back(t);
  Scalar result = op.scalar(b, attrs);
  Doubles out;
  Dims at(shape.size(), 0);
  for (std::int64_t k = 0, n = product(shape); k < n; ++k) {
    std::vector<Number> v(b.body.size());
    for (std::size_t j = 0; j < b.body.size(); ++j) {
      const Instr& in = b.body[j];
      if (in.prim == Prim::Arg)
        v[j].i = args[static_cast<std::size_t>(in.integer)].second;
      else if (in.prim == Prim::Index)
        v[j].i = at[static_cast<std::size_t>(in.integer)];
      else if (in.prim == Prim::FlatIndex)
        v[j].i = k;
      else
        v[j] = evaluate(in, b.body[in.prim == Prim::Select ? in.b : in.a].dtype, v[in.a], v[in.b],
                        v[in.c]);
    }
    out.push_back(is_float(dtype) ? v[result.id].f : static_cast<double>(v[result.id].i));
    for (std::size_t i = at.size(); i-- > 0;) {
      if (++at[i] < shape[i]) break;
      at[i] = 0;
    }
  }
  return out;
}

TEST(OpGenerate, BodiesAgreeWithTheReference) {
  auto by_reference = [](const OpDef& op, const Attrs& attrs, DType dtype, const Dims& shape,
                         const std::vector<std::pair<DType, std::int64_t>>& args) {
    std::vector<RefTensor> x;
    for (const auto& [t, v] : args) {
      x.push_back(RefTensor::zeros(t, {}));
      x.back().i[0] = v;
    }
    std::vector<const RefTensor*> px;
    for (const RefTensor& t : x) px.push_back(&t);
    std::vector<RefTensor> y{RefTensor::zeros(dtype, shape)};
    op.reference({attrs, px, y, {}});
    return values(y[0].to_array());
  };
  for (DType t : {DType::F16, DType::F32, DType::F64})
    for (const OpDef* op : {&ops::random_uniform, &ops::random_normal}) {
      std::vector<std::pair<DType, std::int64_t>> args{{DType::U64, 123456789}, {DType::I64, 7}};
      Doubles body = by_body(*op, {}, t, {40}, args),
              reference = by_reference(*op, {}, t, {40}, args);
      for (std::size_t k = 0; k < body.size(); ++k)
        EXPECT_NEAR(body[k], reference[k], t == DType::F16 ? 1e-2 : 1e-6);
      if (op == &ops::random_uniform && t != DType::F16) {
        EXPECT_EQ(body, reference);
      }
    }
  Attrs dtype{{"dtype", DType::I32}};
  std::vector<std::pair<DType, std::int64_t>> range{{DType::I64, 3}, {DType::I8, -2}};
  EXPECT_EQ(by_body(ops::arange, dtype, DType::I32, {4}, range),
            by_reference(ops::arange, dtype, DType::I32, {4}, range));
  Attrs k{{"k", std::int64_t{-1}}};
  EXPECT_EQ(by_body(ops::eye, k, DType::F32, {3, 4}, {}),
            by_reference(ops::eye, k, DType::F32, {3, 4}, {}));
}

TEST(Random, StreamsAreReproducibleAndMoveOn) {
  RandomStream a(7), b(7), c(8);
  Expr ua = a.uniform({1000}, 0, 1, DType::F64), ub = b.uniform({1000}, 0, 1, DType::F64);
  Expr second = a.uniform({1000}, 0, 1, DType::F64), other = c.uniform({1000}, 0, 1, DType::F64);
  Doubles first = values(run(ua));
  EXPECT_EQ(first, values(run(ub)));
  EXPECT_NE(first, values(run(second)));
  EXPECT_NE(first, values(run(other)));
  double total = 0;
  for (double v : first) {
    EXPECT_TRUE(v >= 0 && v < 1);
    total += v;
  }
  EXPECT_NEAR(total / 1000, 0.5, 0.05);
  // The default update changes the key.
  Expr state = ua->owner->inputs[0];
  ASSERT_NE(as_shared(state), nullptr);
  Expr next = as_shared(state)->find_default_update();
  ASSERT_TRUE(next);
  as_shared(state)->set_value(run(next));
  EXPECT_NE(first, values(run(ua)));
  a.seed(7);
  EXPECT_EQ(first, values(run(ua)));
}

TEST(Random, NormalAndBernoulli) {
  RandomStream s(3);
  Doubles z = values(run(s.normal({4000}, 2, 3, DType::F64)));
  double mean = 0, square = 0;
  for (double v : z) mean += v / 4000;
  for (double v : z) square += (v - mean) * (v - mean) / 4000;
  EXPECT_NEAR(mean, 2, 0.2);
  EXPECT_NEAR(std::sqrt(square), 3, 0.2);
  Array coins = run(s.bernoulli({4000}, 0.3));
  EXPECT_EQ(coins.dtype, DType::I64);
  double heads = 0;
  for (double v : values(coins)) heads += v / 4000;
  EXPECT_NEAR(heads, 0.3, 0.03);
  Expr x = fmatrix("x");
  Expr d = dropout(x, 0.5, s);
  EXPECT_EQ(d.type(), x.type());
  for (double v : values(run(d, {{x, ones({20, 20}, DType::F32)}}))) EXPECT_TRUE(v == 0 || v == 2);
}

// ---- linear algebra, convolution ----

TEST(OpLinalg, Products) {
  Expr a = imatrix(), b = imatrix(), v = lvector();
  Array x = counted({2, 3}, DType::I32), y = counted({3, 2}, DType::I32);
  Expr ab = dot(a, b);
  EXPECT_EQ(ab.dtype(), DType::I32);
  EXPECT_EQ(values(run(ab, {{a, x}, {b, y}})), (Doubles{10, 13, 28, 40}));
  EXPECT_EQ(values(run(dot(a, v), {{a, x}, {v, ints({1, 0, 2})}})), (Doubles{4, 13}));
  EXPECT_EQ(values(run(dot(v, v), {{v, ints({1, 0, 2})}})), (Doubles{5}));
  const auto e = error_of([&] { run(dot(a, b), {{a, x}, {b, x}}); });
  EXPECT_NE(e.message().find("dot: inner sizes differ: (2, 3) and (2, 3)"), std::string::npos);
  Expr fixed = input({DType::F32, {32, 10}, 0}), other = input({DType::F32, {4, 10}, 0});
  EXPECT_EQ(error_of([&] { dot(fixed, other); }).hint(),
            "the transpose of the second argument fits: dot(a, b.T) gives (32, 4)");
  Expr t = dtensor3();
  EXPECT_EQ(shape_of(run(dot(t, cast(b, DType::F64)), {{t, counted({4, 2, 3})}, {b, y}})),
            (Ints{4, 2, 2}));
}

TEST(OpLinalg, FactorsAndSolutions) {
  Expr a = dmatrix(), b = dmatrix();
  Array m = Array::from<double>({4, 2, 2, 5}, {2, 2}), r = Array::from<double>({2, 1}, {2, 1});
  Doubles l = values(run(cholesky(a), {{a, m}}));
  EXPECT_NEAR(l[0], 2, 1e-12);
  EXPECT_NEAR(l[1], 0, 1e-12);
  EXPECT_NEAR(l[2], 1, 1e-12);
  EXPECT_NEAR(l[3], 2, 1e-12);
  Expr residual = dot(a, solve(a, b)) - b;
  for (double v : values(run(residual, {{a, m}, {b, r}}))) EXPECT_NEAR(v, 0, 1e-12);
  Array bad = Array::from<double>({1, 2, 2, 1}, {2, 2});
  EXPECT_EQ(error_of([&] { run(cholesky(a), {{a, bad}}); }).fault(), Fault::Numeric);
  EXPECT_EQ(error_of([&] { solve(a, b, "lowr"); }).hint(), "did you mean 'lower'?");
}

TEST(OpConv, ValuesAndSizes) {
  Expr x = dtensor4(), w = dtensor4();
  Givens given{{x, counted({1, 1, 3, 3})}, {w, Array::from<double>({1, 2, 3, 4}, {1, 1, 2, 2})}};
  // A convolution turns the filter round.
  EXPECT_EQ(values(run(conv2d(x, w), given)), (Doubles{13, 23, 43, 53}));
  ConvOptions plain;
  plain.flip = false;
  EXPECT_EQ(values(run(conv2d(x, w, plain), given)), (Doubles{27, 37, 57, 67}));
  Expr filters = shared(zeros({4, 1, 3, 3}, DType::F64), "filters");
  ConvOptions same{.border_mode = "half"}, full{.border_mode = "full"}, wrong{.border_mode = "ful"};
  EXPECT_EQ(shape_of(run(conv2d(x, filters, same), {given[0]})), (Ints{1, 4, 3, 3}));
  EXPECT_EQ(shape_of(run(conv2d(x, filters, full), {given[0]})), (Ints{1, 4, 5, 5}));
  EXPECT_EQ(error_of([&] { conv2d(x, filters, wrong); }).hint(), "did you mean 'full'?");
  EXPECT_EQ(shape_of(run(conv2d(x, w, full), given)), (Ints{1, 1, 4, 4}));  // of unknown size
  // Over one and three axes, and back.
  Expr row = tensor(DType::F64, 3), filter = tensor(DType::F64, 3);
  Givens line{{row, counted({1, 1, 4})}, {filter, Array::from<double>({1, 2}, {1, 1, 2})}};
  EXPECT_EQ(values(run(conv1d(row, filter), line)), (Doubles{1, 4, 7}));
  EXPECT_EQ(values(run(causal_conv1d(row, filter), line)), (Doubles{0, 1, 4, 7}));
  Expr volume = tensor(DType::F64, 5), cube = tensor(DType::F64, 5);
  Givens deep{{volume, counted({1, 1, 2, 2, 2})},
              {cube, Array::from<double>({1, 0, 0, 0, 0, 0, 0, 2}, {1, 1, 2, 2, 2})}};
  EXPECT_EQ(values(run(conv3d(volume, cube), deep)), (Doubles{7}));
  ConvOptions steps{.subsample = {2, 2}};
  EXPECT_EQ(shape_of(run(conv2d_transpose(x, w, steps), given)), (Ints{1, 1, 6, 6}));
  EXPECT_EQ(values(run(conv2d_grad_weights(x, x, Dims{1, 1, 1, 1}), {given[0]})), (Doubles{204}));
}

TEST(OpPool, ValuesAndErrors) {
  Expr x = dtensor4();
  Givens given{{x, counted({1, 1, 3, 4})}};
  EXPECT_EQ(values(run(pool(x, {.window = {2, 2}}), given)), (Doubles{5, 7}));
  EXPECT_EQ(values(run(pool(x, {.window = {2, 2}, .ignore_border = false}), given)),
            (Doubles{5, 7, 9, 11}));
  Expr two = lscalar();
  Givens sized{given[0], {two, Array::from<std::int64_t>({2}, {})}};
  EXPECT_EQ(values(run(pool_of_sizes(x, {.window = {two, two}}), sized)), (Doubles{5, 7}));
  PoolSizes uneven{.window = {two}, .stride = {two, two}};
  EXPECT_EQ(error_of([&] { pool_of_sizes(x, uneven); }).fault(), Fault::Value);
  PoolOptions mean{.window = {3}, .stride = {1}, .pad = {1}, .mode = "average_exc_pad"};
  EXPECT_EQ(values(run(pool(x, mean), given)),
            (Doubles{0.5, 1, 2, 2.5, 4.5, 5, 6, 6.5, 8.5, 9, 10, 10.5}));
  EXPECT_EQ(values(run(global_pool(x), given)), (Doubles{5.5}));
  EXPECT_EQ(values(run(max_pool_same_size(x, {3, 2}), given)),
            (Doubles{0, 0, 0, 0, 0, 0, 0, 0, 0, 9, 0, 11}));
  EXPECT_EQ(error_of([&] { run(pool(x, {.window = {4, 4}}), given); }).fault(), Fault::Shape);
  EXPECT_EQ(error_of([&] { pool(x, {.window = {2}, .pad = {2}}); }).fault(), Fault::Value);
  EXPECT_EQ(error_of([&] { pool(x, {.window = {2}, .mode = "su"}); }).hint(),
            "did you mean 'sum'?");
}

TEST(OpNetworks, Softmax) {
  Expr x = dmatrix(), y = ivector();
  Array a = Array::from<double>({1000, 1000, -1000, 0, std::log(3.0), 0}, {3, 2});
  Doubles p = values(run(softmax(x), {{x, a}}));
  EXPECT_NEAR(p[0], 0.5, 1e-12);
  EXPECT_NEAR(p[2], 0, 1e-12);
  EXPECT_NEAR(p[4], 0.75, 1e-12);
  Array t = ints({0, 1, 0}).to(DType::I32);
  Doubles nll = values(run(categorical_crossentropy(softmax(x), y), {{x, a}, {y, t}}));
  EXPECT_NEAR(nll[2], -std::log(0.75), 1e-12);
  Expr dist = dmatrix();
  Doubles same = values(run(categorical_crossentropy(softmax(x), dist),
                            {{x, a}, {dist, Array::from<double>({1, 0, 0, 1, 1, 0}, {3, 2})}}));
  EXPECT_NEAR(same[2], nll[2], 1e-12);
}

// ---- loops ----

TEST(OpLoop, StatesOutputsAndCaptures) {
  Expr x = dmatrix("x"), scale = dscalar("scale");
  Expr doubled = scale * 2;  // does not depend on the iteration
  LoopResult r = loop(
      [&](const Expr& i, const std::vector<Expr>& e, const std::vector<Expr>& s) {
        return LoopStep{{s[0] + e[0] * doubled}, {s[0], cast(i, DType::F64)}};
      },
      {x}, {zeros_like(subtensor(x, {IndexItem(0)}))});
  Givens given{{x, counted({3, 2})}, {scale, Array::scalar(0.5)}};
  EXPECT_EQ(values(run(r.states[0], given)), (Doubles{6, 9}));
  EXPECT_EQ(values(run(r.outputs[0], given)), (Doubles{0, 0, 0, 1, 2, 4}));
  EXPECT_EQ(values(run(r.outputs[1], given)), (Doubles{0, 1, 2}));
  const Apply& node = *r.states[0]->owner;
  EXPECT_TRUE(same(node.inputs.back(), doubled));  // computed once, outside
  given[0].second = counted({1, 2});
  EXPECT_EQ(shape_of(run(r.outputs[0], given)), (Ints{1, 2}));
}

TEST(OpLoop, DrawsAnewInEveryIteration) {
  RandomStream s(5);
  Expr n = lscalar("n");
  Expr rows = loop(
                  [&](const Expr&, const std::vector<Expr>&, const std::vector<Expr>&) {
                    return LoopStep{{}, {s.uniform({4}, 0, 1, DType::F64)}};
                  },
                  {}, {}, n)
                  .outputs[0];
  Doubles v = values(run(rows, {{n, scalar64(3)}}));
  std::set<double> unlike(v.begin(), v.end());
  EXPECT_EQ(unlike.size(), 12u);
  EXPECT_EQ(v, values(run(rows, {{n, scalar64(3)}})));
}

TEST(OpLoop, Errors) {
  Expr x = dvector("x"), y = dvector("y");
  auto keep = [](const Expr&, const std::vector<Expr>& e, const std::vector<Expr>& s) {
    return LoopStep{s, {e.empty() ? s[0] : e[0]}};
  };
  EXPECT_EQ(error_of([&] { loop(keep, {}, {x}); }).fault(), Fault::Value);
  EXPECT_EQ(error_of([&] { loop(keep, {dscalar()}, {x}); }).fault(), Fault::Type);
  auto grows = [](const Expr&, const std::vector<Expr>&, const std::vector<Expr>& s) {
    return LoopStep{{dimshuffle(s[0], {-1, 0})}, {}};
  };
  EXPECT_EQ(error_of([&] { loop(grows, {x}, {y}); }).fault(), Fault::Type);
  LoopResult two = loop(
      [](const Expr&, const std::vector<Expr>& e, const std::vector<Expr>&) {
        return LoopStep{{}, {e[0] + e[1]}};
      },
      {x, y}, {});
  EXPECT_EQ(error_of([&] {
              run(two.outputs[0], {{x, counted({3})}, {y, counted({2})}});
            }).fault(),
            Fault::Shape);
}

TEST(Functions, KeepTheUsersLine) {
  Expr x = matrix("x");
  Expr y = x * 2;
  const int line = __LINE__ - 1;
  EXPECT_NE(describe(y->owner->origin).find(fmt::format("ops_test.cpp:{}", line)),
            std::string::npos);
  Expr p = softmax(dot(x, x));
  EXPECT_NE(describe(p->owner->origin).find("ops_test.cpp"), std::string::npos);
}

TEST(Functions, Substitute) {
  Expr x = dvector("x"), y = dvector("y");
  Expr z = exp(x) + sqr(y), kept = sqr(y);
  std::vector<Expr> r = substitute({z, kept}, {{x, y}});
  EXPECT_TRUE(same(r[1], kept));
  Array v = Array::from<double>({1, 2}, {2});
  EXPECT_EQ(values(run(r[0], {{y, v}})), values(run(exp(y) + sqr(y), {{y, v}})));
}

// ---- numbers ----

TEST(Numbers, HaveTheDigitsOfWhatStandsBesideThem) {
  const Expr w = dvector("w"), x = fvector("x");
  const Array a = Array::from<double>({0.7, -1.0 / 3}, {2});
  const Array moved = run(w - 0.1 * w * 0.01, {{w, a}});
  EXPECT_EQ(moved.dtype, DType::F64);
  for (int k = 0; k < 2; ++k) {
    const double v = a.at_double(k);
    EXPECT_NEAR(moved.at_double(k), v - 0.1 * v * 0.01, 2e-16);
  }
  EXPECT_EQ(run(eq(w, 0.7), {{w, a}}).at_int(0), 1);
  EXPECT_EQ((x * 0.1).dtype(), DType::F32);
  EXPECT_EQ((x * 0.1f * w).dtype(), DType::F64);
  EXPECT_EQ(run(cast(Expr(0.1), DType::F64), {}).item<double>(), 0.1);
}

}  // namespace
}  // namespace snug
