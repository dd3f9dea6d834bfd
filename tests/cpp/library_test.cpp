// Every routine of host_library() against loops written here, with guard bytes around outputs and
// workspace, on one and on two threads.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>
#include <thread>

#include "backend/host_library.h"
#include "backend/native/copy.h"
#include "error_of.h"

namespace snug {
namespace {

using testing::error_of;

constexpr DType kAll[] = {DType::Bool, DType::I8,  DType::I16, DType::I32, DType::I64,
                          DType::U8,   DType::U16, DType::U32, DType::U64, DType::F16,
                          DType::BF16, DType::F32, DType::F64};

std::mt19937_64& rng() {
  static std::mt19937_64 engine(7);
  return engine;
}
std::int64_t pick(std::int64_t low, std::int64_t high) {
  return std::uniform_int_distribution<std::int64_t>(low, high)(rng());
}

/// Floats in [-1, 1], all bits of integers.
Array random_array(DType dtype, const Dims& shape) {
  Array a = Array::empty(dtype, shape);
  for (std::int64_t i = 0; i < a.size(); ++i) {
    if (is_float(dtype))
      a.set_double(i, std::uniform_real_distribution<double>(-1, 1)(rng()));
    else if (dtype == DType::Bool)
      a.set_int(i, pick(0, 3) == 0);
    else
      a.set_int(i, static_cast<std::int64_t>(rng()()));
  }
  return a;
}

Array permuted(const Array& a, const std::vector<int>& axes) {
  Array view = a;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    view.shape[i] = a.shape[axes[i]];
    view.strides[i] = a.strides[axes[i]];
  }
  return view;
}

/// The same values behind other strides.
enum class Form { Plain, Transposed, Padded, Reversed, Spread };
Array in_form(const Array& a, Form form) {
  const std::size_t d = a.shape.size();
  Array view;
  if (form == Form::Plain || d < 2 || a.size() == 0) return a.contiguous_copy();
  Dims shape = a.shape;
  if (form == Form::Transposed) {
    std::swap(shape[d - 1], shape[d - 2]);
    view = Array::empty(a.dtype, shape);
    std::swap(view.shape[d - 1], view.shape[d - 2]);
    std::swap(view.strides[d - 1], view.strides[d - 2]);
  } else if (form == Form::Padded) {
    shape[d - 1] += 3;
    view = Array::empty(a.dtype, shape);
    view.shape = a.shape;
  } else if (form == Form::Reversed) {
    view = Array::empty(a.dtype, shape);
    view.data += (shape[d - 2] - 1) * view.strides[d - 2] * size_of(a.dtype);
    view.strides[d - 2] *= -1;
  } else {
    shape[d - 1] *= 2;
    view = Array::empty(a.dtype, shape);
    view.shape = a.shape;
    view.strides[d - 1] = 2;
  }
  for (std::int64_t i = 0; i < a.size(); ++i)
    is_float(a.dtype) ? view.set_double(i, a.at_double(i)) : view.set_int(i, a.at_int(i));
  return view;
}
constexpr Form kForms[] = {Form::Plain, Form::Transposed, Form::Padded, Form::Reversed,
                           Form::Spread};

/// Memory with guard bytes on both sides.
class Guarded {
 public:
  explicit Guarded(std::uint64_t bytes)
      : bytes_(bytes), memory_(bytes + 2 * kGuard + 64, std::byte{0xA5}) {
    const auto at = reinterpret_cast<std::uintptr_t>(memory_.data()) + kGuard;
    data_ = memory_.data() + kGuard + (64 - at % 64) % 64;
  }
  std::byte* data() { return data_; }
  bool intact() const {
    const auto same = [](std::byte b) { return b == std::byte{0xA5}; };
    return std::all_of(memory_.data(), static_cast<const std::byte*>(data_), same) &&
           std::all_of(static_cast<const std::byte*>(data_) + bytes_,
                       memory_.data() + memory_.size(), same);
  }

 private:
  static constexpr std::uint64_t kGuard = 256;
  std::uint64_t bytes_;
  std::vector<std::byte> memory_;
  std::byte* data_;
};

ArgDesc desc(const Array& a) { return {a.dtype, a.shape, a.strides}; }
ArgDesc desc(DType dtype, const Dims& shape) { return {dtype, shape, contiguous_strides(shape)}; }

struct Call {
  OpDef op;
  Node node;
  CallSite site;

  Call(std::string_view name, Attrs attrs, const std::vector<Array>& in, std::vector<ArgDesc> out,
       std::vector<std::vector<std::int64_t>> sizes = {}) {
    op.name = name;
    node.op = &op;
    node.attrs = std::move(attrs);
    for (const ArgDesc& o : out) node.types.push_back({o.dtype, {}, 0});
    site.node = &node;
    for (const Array& a : in) site.in.push_back(desc(a));
    site.out = std::move(out);
    site.size_values = std::move(sizes);
  }
  Call(const Call&) = delete;

  const LibraryEntry& entry() const {
    const LibraryEntry* e = find_library(host_library(), node);
    if (!e) throw std::runtime_error("no entry");
    return *e;
  }
  std::unique_ptr<PreparedCall> prepare(int threads) {
    site.threads = threads;
    return entry().prepare(site);
  }
};

/// Runs a prepared call; checks the guards.
std::vector<Array> run(const PreparedCall& call, const std::vector<Array>& in,
                       const std::vector<ArgDesc>& out,
                       const std::vector<std::vector<std::int64_t>>& sizes = {},
                       std::int64_t* extents = nullptr) {
  Guarded workspace(call.workspace);
  std::vector<Guarded> memory;
  for (const ArgDesc& o : out) memory.emplace_back(product(o.shape) * size_of(o.dtype));
  std::vector<std::byte*> ins, outs;
  std::vector<ArgDesc> in_desc;
  std::vector<const std::int64_t*> size_values;
  for (const Array& a : in) {
    ins.push_back(a.data);
    in_desc.push_back(desc(a));
  }
  for (Guarded& g : memory) outs.push_back(g.data());
  for (const auto& s : sizes) size_values.push_back(s.data());
  call.make_ready();
  call.run({ins.data(), outs.data(), workspace.data(), in_desc.data(), out.data(),
            size_values.data(), extents, false});
  EXPECT_TRUE(workspace.intact()) << "workspace overrun";
  std::vector<Array> results;
  for (std::size_t i = 0; i < out.size(); ++i) {
    EXPECT_TRUE(memory[i].intact()) << "output overrun";
    Array a = Array::empty(out[i].dtype, out[i].shape);
    if (a.bytes()) std::memcpy(a.data, memory[i].data(), a.bytes());
    results.push_back(a);
  }
  return results;
}

/// Runs on one and on two threads, which must agree to the bit if `exact`; gives the outputs.
std::vector<Array> run_all(Call& call, const std::vector<Array>& in, bool exact = true,
                           std::int64_t* extents = nullptr) {
  auto one = run(*call.prepare(1), in, call.site.out, call.site.size_values, extents);
  auto two = run(*call.prepare(2), in, call.site.out, call.site.size_values, extents);
  for (std::size_t i = 0; exact && !extents && i < one.size(); ++i)
    EXPECT_TRUE(same_bits(one[i], two[i])) << call.op.name << " depends on threads";
  return two;
}

double epsilon(DType dtype) {
  return dtype == DType::F16    ? 1.0 / 1024
         : dtype == DType::BF16 ? 1.0 / 128
         : dtype == DType::F32  ? 1e-6
                                : 1e-14;
}

/// `expected` has double or int64 values; `scale` bounds the sums of absolute values.
void expect_close(const Array& got, const std::vector<double>& f,
                  const std::vector<std::int64_t>& ints, double scale, const std::string& what) {
  Array wanted = Array::empty(got.dtype, got.shape);
  for (std::int64_t i = 0; i < got.size(); ++i) {
    if (is_float(got.dtype)) {
      const double tolerance = epsilon(got.dtype) * (std::abs(f[i]) + 1) +
                               1e-6 * scale * (got.dtype == DType::F64 ? 1e-8 : 1);
      ASSERT_NEAR(got.at_double(i), f[i], tolerance) << what << " element " << i;
    } else {
      wanted.set_int(i, ints[i]);
      ASSERT_EQ(got.at_int(i), wanted.at_int(i)) << what << " element " << i;
    }
  }
}

/// All elements of an array, fast to read.
struct Values {
  explicit Values(const Array& a) : dtype(a.dtype), shape(a.shape) {
    for (std::int64_t i = 0; i < a.size(); ++i) {
      f.push_back(is_float(dtype) ? a.at_double(i) : 0);
      ints.push_back(is_float(dtype) ? 0 : static_cast<std::uint64_t>(a.at_int(i)));
    }
  }
  DType dtype;
  Dims shape;
  std::vector<double> f;
  std::vector<std::uint64_t> ints;
};

// --- dot --------------------------------------------------------------------------------------

void check_product(const Array& x, const Array& y, const Array& c, const std::string& what) {
  const Values a(x), b(y);
  const std::size_t d = a.shape.size() - 2;
  const std::int64_t batches = d ? c.shape[0] : 1, m = c.shape[d], n = c.shape[d + 1],
                     k = a.shape[d + 1];
  std::vector<double> f;
  std::vector<std::int64_t> ints;
  for (std::int64_t p = 0; p < batches; ++p)
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t j = 0; j < n; ++j) {
        double sum = 0;
        std::uint64_t whole = 0;
        for (std::int64_t l = 0; l < k; ++l) {
          const std::int64_t at = (p * m + i) * k + l, bt = (p * k + l) * n + j;
          if (is_float(a.dtype))
            sum += a.f[at] * b.f[bt];
          else if (a.dtype == DType::Bool)
            whole |= a.ints[at] & b.ints[bt];
          else
            whole += a.ints[at] * b.ints[bt];
        }
        f.push_back(sum);
        ints.push_back(static_cast<std::int64_t>(whole));
      }
  expect_close(c, f, ints, static_cast<double>(k), what);
}

TEST(Library, TableIsSortedAndEntriesAreFoundByDtype) {
  const LibraryTable table = host_library();
  EXPECT_TRUE(std::is_sorted(table.begin(), table.end(),
                             [](const auto& a, const auto& b) { return a.op < b.op; }));
  const auto library = [](DType t) {
    return Call("dot", {}, {}, {desc(t, {1, 1})}).entry().library;
  };
  EXPECT_EQ(library(DType::F32), "onednn");
  EXPECT_EQ(library(DType::F16), "openblas");
  EXPECT_EQ(library(DType::F64), "openblas");
  EXPECT_EQ(library(DType::I32), "native");
  OpDef add;
  add.name = "add";
  Node node;
  node.op = &add;
  EXPECT_EQ(find_library(table, node), nullptr);
}

TEST(Library, DotOfEveryDtypeAndLayout) {
  const Dims sizes[] = {{3, 4, 5},   {1, 7, 1}, {33, 70, 65}, {17, 1, 129}, {1, 200, 64},
                        {64, 90, 1}, {0, 3, 2}, {3, 0, 2},    {2, 3, 0}};
  for (DType t : kAll)
    for (const Dims& s : sizes)
      for (Form fa : kForms)
        for (Form fb : kForms) {
          const Array a = in_form(random_array(t, {s[0], s[1]}), fa);
          const Array b = in_form(random_array(t, {s[1], s[2]}), fb);
          Call call("dot", {}, {a, b}, {desc(t, {s[0], s[2]})});
          check_product(a, b, run_all(call, {a, b}, false)[0],
                        fmt::format("{} {} forms {} {}", name_of(t), describe_shape(s),
                                    static_cast<int>(fa), static_cast<int>(fb)));
        }
}

TEST(Library, DotOfLargeMatrices) {
  for (DType t : {DType::F16, DType::BF16, DType::F32, DType::F64, DType::I32})
    for (Form form : {Form::Plain, Form::Transposed, Form::Spread}) {
      const Array a = in_form(random_array(t, {401, 530}), form);
      const Array b = in_form(random_array(t, {530, 67}), form);
      Call call("dot", {}, {a, b}, {desc(t, {401, 67})});
      check_product(a, b, run_all(call, {a, b}, false)[0], fmt::format("large {}", name_of(t)));
    }
  const Array a = random_array(DType::F16, {2, 3}), wide = random_array(DType::F16, {3, 1500});
  Call call("dot", {}, {a, wide}, {desc(DType::F16, {2, 1500})});  // several tiles of columns
  check_product(a, wide, run_all(call, {a, wide}, false)[0], "wide");
}

TEST(Library, BatchedDot) {
  const Dims sizes[] = {{3, 4, 5, 6}, {5, 20, 31, 17}, {1, 8, 40, 9}, {0, 2, 3, 4}, {2, 3, 0, 4}};
  for (DType t : kAll)
    for (const Dims& s : sizes)
      for (Form form : kForms) {
        const Array a = in_form(random_array(t, {s[0], s[1], s[2]}), form);
        const Array b = in_form(random_array(t, {s[0], s[2], s[3]}), form);
        Call call("batched_dot", {}, {a, b}, {desc(t, {s[0], s[1], s[3]})});
        check_product(a, b, run_all(call, {a, b}, false)[0], "batched");
        // One matrix for the whole batch, and the batch as the fastest axis.
        Array repeated = random_array(t, {s[2], s[3]});
        repeated.shape = {s[0], s[2], s[3]};
        repeated.strides = {0, s[3], 1};
        const Array inside = permuted(random_array(t, {s[1], s[0], s[2]}), {1, 0, 2});
        Call other("batched_dot", {}, {inside, repeated}, {desc(t, {s[0], s[1], s[3]})});
        check_product(inside, repeated, run_all(other, {inside, repeated}, false)[0], "repeated");
      }
}

TEST(Library, DotTakesTheSizesAndStridesOfTheRun) {
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::F16, DType::I16}) {
    const Array bound = random_array(t, {64, 50}), b = random_array(t, {50, 30});
    Call call("dot", {}, {bound, b}, {desc(t, {64, 30})});
    call.site.runtime_sizes = true;
    const auto prepared = call.prepare(2);
    for (std::int64_t rows : {0, 1, 13, 64}) {
      Array a = bound;
      a.shape[0] = rows;
      check_product(a, b, run(*prepared, {a, b}, {desc(t, {rows, 30})})[0], "run-time size");
    }
    call.site.runtime_sizes = false;
    const auto fixed = call.prepare(2);
    for (Form form : kForms) {
      const Array a = in_form(bound, form);
      check_product(a, b, run(*fixed, {a, b}, {desc(t, {64, 30})})[0], "other strides");
    }
  }
}

TEST(Library, OneCallRunsOnTwoThreadsAtOnce) {
  const Attrs conv{{"pad", Attrs::Ints{1, 1, 1, 1}},
                   {"stride", Attrs::Ints{1, 1}},
                   {"dilation", Attrs::Ints{1, 1}},
                   {"flip", true},
                   {"groups", std::int64_t{1}}};
  const auto race = [](Call& call, const std::vector<Array>& a, const std::vector<Array>& b) {
    const auto prepared = call.prepare(1);
    const Array wanted[] = {run(*prepared, a, call.site.out)[0],
                            run(*prepared, b, call.site.out)[0]};
    int wrong[2] = {0, 0};
    std::thread threads[2];
    for (int t = 0; t < 2; ++t)
      threads[t] = std::thread([&, t] {
        for (int i = 0; i < 50; ++i)
          wrong[t] += !same_bits(run(*prepared, t ? b : a, call.site.out)[0], wanted[t]);
      });
    for (auto& t : threads) t.join();
    EXPECT_EQ(wrong[0] + wrong[1], 0) << call.op.name;
  };
  const auto matrices = [] {
    return std::vector{random_array(DType::F32, {60, 70}), random_array(DType::F32, {70, 50})};
  };
  const auto m1 = matrices(), m2 = matrices();
  Call dot("dot", {}, m1, {desc(DType::F32, {60, 50})});
  race(dot, m1, m2);
  const auto images = [] {
    return std::vector{random_array(DType::F32, {2, 5, 9, 9}),
                       random_array(DType::F32, {7, 5, 3, 3})};
  };
  const auto i1 = images(), i2 = images();
  Call conv2d("conv2d", conv, i1, {desc(DType::F32, {2, 7, 9, 9})});
  race(conv2d, i1, i2);
}

TEST(Library, ManySizesPassThroughTheCacheOfPrimitives) {
  const Array b = random_array(DType::F32, {40, 8});
  for (std::int64_t m = 10; m < 640; ++m) {
    const Array a = random_array(DType::F32, {m, 40});
    Call call("dot", {}, {a, b}, {desc(DType::F32, {m, 8})});
    const auto prepared = call.prepare(1);
    if (m % 90 == 10) check_product(a, b, run(*prepared, {a, b}, call.site.out)[0], "cached");
  }
}

// --- convolution ------------------------------------------------------------------------------

struct Conv {
  std::int64_t n, c, h, w, o, kh, kw;
  std::array<std::int64_t, 4> pad{};
  std::array<std::int64_t, 2> stride{1, 1}, dilation{1, 1};
  std::int64_t groups = 1;
  bool flip = false;

  std::int64_t oh() const {
    return (h + pad[0] + pad[1] - (kh - 1) * dilation[0] - 1) / stride[0] + 1;
  }
  std::int64_t ow() const {
    return (w + pad[2] + pad[3] - (kw - 1) * dilation[1] - 1) / stride[1] + 1;
  }
  Dims x() const { return {n, c, h, w}; }
  Dims weight() const { return {o, c / groups, kh, kw}; }
  Dims y() const { return {n, o, oh(), ow()}; }
  Attrs attrs() const {
    return {{"pad", Attrs::Ints(pad.begin(), pad.end())},
            {"stride", Attrs::Ints(stride.begin(), stride.end())},
            {"dilation", Attrs::Ints(dilation.begin(), dilation.end())},
            {"flip", flip},
            {"groups", groups}};
  }
  /// Calls f(x element, weight element, y element) for every product of the convolution.
  template <class F>
  void each(F&& f) const {
    for (std::int64_t b = 0; b < n; ++b)
      for (std::int64_t k = 0; k < o; ++k)
        for (std::int64_t i = 0; i < c / groups; ++i)
          for (std::int64_t py = 0; py < oh(); ++py)
            for (std::int64_t px = 0; px < ow(); ++px)
              for (std::int64_t ky = 0; ky < kh; ++ky)
                for (std::int64_t kx = 0; kx < kw; ++kx) {
                  const std::int64_t iy = py * stride[0] + ky * dilation[0] - pad[0];
                  const std::int64_t ix = px * stride[1] + kx * dilation[1] - pad[2];
                  if (iy < 0 || iy >= h || ix < 0 || ix >= w) continue;
                  const std::int64_t channel = k / (o / groups) * (c / groups) + i;
                  const std::int64_t wy = flip ? kh - 1 - ky : ky, wx = flip ? kw - 1 - kx : kx;
                  f(((b * c + channel) * h + iy) * w + ix,
                    ((k * (c / groups) + i) * kh + wy) * kw + wx,
                    ((b * o + k) * oh() + py) * ow() + px);
                }
  }
};

void check_conv(const Conv& s, DType t) {
  const Array x = random_array(t, s.x()), w = random_array(t, s.weight()),
              y = random_array(t, s.y());
  const std::vector<std::int64_t> xs(x.shape.begin(), x.shape.end()),
      ws(w.shape.begin(), w.shape.end());
  const auto check = [&](std::string_view op, const Array& a, const Array& b, const Dims& shape,
                         std::vector<std::vector<std::int64_t>> sizes, auto&& elements) {
    const Values av(a), bv(b);
    std::vector<double> f(product(shape), 0.0);
    std::vector<std::int64_t> ints(product(shape), 0);
    std::vector<int> terms(product(shape), 0);
    s.each([&](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
      const auto [ai, bi, oi] = elements(xi, wi, yi);
      if (is_float(t))
        f[oi] += av.f[ai] * bv.f[bi];
      else
        ints[oi] = static_cast<std::int64_t>(static_cast<std::uint64_t>(ints[oi]) +
                                             av.ints[ai] * bv.ints[bi]);
      ++terms[oi];
    });
    const int most = terms.empty() ? 0 : *std::max_element(terms.begin(), terms.end());
    for (auto [threads, runtime] : {std::pair{1, false}, {2, false}, {2, true}}) {
      Call call(op, s.attrs(), {a, b}, {desc(t, shape)}, sizes);
      call.site.runtime_sizes = runtime;
      const Array got = run(*call.prepare(threads), {a, b}, call.site.out, sizes)[0];
      const std::string what =
          fmt::format("{} {} x {} w {}{}", op, name_of(t), describe_shape(s.x()),
                      describe_shape(s.weight()), runtime ? " run-time" : "");
      expect_close(got, f, ints, most, what);
      if (t != DType::F32 && t != DType::F16 && t != DType::BF16) continue;
      const auto last = [&](const Array& v) {
        return &v == &w ? v : permuted(v, {0, 2, 3, 1}).contiguous_copy();
      };
      const Array a_last = last(a), b_last = last(b);
      Dims out = shape;
      const bool weight_out = op == "conv2d_grad_weight";
      if (!weight_out) out = {shape[0], shape[2], shape[3], shape[1]};
      const std::string op_last = fmt::format("{}_last", op);
      Call turned(op_last, s.attrs(), {a_last, b_last}, {desc(t, out)}, sizes);
      turned.site.runtime_sizes = runtime;
      const Array got_last =
          run(*turned.prepare(threads), {a_last, b_last}, turned.site.out, sizes)[0];
      expect_close(weight_out ? got_last : permuted(got_last, {0, 3, 1, 2}).contiguous_copy(), f,
                   ints, most, what + " channels last");
    }
  };
  using I = std::array<std::int64_t, 3>;
  check("conv2d", x, w, s.y(), {}, [](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
    return I{xi, wi, yi};
  });
  check("conv2d_grad_input", w, y, s.x(), {xs},
        [](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
          return I{wi, yi, xi};
        });
  check("conv2d_grad_weight", x, y, s.weight(), {ws},
        [](std::int64_t xi, std::int64_t wi, std::int64_t yi) {
          return I{xi, yi, wi};
        });
}

const Conv kConvs[] = {
    {2, 3, 8, 9, 4, 3, 3},
    {2, 3, 8, 9, 4, 3, 2, {1, 1, 1, 1}, {1, 1}, {1, 1}, 1, true},
    {1, 16, 12, 12, 32, 3, 3, {1, 1, 1, 1}, {2, 2}},
    {3, 4, 10, 7, 6, 3, 3, {2, 0, 1, 3}, {2, 1}, {1, 2}, 2, true},
    {2, 8, 6, 6, 8, 3, 3, {1, 1, 1, 1}, {1, 1}, {1, 1}, 8},
    {2, 5, 6, 6, 7, 1, 1},
    {2, 4, 6, 6, 6, 1, 1, {0, 0, 1, 0}, {1, 2}, {1, 1}, 2},
    {5, 20, 14, 13, 24, 3, 3, {1, 1, 1, 1}, {1, 1}, {1, 1}, 1, true},
    {1, 2, 5, 5, 3, 5, 5, {4, 4, 4, 4}, {1, 1}, {1, 1}, 1, true},
    {1, 1, 4, 4, 1, 2, 2, {5, 0, 0, 6}, {3, 2}},
    {2, 1, 6, 40, 5, 3, 40},                                           // wide filters
    {1, 3, 9, 30, 4, 3, 25, {1, 1, 12, 12}, {1, 1}, {1, 1}, 1, true},  // padded
    {1, 70, 3, 3, 40, 3, 3, {1, 1, 1, 1}, {1, 1}, {1, 1}, 1, true},    // few pixels
    {2, 12, 8, 8, 8, 3, 3, {1, 1, 1, 1}, {1, 1}, {3, 2}, 4, true},     // small groups
    {2, 18, 8, 8, 4, 2, 3, {0, 1, 1, 0}, {3, 4}, {1, 1}, 2},
    {0, 3, 8, 8, 4, 3, 3},
    {2, 0, 4, 4, 3, 2, 2},
    {2, 3, 4, 4, 0, 2, 2},
};

TEST(Library, ConvolutionAndItsGradients) {
  for (const Conv& s : kConvs)
    for (DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I32, DType::U8})
      check_conv(s, t);
}

TEST(Library, ConvolutionTakesTheBatchSizeOfTheRun) {
  const Conv bound{8, 3, 7, 7, 4, 3, 3};
  const Array x = random_array(DType::F32, bound.x()), w = random_array(DType::F32, bound.weight());
  Call call("conv2d", bound.attrs(), {x, w}, {desc(DType::F32, bound.y())});
  const Array full = run(*call.prepare(1), {x, w}, call.site.out)[0];
  call.site.runtime_sizes = true;
  Array part = x;
  part.shape[0] = 3;
  const Array got = run(*call.prepare(2), {part, w}, {desc(DType::F32, {3, 4, 5, 5})})[0];
  for (std::int64_t i = 0; i < got.size(); ++i)
    ASSERT_NEAR(got.at_double(i), full.at_double(i), 1e-5);
}

// --- factorisations ---------------------------------------------------------------------------

Array positive_matrix(DType t, std::int64_t n) {
  const Values r(random_array(DType::F64, {n, n}));
  Array a = Array::empty(t, {n, n});
  for (std::int64_t i = 0; i < n; ++i)
    for (std::int64_t j = 0; j < n; ++j) {
      double sum = i == j ? 1.0 : 0.0;
      for (std::int64_t k = 0; k < n; ++k) sum += r.f[i * n + k] * r.f[j * n + k] / n;
      a.set_double(i * n + j, sum);
    }
  return a;
}

TEST(Library, Cholesky) {
  for (DType t : {DType::F32, DType::F64})
    for (std::int64_t n : {0, 1, 3, 50, 110})
      for (bool lower : {true, false})
        for (Form form : kForms) {
          const Array a = in_form(positive_matrix(t, n), form);
          Call call("cholesky", {{"lower", lower}}, {a}, {desc(t, {n, n})});
          const Values l(run_all(call, {a}, false)[0]);
          for (std::int64_t i = 0; i < n; ++i)
            for (std::int64_t j = 0; j < n; ++j) {
              double sum = 0;
              for (std::int64_t k = 0; k < n; ++k)
                sum += lower ? l.f[i * n + k] * l.f[j * n + k] : l.f[k * n + i] * l.f[k * n + j];
              ASSERT_NEAR(sum, a.at_double(i * n + j), t == DType::F32 ? 2e-5 : 1e-12);
              if (lower ? j > i : j < i) {
                ASSERT_EQ(l.f[i * n + j], 0);
              }
            }
        }
}

TEST(Library, CholeskyFailures) {
  Array a = positive_matrix(DType::F64, 5);
  a.set_double(2 * 5 + 2, -4);
  for (bool lower : {true, false}) {
    Call call("cholesky", {{"lower", lower}}, {a}, {desc(a)});
    const auto e = error_of([&] { run(*call.prepare(1), {a}, call.site.out); });
    EXPECT_EQ(e.fault(), Fault::Numeric);
    EXPECT_EQ(e.message(),
              "cholesky: the matrix is not positive definite: leading minor of order 3 of a "
              "5 x 5 matrix");
    EXPECT_FALSE(e.hint().empty());
  }
  a.set_double(2 * 5 + 2, std::nan(""));
  Call nan("cholesky", {{"lower", true}}, {a}, {desc(a)});
  EXPECT_EQ(error_of([&] { run(*nan.prepare(1), {a}, nan.site.out); }).fault(), Fault::Numeric);
  for (DType t : {DType::F16, DType::BF16, DType::I32}) {
    const Array b = random_array(t, {3, 3});
    Call call("cholesky", {{"lower", true}}, {b}, {desc(b)});
    EXPECT_EQ(error_of([&] { call.prepare(1); }).fault(), Fault::Unsupported);
  }
}

TEST(Library, Solve) {
  for (DType t : {DType::F32, DType::F64})
    for (std::int64_t n : {0, 1, 4, 60})
      for (std::int64_t columns : {-1, 0, 1, 7})
        for (const char* kind : {"general", "lower", "upper", "positive"})
          for (bool trans : {false, true}) {
            const std::string k = kind;
            Array a = k == "positive" ? positive_matrix(t, n) : random_array(t, {n, n});
            for (std::int64_t i = 0; i < n; ++i) {
              if (k == "lower" || k == "upper")
                for (std::int64_t j = 0; j < n; ++j)
                  a.set_double(i * n + j, a.at_double(i * n + j) / n);
              a.set_double(i * n + i, a.at_double(i * n + i) + (k == "general" ? 0.5 : 2.0));
            }
            const Dims shape = columns < 0 ? Dims{n} : Dims{n, columns};
            const std::int64_t m = columns < 0 ? 1 : columns;
            const Array b = random_array(t, shape);
            Call call("solve", {{"kind", k}, {"trans", trans}}, {a, b}, {desc(t, shape)});
            const Array x = run_all(call, {a, b}, false)[0];
            double largest = 1;
            for (std::int64_t i = 0; i < n * m; ++i)
              largest = std::max(largest, std::abs(x.at_double(i)));
            for (std::int64_t i = 0; i < n; ++i)
              for (std::int64_t c = 0; c < m; ++c) {
                double sum = 0;
                for (std::int64_t j = 0; j < n; ++j) {
                  const std::int64_t row = trans ? j : i, col = trans ? i : j;
                  if ((k == "lower" && col > row) || (k == "upper" && col < row)) continue;
                  sum += a.at_double(row * n + col) * x.at_double(j * m + c);
                }
                ASSERT_NEAR(sum, b.at_double(i * m + c), (t == DType::F32 ? 1e-4 : 1e-11) * largest)
                    << k << " " << n << " " << columns << " " << trans;
              }
          }
}

TEST(Library, SolveFailures) {
  const Array zero = Array::zeros(DType::F32, {3, 3}), b = random_array(DType::F32, {3});
  for (const char* kind : {"general", "lower", "upper", "positive"}) {
    Call call("solve", {{"kind", std::string(kind)}, {"trans", false}}, {zero, b}, {desc(b)});
    EXPECT_EQ(error_of([&] {
                run(*call.prepare(1), {zero, b}, call.site.out);
              }).fault(),
              Fault::Numeric);
  }
  Array lower = positive_matrix(DType::F32, 3);
  lower.set_double(4, 0);
  Call call("solve", {{"kind", std::string("lower")}, {"trans", false}}, {lower, b}, {desc(b)});
  EXPECT_EQ(error_of([&] {
              run(*call.prepare(1), {lower, b}, call.site.out);
            }).message(),
            "solve: the matrix is singular: pivot 2 of a 3 x 3 matrix is zero");
}

/// The rows' own measure says whether results are right; guards say whether workspace was
/// announced.
TEST(Library, MatrixFunctions) {
  struct Case {
    const char* op;
    Attrs attrs;
    bool square;
  };
  const Case cases[] = {
      {"inverse", {}, true},
      {"det", {}, true},
      {"slogdet", {}, true},
      {"expm", {}, true},
      {"eigh", {{"lower", true}}, true},
      {"eigh", {{"lower", false}}, true},
      {"eigvalsh", {{"lower", true}}, true},
      {"qr", {{"complete", false}}, false},
      {"qr", {{"complete", true}}, false},
      {"qr_r", {}, false},
      {"svd", {{"full", false}}, false},
      {"svd", {{"full", true}}, false},
      {"svdvals", {}, false},
      {"lstsq", {{"rcond", -1.0}}, false},
  };
  const std::pair<std::int64_t, std::int64_t> sizes[] = {{0, 0}, {1, 1}, {4, 4},  {33, 33}, {0, 3},
                                                         {3, 0}, {7, 3}, {3, 50}, {130, 20}};
  for (const Case& c : cases)
    for (DType t : {DType::F32, DType::F64})
      for (auto [m, n] : sizes) {
        if (c.square && m != n) continue;
        SCOPED_TRACE(fmt::format("{} {} {} x {}", c.op, name_of(t), m, n));
        const OpDef& row = find_op(c.op);
        Array a = random_array(t, {m, n});
        if (c.square) a = positive_matrix(t, n);
        const std::string op = c.op;
        const std::int64_t k = std::min(m, n);
        const auto all = [&](const char* flag) { return c.attrs.flag(flag); };
        std::vector<Array> in{a};
        std::vector<ArgDesc> out;
        if (op == "inverse" || op == "expm") out = {desc(t, {n, n})};
        if (op == "det") out = {desc(t, {})};
        if (op == "slogdet") out = {desc(t, {}), desc(t, {})};
        if (op == "eigh") out = {desc(t, {n}), desc(t, {n, n})};
        if (op == "eigvalsh") out = {desc(t, {n})};
        if (op == "qr") {
          const std::int64_t columns = all("complete") ? m : k;
          out = {desc(t, {m, columns}), desc(t, {columns, n})};
        }
        if (op == "qr_r") out = {desc(t, {k, n})};
        if (op == "svd")
          out = {desc(t, {m, all("full") ? m : k}), desc(t, {k}),
                 desc(t, {all("full") ? n : k, n})};
        if (op == "svdvals") out = {desc(t, {k})};
        if (op == "lstsq") {
          in.push_back(random_array(t, {m, 2}));
          out = {desc(t, {n, 2}), desc(DType::I64, {}), desc(t, {k})};
        }
        for (Form form : kForms) {
          std::vector<Array> given = in;
          given[0] = in_form(a, form);
          Call call(c.op, c.attrs, given, out);
          std::vector<RefTensor> x, y;
          std::vector<const RefTensor*> inputs;
          for (const Array& v : given) x.push_back(RefTensor::from(v));
          for (const RefTensor& v : x) inputs.push_back(&v);
          for (const Array& v : run_all(call, given, false)) y.push_back(RefTensor::from(v));
          const double eps = t == DType::F32 ? 0x1p-24 : 0x1p-53;
          if (row.residual) {
            EXPECT_LE(row.residual({c.attrs, inputs, y, {}}), 64 * eps);
            continue;
          }
          std::vector<RefTensor> want;
          for (const ArgDesc& o : out) want.push_back(RefTensor::zeros(o.dtype, o.shape));
          row.reference({c.attrs, inputs, want, {}});
          for (std::size_t i = 0; i < want[0].f.size(); ++i)
            EXPECT_NEAR(y[0].f[i], want[0].f[i], 64 * eps * (1 + std::abs(want[0].f[0]) + n));
        }
      }
}

// --- moving elements --------------------------------------------------------------------------

TEST(Library, CopyBetweenAnyStrides) {
  for (DType t : kAll)
    for (const Dims& shape :
         {Dims{}, Dims{5}, Dims{0, 4}, Dims{3, 4, 5}, Dims{70, 33}, Dims{2, 190, 181}})
      for (Form from : kForms)
        for (Form to : kForms) {
          if (product(shape) > 10000 && t != DType::I16 && t != DType::F32) continue;
          const Array a = in_form(random_array(t, shape), from);
          Array b = in_form(random_array(t, shape), to);
          native::copy(desc(b), b.data, desc(a), a.data, 2);
          ASSERT_TRUE(same_bits(a, b)) << name_of(t) << describe_shape(shape);
        }
  const Array a = random_array(DType::F32, {6, 5, 40, 30});
  for (const std::vector<int>& axes :
       {std::vector{0, 2, 3, 1}, std::vector{3, 2, 1, 0}, std::vector{1, 0, 3, 2}}) {
    const Array view = permuted(a, axes);
    Array b = Array::empty(DType::F32, view.shape);
    native::copy(desc(b), b.data, desc(view), view.data, 2);
    EXPECT_TRUE(same_bits(view, b));
  }
}

TEST(Library, Concatenate) {
  for (DType t : kAll)
    for (std::int64_t axis : {0, 1, 2})
      for (Form form : kForms)
        for (std::int64_t inner : {4, 5000}) {
          if (inner > 4 && form != Form::Plain && t != DType::F32) continue;
          std::vector<Array> in;
          std::int64_t total = 0;
          for (std::int64_t size : {3, 0, 1, 6}) {
            Dims shape{2, 3, inner};
            shape[axis] = size;
            total += size;
            in.push_back(in_form(random_array(t, shape), form));
          }
          Dims shape{2, 3, inner};
          shape[axis] = total;
          Call call("concatenate", {{"axis", axis}}, in, {desc(t, shape)});
          const Array got = run_all(call, in)[0];
          Array part = got;
          for (const Array& a : in) {
            part.shape[axis] = a.shape[axis];
            ASSERT_TRUE(same_bits(a, part)) << name_of(t) << " axis " << axis;
            part.data += a.shape[axis] * got.strides[axis] * size_of(t);
          }
        }
}

Array random_index(const Dims& shape, std::int64_t size) {
  Array a = Array::empty(DType::I64, shape);
  for (std::int64_t i = 0; i < a.size(); ++i) a.set_int(i, pick(0, size - 1));
  return a;
}

/// Element number of x that element `l` of the index arrays and element `r` of the rest name.
std::int64_t named(const Array& x, const std::vector<Array>& index, std::int64_t l,
                   std::int64_t r) {
  std::int64_t at = 0, rest = 1;
  for (std::size_t d = 0; d < index.size(); ++d) at = at * x.shape[d] + index[d].at_int(l);
  for (std::size_t d = index.size(); d < x.shape.size(); ++d) rest *= x.shape[d];
  return at * rest + r;
}

struct IndexCase {
  Dims x, index;
  std::size_t k;
};
const IndexCase kIndexCases[] = {
    {{7}, {5}, 1},       {{7, 4}, {3, 2}, 1},       {{7, 4}, {6}, 2},
    {{7, 4, 5}, {6}, 1}, {{7, 4, 5, 3}, {2, 3}, 2}, {{7, 4}, {0}, 1},
    {{7, 0}, {3}, 1},    {{50, 3000}, {60}, 1},     {{3000, 3}, {30000}, 1},
    {{400}, {90000}, 1}, {{9, 5}, {}, 1},           {{30, 20, 8}, {9000}, 2},
};

TEST(Library, GatherAndScatter) {
  for (const IndexCase& c : kIndexCases) {
    const bool large = product(c.x) > 10000 || product(c.index) > 1000;
    for (DType t : kAll)
      for (Form form : kForms) {
        if (large && t != DType::F32 && (t != DType::U8 || form != Form::Plain)) continue;
        const Array x = in_form(random_array(t, c.x), form);
        std::vector<Array> index;
        for (std::size_t d = 0; d < c.k; ++d)
          index.push_back(in_form(random_index(c.index, c.x[d]), form));
        Dims shape = c.index;
        std::int64_t rest = 1;
        for (std::size_t d = c.k; d < c.x.size(); ++d) {
          shape.push_back(c.x[d]);
          rest *= c.x[d];
        }
        std::vector<Array> in{x};
        in.insert(in.end(), index.begin(), index.end());
        Call gather("gather", {}, in, {desc(t, shape)});
        const Array got = run_all(gather, in)[0];
        const std::int64_t places = product(c.index);
        for (std::int64_t l = 0; l < places; ++l)
          for (std::int64_t r = 0; r < rest; r += large ? 97 : 1) {
            const std::int64_t from = named(x, index, l, r);
            if (is_float(t)) {
              ASSERT_EQ(got.at_double(l * rest + r), x.at_double(from));
            } else {
              ASSERT_EQ(got.at_int(l * rest + r), x.at_int(from));
            }
          }

        const Array y = in_form(random_array(t, shape), form);
        in.insert(in.begin() + 1, y);
        Array set = x.contiguous_copy(), sum = x.contiguous_copy();
        for (std::int64_t l = 0; l < places; ++l)
          for (std::int64_t r = 0; r < rest; ++r) {
            const std::int64_t to = named(x, index, l, r);
            if (is_float(t)) {
              set.set_double(to, y.at_double(l * rest + r));
              sum.set_double(to, sum.at_double(to) + y.at_double(l * rest + r));
            } else {
              set.set_int(to, y.at_int(l * rest + r));
              sum.set_int(to, static_cast<std::int64_t>(
                                  static_cast<std::uint64_t>(sum.at_int(to)) +
                                  static_cast<std::uint64_t>(y.at_int(l * rest + r))));
            }
          }
        Call scatter_set("scatter_set", {}, in, {desc(t, c.x)});
        ASSERT_TRUE(same_bits(run_all(scatter_set, in)[0], set)) << name_of(t);
        Call scatter_add("scatter_add", {}, in, {desc(t, c.x)});
        ASSERT_TRUE(same_bits(run_all(scatter_add, in)[0], sum)) << name_of(t);
      }
  }
}

TEST(Library, ScatterInPlaceTouchesOnlyItsRows) {
  Array x = random_array(DType::F32, {100, 8});
  const Array before = x.contiguous_copy();
  const Array y = random_array(DType::F32, {2, 8}), index = Array::from<std::int64_t>({3, 3}, {2});
  Call call("scatter_add", {}, {x, y, index}, {desc(x)});
  std::byte* in[] = {x.data, y.data, index.data};
  std::byte* out[] = {x.data};
  const auto prepared = call.prepare(2);
  RunArgs args{in, out, nullptr, call.site.in.data(), call.site.out.data()};
  args.in_place = true;
  prepared->run(args);
  for (std::int64_t i = 0; i < x.size(); ++i) {
    const std::int64_t j = i % 8;
    float wanted = before.typed<float>()[i];
    if (i / 8 == 3) wanted = wanted + y.typed<float>()[j] + y.typed<float>()[8 + j];
    ASSERT_EQ(x.typed<float>()[i], wanted);
  }
}

// --- slices -----------------------------------------------------------------------------------

/// The elements of range(size)[start:stop:step], by Python's definition.
std::vector<std::int64_t> python_slice(std::int64_t size, const std::int64_t* start,
                                       const std::int64_t* stop, std::int64_t step) {
  const auto bound = [&](const std::int64_t* p, std::int64_t absent) {
    if (!p) return absent;
    std::int64_t v = *p;
    if (v < 0) v += size;
    if (v < 0) v = step < 0 ? -1 : 0;
    if (v >= size) v = step < 0 ? size - 1 : size;
    return v;
  };
  std::vector<std::int64_t> items;
  const std::int64_t last = bound(stop, step < 0 ? -1 : size);
  for (std::int64_t i = bound(start, step < 0 ? size - 1 : 0); step > 0 ? i < last : i > last;
       i += step)
    items.push_back(i);
  return items;
}

TEST(Library, SliceSetAndSliceInc) {
  for (int round = 0; round < 3000; ++round) {
    const DType t = kAll[round % std::size(kAll)];
    const std::size_t ndim = pick(1, 3), indexed = pick(1, static_cast<std::int64_t>(ndim));
    Dims shape;
    for (std::size_t d = 0; d < ndim; ++d) shape.push_back(pick(round % 7 ? 1 : 0, 6));
    Attrs::Ints spec;
    std::vector<std::vector<std::int64_t>> sizes;
    std::vector<std::vector<std::int64_t>> items;  // per axis
    Dims part;
    for (std::size_t d = 0; d < ndim; ++d) {
      if (d >= indexed) {
        items.push_back(python_slice(shape[d], nullptr, nullptr, 1));
        part.push_back(shape[d]);
        continue;
      }
      if (shape[d] > 0 && pick(0, 2) == 0) {
        const std::int64_t at = pick(-shape[d], shape[d] - 1);
        spec.insert(spec.end(), {1, 1, 0, 0});
        sizes.push_back({at});
        items.push_back({at < 0 ? at + shape[d] : at});
        continue;
      }
      const std::int64_t low = pick(-9, 9), high = pick(-9, 9);
      std::int64_t step = pick(-3, 2);
      if (step >= 0) ++step;
      const bool has_low = pick(0, 1), has_high = pick(0, 1), has_step = pick(0, 1);
      spec.insert(spec.end(), {0, has_low, has_high, has_step});
      if (has_low) sizes.push_back({low});
      if (has_high) sizes.push_back({high});
      if (has_step) sizes.push_back({step});
      items.push_back(python_slice(shape[d], has_low ? &low : nullptr, has_high ? &high : nullptr,
                                   has_step ? step : 1));
      part.push_back(static_cast<std::int64_t>(items.back().size()));
    }
    const Form form = kForms[round % 5];
    const Array x = in_form(random_array(t, shape), form), y = in_form(random_array(t, part), form);
    Array set = x.contiguous_copy(), sum = x.contiguous_copy();
    for (std::int64_t i = 0; i < y.size(); ++i) {
      std::int64_t rest = i, at = 0, weight = 1;
      for (std::size_t d = ndim; d-- > 0;) {
        const auto count = static_cast<std::int64_t>(items[d].size());
        at += items[d][rest % count] * weight;
        rest /= count;
        weight *= shape[d];
      }
      if (is_float(t)) {
        set.set_double(at, y.at_double(i));
        sum.set_double(at, sum.at_double(at) + y.at_double(i));
      } else {
        set.set_int(at, y.at_int(i));
        sum.set_int(at, static_cast<std::int64_t>(static_cast<std::uint64_t>(sum.at_int(at)) +
                                                  static_cast<std::uint64_t>(y.at_int(i))));
      }
    }
    Call slice_set("slice_set", {{"spec", spec}}, {x, y}, {desc(t, shape)}, sizes);
    ASSERT_TRUE(same_bits(run_all(slice_set, {x, y})[0], set)) << name_of(t) << " round " << round;
    Call slice_inc("slice_inc", {{"spec", spec}}, {x, y}, {desc(t, shape)}, sizes);
    ASSERT_TRUE(same_bits(run_all(slice_inc, {x, y})[0], sum)) << name_of(t) << " round " << round;
  }
}

TEST(Library, SliceSetInPlaceTouchesOnlyTheSlice) {
  Array x = Array::from<std::int32_t>({1, 2, 3, 4, 5}, {5});
  const Array y = Array::from<std::int32_t>({7, 8}, {2});
  Call call("slice_set", {{"spec", Attrs::Ints{0, 1, 0, 1}}}, {x, y}, {desc(x)}, {{-2}, {-2}});
  std::byte* in[] = {x.data, y.data};
  std::byte* out[] = {x.data};
  RunArgs args{in, out};
  args.in_place = true;
  call.prepare(1)->run(args);
  EXPECT_TRUE(same_bits(x, Array::from<std::int32_t>({1, 8, 3, 7, 5}, {5})));
}

TEST(Library, SliceOfALargeArrayAndARepeatedValue) {
  const Array x = random_array(DType::F32, {500, 400});
  Array one = random_array(DType::F32, {});
  const Attrs attrs{{"spec", Attrs::Ints{0, 1, 1, 1, 0, 0, 0, 1}}};
  const std::vector<std::vector<std::int64_t>> sizes{{std::numeric_limits<std::int64_t>::max()},
                                                     {std::numeric_limits<std::int64_t>::min()},
                                                     {-1},
                                                     {2}};
  Call call("slice_inc", attrs, {x, one}, {desc(x)}, sizes);
  const Array got = run_all(call, {x, one})[0];
  for (std::int64_t i = 0; i < x.size(); ++i)
    ASSERT_EQ(got.typed<float>()[i],
              x.typed<float>()[i] + (i % 400 % 2 == 0 ? one.typed<float>()[0] : 0.0f));
}

// --- check_index, nonzero ---------------------------------------------------------------------

TEST(Library, CheckIndexWrapsNegatives) {
  for (DType t : kAll) {
    if (!is_int(t)) continue;
    for (Form form : kForms)
      for (std::int64_t n : {3, t == DType::I32 ? 300 : 5}) {
        Array a = Array::empty(t, {n, 400});
        for (std::int64_t i = 0; i < a.size(); ++i)
          a.set_int(i, is_signed_int(t) ? pick(-100, 99) : pick(0, 99));
        a = in_form(a, form);
        Call call("check_index", {}, {a}, {desc(DType::I64, a.shape)}, {{100}});
        const Array got = run_all(call, {a})[0];
        for (std::int64_t i = 0; i < a.size(); ++i)
          ASSERT_EQ(got.at_int(i), a.at_int(i) < 0 ? a.at_int(i) + 100 : a.at_int(i));
      }
  }
}

TEST(Library, CheckIndexNamesTheFirstIndexOutside) {
  const auto message = [](const Array& a, std::int64_t size) {
    Call call("check_index", {}, {a}, {desc(DType::I64, a.shape)}, {{size}});
    const auto e = error_of([&] { run(*call.prepare(2), {a}, call.site.out, {{size}}); });
    EXPECT_EQ(e.fault(), Fault::Index);
    return e.message();
  };
  EXPECT_EQ(message(Array::from<std::int32_t>({1, 12, 13}, {3}), 10),
            "index 12 is outside an axis of size 10");
  EXPECT_EQ(message(Array::from<std::int8_t>({-11}, {1}), 10),
            "index -11 is outside an axis of size 10");
  EXPECT_EQ(message(Array::from<std::uint64_t>({~0ull}, {1}), 10),
            "index 18446744073709551615 is outside an axis of size 10");
  EXPECT_EQ(message(Array::from<std::int64_t>({0}, {1}), 0),
            "index 0 is outside an axis of size 0");
  Array many = Array::zeros(DType::I64, {200000});
  many.set_int(150001, 77);
  many.set_int(150000, 66);
  many.set_int(199999, 55);
  EXPECT_EQ(message(many, 5), "index 66 is outside an axis of size 5");
}

TEST(Library, Nonzero) {
  for (DType t : kAll)
    for (const Dims& shape :
         {Dims{9}, Dims{0}, Dims{4, 5}, Dims{3, 0, 2}, Dims{30, 4, 50}, Dims{130, 700}})
      for (Form form : kForms) {
        Array a = random_array(t, shape);
        for (std::int64_t i = 0; i < a.size(); ++i)
          if (pick(0, 1)) a.set_int(i, 0);
        if (a.size() > 50000 && t != DType::Bool) continue;
        if (is_float(t) && a.size() > 3) {
          a.set_double(0, -0.0);
          a.set_double(2, std::nan(""));
        }
        a = in_form(a, form);
        std::vector<ArgDesc> out(shape.size(), desc(DType::I64, {a.size()}));
        Call call("nonzero", {}, {a}, out);
        std::int64_t count = -1;
        const auto got = run_all(call, {a}, false, &count);
        std::int64_t found = 0;
        for (std::int64_t i = 0; i < a.size(); ++i) {
          if (is_float(t) ? a.at_double(i) == 0 : a.at_int(i) == 0) continue;
          std::int64_t rest = i;
          for (std::size_t d = shape.size(); d-- > 0; rest /= shape[d])
            ASSERT_EQ(got[d].at_int(found), rest % shape[d]);
          ++found;
        }
        ASSERT_EQ(count, found);
      }
}

}  // namespace
}  // namespace snug
