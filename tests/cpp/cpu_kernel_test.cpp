#include "base/error.h"
#include "cpu_kernels.h"

namespace snug::test {
namespace {

bool takes(Prim p, DType t) {
  if (p >= Prim::Exp && p <= Prim::IsInf) return is_float(t);
  if (p == Prim::Sqrt) return is_float(t);
  if (p >= Prim::And && p <= Prim::Shr) return is_discrete(t);
  return true;
}

SpecBuilder one_op(Prim p, DType t, KernelSpec::AxisValues strides,
                   KernelSpec::AxisValues extents) {
  SpecBuilder b;
  b.spec.extents = extents;
  b.spec.outer = static_cast<std::uint32_t>(extents.size());
  std::vector<std::uint32_t> x;
  for (int k = 0; k < operand_count(p); ++k) {
    DType operand = p == Prim::Select && k == 0 ? DType::Bool : t;
    x.push_back(b.load(b.operand(operand, false, strides)));
  }
  x.resize(3);
  std::uint32_t r = b.op(p, x[0], x[1], x[2]);
  b.store(b.operand(b.spec.body[r].dtype, true, strides), r);
  b.phase(false);
  return b;
}

TEST(CpuKernel, EveryPrimOnEveryDType) {
  for (int p = static_cast<int>(Prim::Add); p <= static_cast<int>(Prim::Select); ++p)
    for (DType t : kAllTypes) {
      auto prim = static_cast<Prim>(p);
      if (!takes(prim, t)) continue;
      SpecBuilder b = one_op(prim, t, {1}, {kRun});
      // Interpreted in double; the trigonometric functions of huge numbers agree all the same.
      expect_same(Launch(b.spec, {83}, {}, true), 6);
      if (HasFatalFailure()) return;
    }
}

TEST(CpuKernel, NarrowerVectorsAgree) {
  for (int bits : {256, 128})
    for (int p = static_cast<int>(Prim::Add); p <= static_cast<int>(Prim::Select); ++p)
      for (DType t : {DType::F32, DType::F64, DType::I32, DType::U8}) {
        auto prim = static_cast<Prim>(p);
        if (!takes(prim, t)) continue;
        SpecBuilder b = one_op(prim, t, {1}, {kRun});
        expect_same(Launch(b.spec, {37}, {}, true), 6, bits);
        if (HasFatalFailure()) return;
      }
}

TEST(CpuKernel, ScalarKernelsAgree) {
  for (int p = static_cast<int>(Prim::Add); p <= static_cast<int>(Prim::Select); ++p)
    for (DType t : {DType::Bool, DType::I16, DType::U64, DType::BF16, DType::F32, DType::F64}) {
      auto prim = static_cast<Prim>(p);
      if (!takes(prim, t)) continue;
      for (std::uint64_t seed : {1, 2}) {
        SpecBuilder b = one_op(prim, t, {}, {});
        expect_same(Launch(b.spec, {}, {}, true, seed), 6);
        if (HasFatalFailure()) return;
      }
    }
}

TEST(CpuKernel, EveryCast) {
  for (DType from : kAllTypes)
    for (DType to : kAllTypes) {
      SpecBuilder b;
      b.spec.extents = {kRun};
      b.spec.outer = 1;
      std::uint32_t x = b.load(b.operand(from, false, {1}));
      b.store(b.operand(to, true, {1}), b.cast(x, to));
      b.phase(false);
      expect_same(Launch(b.spec, {200}, {}, true), 1);
      if (HasFatalFailure()) return;
    }
}

TEST(CpuKernel, CastsToSmallFloatsRound) {
  // Rounding to bfloat16 and back shows in float32.
  for (DType small : {DType::F16, DType::BF16}) {
    SpecBuilder b;
    b.spec.extents = {kRun};
    b.spec.outer = 1;
    std::uint32_t x = b.load(b.operand(DType::F32, false, {1}));
    b.store(b.operand(DType::F32, true, {1}), b.cast(b.cast(x, small), DType::F32));
    b.phase(false);
    expect_same(Launch(b.spec, {100}, {}, true), 0);
  }
}

TEST(CpuKernel, TailsOfEveryLength) {
  for (DType t : {DType::F32, DType::F64, DType::I8, DType::F16, DType::BF16, DType::Bool}) {
    SpecBuilder b = one_op(t == DType::Bool ? Prim::Xor : Prim::Add, t, {1}, {kRun});
    for (std::int64_t n = 0; n <= 70; ++n) {
      expect_same(Launch(b.spec, {n}, {}, false, n));
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CpuKernel, StridedAndBroadcast) {
  for (DType t : {DType::F32, DType::I64, DType::U8, DType::F16, DType::Bool})
    for (bool constant : {false, true})
      for (std::int64_t n : {1, 5, 16, 33, 67}) {
        SpecBuilder b;
        b.spec.extents = {kRun, constant ? n : kRun};
        b.spec.outer = 2;
        auto stride = [&](std::int64_t v) { return constant ? v : kRunStride; };
        int x = b.operand(t, false, {stride(-3 * n), stride(3)});  // reversed rows, steps of 3
        int y = b.operand(t, false, {stride(2), stride(-2 * 7)});  // transposed and reversed
        int row = b.operand(t, false, {0, 1}), column = b.operand(t, false, {1, 0});
        int scalar = b.operand(t, false, {0, 0});
        int out = b.operand(t, true, {stride(2 * n), stride(2)});
        Prim p = t == DType::Bool ? Prim::Xor : Prim::Add;
        std::uint32_t sum = b.op(p, b.op(p, b.load(x), b.load(y)), b.load(row));
        b.store(out, b.op(p, b.op(p, sum, b.load(column)), b.load(scalar)));
        b.phase(false);
        Launch launch(b.spec, {7, n}, {{-3 * n, 3}, {2, -14}, {}, {}, {}, {2 * n, 2}});
        expect_same(launch, 4, 512, 8);
        if (HasFatalFailure()) return;
      }
}

TEST(CpuKernel, ShortLastAxisRunsThrough) {
  for (std::int64_t c : {2, 3, 5, 7, 10, 12, 13, 17, 33, 40, 63})
    for (std::int64_t n : {0, 1, 2, 7, 50}) {
      SpecBuilder b;
      b.spec.extents = {3, kRun, c};
      b.spec.outer = 3;
      int x = b.operand(DType::F32, false, {kRunStride, c, 1});
      int row = b.operand(DType::F32, false, {0, 0, 1});
      int column = b.operand(DType::F32, false, {kRunStride, 1, 0});
      int out = b.operand(DType::F32, true, {kRunStride, c, 1});
      int where = b.operand(DType::I64, true, {kRunStride, c, 1});
      std::uint32_t v = b.op(Prim::Mul, b.load(x), b.load(row));
      b.store(out, b.op(Prim::Sub, v, b.load(column)));
      std::uint32_t flat = b.push({Prim::FlatIndex, DType::I64});
      std::uint32_t i1 = b.with_integer(Prim::Index, DType::I64, 1);
      std::uint32_t i2 = b.with_integer(Prim::Index, DType::I64, 2);
      std::uint32_t thousand = b.number(1000, DType::I64);
      std::uint32_t both = b.op(Prim::Add, b.op(Prim::Mul, i1, thousand), i2);
      b.store(where, b.op(Prim::Add, b.op(Prim::Mul, flat, b.number(1e6, DType::I64)), both));
      b.phase(false);
      std::int64_t p = n * c;
      Launch launch(b.spec, {3, n, c}, {{p, c, 1}, {}, {n, 1, 0}, {p, c, 1}, {p, c, 1}});
      expect_same(launch, 4, 512, 8);
      if (HasFatalFailure()) return;
    }
}

/// One row with many: packed or not, few or many rows, as short as vectors or longer.
TEST(CpuKernel, ShortRowsKnownAtRunTime) {
  for (DType t : {DType::F32, DType::F64, DType::I8, DType::F16, DType::Bool}) {
    Prim p = t == DType::Bool ? Prim::Xor : Prim::Add;
    SpecBuilder b;
    b.spec.extents = {kRun, kRun, kRun};
    b.spec.outer = 3;
    int x = b.operand(t, false, {kRunStride, kRunStride, 1});
    int row = b.operand(t, false, {kRunStride, 0, 1});
    int backward = b.operand(t, false, {0, 0, kRunStride}), scalar = b.operand(t, false, {1, 0, 0});
    int per_row = b.operand(t, false, {kRunStride, kRunStride, 0});
    int out = b.operand(t, true, {kRunStride, kRunStride, 1}, x);
    std::uint32_t sum = b.op(p, b.op(p, b.load(x), b.load(row)), b.load(backward));
    b.store(out, b.op(p, b.op(p, sum, b.load(per_row)), b.load(scalar)));
    b.phase(false);
    for (std::int64_t c = 1; c <= 34; ++c)
      for (std::int64_t n : {0, 1, 127, 128, 203})
        for (std::int64_t gap : {0, 1}) {
          std::int64_t w = c + gap;
          std::vector<std::int64_t> packed{n * w + 1, w, 1};
          Launch launch(b.spec, {2, n, c},
                        {packed, {c, 0, 1}, {0, 0, -2}, {1, 0, 0}, {n, gap + 1, 0}, packed});
          expect_same(launch, 4, 512, 8);
          if (HasFatalFailure()) return;
        }
  }
}

/// Operands that lie along different axes, with short and long rows on either side.
TEST(CpuKernel, TransposedOperands) {
  for (DType t : {DType::F32, DType::F64, DType::I32, DType::U8}) {
    SpecBuilder b;
    b.spec.extents = {kRun, kRun, kRun};
    b.spec.outer = 3;
    int x = b.operand(t, false, {kRunStride, 1, kRunStride});
    int y = b.operand(t, false, {kRunStride, kRunStride, 1});
    int column = b.operand(t, false, {0, 1, 0});
    int out = b.operand(t, true, {kRunStride, kRunStride, 1}, y);
    b.store(out, b.op(Prim::Add, b.op(Prim::Add, b.load(x), b.load(y)), b.load(column)));
    b.phase(false);
    for (std::int64_t rows : {0, 1, 3, 8, 17, 40, 150})
      for (std::int64_t columns : {1, 2, 3, 4, 5, 7, 8, 16, 19, 33, 130})
        for (std::int64_t gap : {0, 1}) {
          std::int64_t w = columns + gap, h = rows + gap;
          Launch launch(b.spec, {2, rows, columns},
                        {{h * columns, 1, h}, {w * rows, w, 1}, {}, {w * rows, w, 1}});
          expect_same(launch, 4, 512, 8);
          if (HasFatalFailure()) return;
        }
  }
}

TEST(CpuKernel, TenAxes) {
  SpecBuilder b;
  b.spec.extents = KernelSpec::AxisValues(10, kRun);
  b.spec.outer = 10;
  KernelSpec::AxisValues strides(10, kRunStride);
  int x = b.operand(DType::F32, false, strides), y = b.operand(DType::F32, true, strides);
  b.store(y, b.op(Prim::Exp, b.load(x)));
  b.phase(false);
  std::vector<std::int64_t> extents{2, 1, 3, 2, 1, 2, 2, 1, 3, 2}, s(10, 1), reversed(10, 1);
  for (int i = 8; i >= 0; --i) s[i] = s[i + 1] * extents[i + 1];
  for (int i = 1; i < 10; ++i) reversed[i] = reversed[i - 1] * extents[i - 1];
  expect_same(Launch(b.spec, extents, {reversed, s}));
}

TEST(CpuKernel, PhiloxMatchesTheFunction) {
  SpecBuilder b;
  b.spec.extents = {kRun};
  b.spec.outer = 1;
  std::uint32_t key = b.load(b.operand(DType::U64, false, {0}));
  std::uint32_t counter = b.cast(b.push({Prim::FlatIndex, DType::I64}), DType::U64);
  for (int w = 0; w < 4; ++w)
    b.store(b.operand(DType::U32, true, {1}),
            b.with_integer(Prim::Philox, DType::U32, w, key, counter));
  b.phase(false);
  expect_same(Launch(b.spec, {45}, {}, true));
}

TEST(CpuKernel, ShiftAmountsOfOtherTypes) {
  for (DType amount : {DType::I8, DType::U64, DType::Bool, DType::I32})
    for (DType t : {DType::I8, DType::U16, DType::I64, DType::Bool})
      for (Prim p : {Prim::Shl, Prim::Shr}) {
        SpecBuilder b;
        b.spec.extents = {kRun};
        b.spec.outer = 1;
        std::uint32_t x = b.load(b.operand(t, false, {1}));
        std::uint32_t y = b.load(b.operand(amount, false, {1}));
        b.store(b.operand(t, true, {1}), b.op(p, x, y));
        b.phase(false);
        expect_same(Launch(b.spec, {90}, {}, true));
      }
}

TEST(CpuKernel, InPlace) {
  SpecBuilder b;
  b.spec.extents = {kRun, kRun};
  b.spec.outer = 2;
  int x = b.operand(DType::F32, false, {kRunStride, 1});
  int row = b.operand(DType::F32, false, {0, 1});
  int y = b.operand(DType::F32, true, {kRunStride, 1}, x);
  b.store(y, b.op(Prim::Add, b.op(Prim::Mul, b.load(x), b.number(2)), b.load(row)));
  b.phase(false);
  for (std::int64_t n : {3, 64, 100})
    expect_same(Launch(b.spec, {5, n}, {{n, 1}, {}, {n, 1}}), 4, 512, 8);
}

TEST(CpuKernel, IndicesInEveryPhase) {
  for (bool rows : {true, false})
    for (std::int64_t block : {0, 8}) {
      SpecBuilder b;
      b.spec.extents = {kRun, kRun, kRun};
      b.spec.outer = 2;
      b.spec.block = block;
      int x = b.operand(DType::F64, false, {0, rows ? kRunStride : 1, rows ? 1 : kRunStride});
      std::uint32_t flat = b.cast(b.push({Prim::FlatIndex, DType::I64}), DType::F64);
      std::uint32_t k = b.cast(b.with_integer(Prim::Index, DType::I64, 2), DType::F64);
      std::uint32_t v = b.op(Prim::Add, b.op(Prim::Mul, flat, b.load(x)), k);
      std::uint32_t sum = b.reduce(ReduceOp::Sum, v);
      b.phase(true);
      std::uint32_t at = b.cast(b.push({Prim::FlatIndex, DType::I64}), DType::F64);
      std::uint32_t j = b.cast(b.with_integer(Prim::Index, DType::I64, 1), DType::F64);
      b.store(b.operand(DType::F64, true, {kRunStride, 1, 0}),
              b.op(Prim::Add, sum, b.op(Prim::Mul, at, j)));
      b.phase(false);
      std::vector<std::int64_t> strides{0, rows ? 20 : 1, rows ? 1 : 19};
      expect_same(Launch(b.spec, {3, 19, 20}, {strides, {19, 1, 0}}), 40, 512, 1e5);
    }
}

/// Results larger than caches are written around them, if they are aligned.
TEST(CpuKernel, LargeResults) {
  constexpr std::int64_t n = (std::int64_t{26} << 20) / 4;
  SpecBuilder b = one_op(Prim::Add, DType::F32, {1}, {kRun});
  KernelFn f = jit().compile(b.spec);
  std::vector<float> x(n), y(n + 32);
  for (std::int64_t i = 0; i < n; ++i) x[i] = static_cast<float>(i % 1000);
  for (std::int64_t shift : {0, 1, 16}) {
    auto bytes = [](float* p) { return reinterpret_cast<std::byte*>(p); };
    std::byte* operands[] = {bytes(x.data()), bytes(x.data()), bytes(y.data() + shift)};
    std::int64_t ints[] = {n, 1, 1, 1};
    std::fill(y.begin(), y.end(), -1.0f);
    std::int64_t middle = n / 2 / 16 * 16 + (shift ? 5 : 0);
    f(operands, ints, 0, middle);
    f(operands, ints, middle, n);
    std::int64_t wrong = 0;
    for (std::int64_t i = 0; i < n; ++i) wrong += y[shift + i] != 2 * x[i];
    EXPECT_EQ(wrong, 0) << shift;
    EXPECT_EQ(y[shift + n], -1.0f);
    if (shift) {
      EXPECT_EQ(y[shift - 1], -1.0f);
    }
  }
}

/// The same element gives the same bits wherever a range begins or ends.
TEST(CpuKernel, ResultsDoNotDependOnSplits) {
  for (Prim p : {Prim::Exp,     Prim::Expm1,    Prim::Exp2,  Prim::Log,  Prim::Log1p, Prim::Log2,
                 Prim::Log10,   Prim::Tanh,     Prim::Sin,   Prim::Cos,  Prim::Tan,   Prim::Asin,
                 Prim::Acos,    Prim::Atan,     Prim::Sinh,  Prim::Cosh, Prim::Erf,   Prim::Erfc,
                 Prim::Erfcx,   Prim::Asinh,    Prim::Acosh, Prim::Pow,  Prim::Atanh, Prim::Sqrt,
                 Prim::Sigmoid, Prim::Softplus, Prim::Div})
    for (DType t : {DType::F32, DType::F64}) {
      SpecBuilder b = one_op(p, t, {1}, {kRun});
      Launch launch(b.spec, {150}, {}, true);
      KernelFn f = jit().compile(b.spec);
      std::vector<Memory> whole = launch.run(f, 0, 150), parts = launch.memory;
      for (std::int64_t at = 0, step = 1; at < 150; at += step, step = step % 23 + 1)
        launch.run_on(parts, f, at, std::min<std::int64_t>(150, at + step));
      EXPECT_EQ(whole.back().bytes, parts.back().bytes) << print(b.spec);
      // And in a kernel without any loop.
      SpecBuilder single = one_op(p, t, {}, {});
      KernelFn g = jit().compile(single.spec);
      std::vector<Memory> alone = launch.memory;
      for (std::int64_t i = 0; i < 150; ++i) {
        std::vector<std::byte*> at;
        for (Memory& m : alone) at.push_back(m.at() + i * size_of(t));
        g(at.data(), nullptr, 0, 1);
      }
      EXPECT_EQ(whole.back().bytes, alone.back().bytes) << print(single.spec);
    }
}

TEST(CpuKernel, VerifyNamesTheFault) {
  SpecBuilder b = one_op(Prim::Add, DType::F32, {1}, {kRun});
  b.spec.body[2].b = 7;
  try {
    verify(b.spec);
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.fault(), Fault::Internal);
    EXPECT_NE(std::string(e.what()).find("%2 uses %7"), std::string::npos) << e.what();
  }
  SpecBuilder c = one_op(Prim::Add, DType::F32, {1}, {kRun});
  c.spec.operands[1].dtype = DType::F64;
  EXPECT_THROW(verify(c.spec), Error);
  SpecBuilder d = one_op(Prim::Exp, DType::F32, {1}, {kRun});
  d.spec.phases[0].inner = true;
  d.reduce(ReduceOp::Sum, 1);
  EXPECT_THROW(verify(d.spec), Error) << "instructions outside all phases";
}

TEST(CpuKernel, PrintsReadably) {
  SpecBuilder b = one_op(Prim::Add, DType::F32, {1}, {kRun});
  b.spec.name = "add_f32_r1";
  EXPECT_EQ(print(b.spec),
            "kernel add_f32_r1: outer (?)\n"
            "  [0] read float32 strides (1)\n"
            "  [1] read float32 strides (1)\n"
            "  [2] write float32 strides (1)\n"
            "  once\n"
            "    %0 = f32 load [0]\n"
            "    %1 = f32 load [1]\n"
            "    %2 = f32 add %0 %1\n"
            "    store [2] = %2\n");
}

TEST(CpuKernel, NamesAreNoPartOfEquality) {
  SpecBuilder a = one_op(Prim::Add, DType::F32, {1}, {kRun}), b = a;
  b.spec.name = "other";
  EXPECT_EQ(serialise(a.spec), serialise(b.spec));
  b.spec.strict = true;
  EXPECT_NE(serialise(a.spec), serialise(b.spec));
}

}  // namespace
}  // namespace snug::test
