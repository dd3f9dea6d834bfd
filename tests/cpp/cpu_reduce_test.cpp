#include "cpu_kernels.h"

namespace snug::test {
namespace {

constexpr ReduceOp kAllReductions[] = {ReduceOp::Sum, ReduceOp::Prod,   ReduceOp::Max,
                                       ReduceOp::Min, ReduceOp::ArgMax, ReduceOp::ArgMin};
constexpr DType kSomeTypes[] = {DType::Bool, DType::I8,   DType::I32, DType::U64,
                                DType::F16,  DType::BF16, DType::F32, DType::F64};

/// y[outer] = reduction of x over the inner axes.
KernelSpec reduction(ReduceOp op, DType t, KernelSpec::AxisValues extents, std::uint32_t outer,
                     KernelSpec::AxisValues x, KernelSpec::AxisValues y) {
  SpecBuilder b;
  b.spec.extents = extents;
  b.spec.outer = outer;
  int in = b.operand(t, false, x);
  std::uint32_t r = b.reduce(op, b.load(in));
  b.phase(true);
  b.store(b.operand(b.spec.body[r].dtype, true, y), r);
  b.phase(false);
  return b.spec;
}

double sum_scale(std::int64_t n) { return 4.0 * std::sqrt(static_cast<double>(n) + 1); }

TEST(CpuReduce, EveryReductionOverRows) {
  for (DType t : kSomeTypes)
    for (ReduceOp op : kAllReductions) {
      KernelSpec s = reduction(op, t, {kRun, kRun}, 1, {kRunStride, 1}, {1, 0});
      for (std::int64_t n : {1, 2, 15, 16, 17, 64, 65, 130, 300})
        expect_same(Launch(s, {4, n}, {{n + 3, 1}, {}}, false, n), 40, 512, sum_scale(n));
      if (HasFatalFailure()) return;
    }
}

TEST(CpuReduce, EveryReductionOverColumns) {
  for (DType t : kSomeTypes)
    for (ReduceOp op : kAllReductions) {
      KernelSpec s = reduction(op, t, {kRun, kRun}, 1, {1, kRunStride}, {1, 0});
      for (std::int64_t n : {1, 9, 16, 40, 64, 70, 150})
        expect_same(Launch(s, {n, 13}, {{1, n}, {}}, false, n), 40, 512, 20);
      if (HasFatalFailure()) return;
    }
}

TEST(CpuReduce, EveryReductionOverShortRows) {
  for (DType t : kSomeTypes)
    for (ReduceOp op : kAllReductions)
      for (std::int64_t c : {1, 3, 10, 33}) {
        KernelSpec s = reduction(op, t, {kRun, c}, 1, {c, 1}, {1, 0});
        for (std::int64_t n : {0, 1, 16, 21, 70})
          expect_same(Launch(s, {n, c}, {}, false, n), 40, 512, 20);
        if (HasFatalFailure()) return;
      }
}

/// Rows that turn out to be short when the kernel runs, packed or not.
TEST(CpuReduce, ShortRowsKnownAtRunTime) {
  for (DType t : {DType::F32, DType::F64, DType::I32, DType::I8})
    for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Max, ReduceOp::ArgMax, ReduceOp::ArgMin}) {
      KernelSpec s = reduction(op, t, {kRun, kRun}, 1, {kRunStride, 1}, {1, 0});
      for (std::int64_t c : {1, 2, 3, 4, 5, 8, 10, 15, 16, 17, 31, 33, 63, 64})
        for (std::int64_t n : {3, 8, 16, 21, 40})
          for (std::int64_t gap : {0, 2})
            expect_same(Launch(s, {n, c}, {{c + gap, 1}, {}}, op != ReduceOp::Sum, n + c), 40, 512,
                        20);
      if (HasFatalFailure()) return;
    }
}

TEST(CpuReduce, NarrowerVectorsAgree) {
  for (int bits : {256, 128})
    for (DType t : {DType::F32, DType::I64, DType::U8})
      for (ReduceOp op : kAllReductions) {
        expect_same(Launch(reduction(op, t, {kRun, kRun}, 1, {kRunStride, 1}, {1, 0}), {3, 77},
                           {{77, 1}, {}}),
                    40, bits, 40);
        expect_same(Launch(reduction(op, t, {kRun, 10}, 1, {10, 1}, {1, 0}), {37, 10}), 40, bits,
                    40);
      }
}

TEST(CpuReduce, NanWinsAndTheFirstIndexIsGiven) {
  for (ReduceOp op : {ReduceOp::Max, ReduceOp::Min, ReduceOp::ArgMax, ReduceOp::ArgMin})
    for (DType t : {DType::F32, DType::F64, DType::BF16, DType::I8}) {
      KernelSpec rows = reduction(op, t, {kRun, kRun}, 1, {kRunStride, 1}, {1, 0});
      KernelSpec columns = reduction(op, t, {kRun, kRun}, 1, {1, kRunStride}, {1, 0});
      for (std::uint64_t seed = 0; seed < 20; ++seed)
        for (std::int64_t n : {1, 7, 70, 150}) {
          expect_same(Launch(rows, {5, n}, {{n, 1}, {}}, true, seed), 0);
          expect_same(Launch(columns, {n, 9}, {{1, n}, {}}, true, seed), 0);
          if (HasFatalFailure()) return;
        }
    }
}

TEST(CpuReduce, AllEqualGivesIndexZero) {
  KernelSpec s = reduction(ReduceOp::ArgMax, DType::F32, {kRun}, 0, {1}, {0});
  Launch launch(s, {100});
  for (double v : {1.0, -HUGE_VAL, std::nan("")}) {
    float f = static_cast<float>(v);
    for (int i = 0; i < 100; ++i) std::memcpy(launch.memory[0].at() + 4 * i, &f, 4);
    expect_same(launch, 0);
    std::vector<Memory> got = launch.run(jit().compile(s), 0, 1);
    EXPECT_EQ(0, *reinterpret_cast<std::int64_t*>(got[1].at()));
  }
}

TEST(CpuReduce, AnyAndAll) {
  for (ReduceOp op : {ReduceOp::Any, ReduceOp::All})
    for (bool rows : {true, false})
      for (std::int64_t n : {0, 1, 2, 3, 50}) {
        KernelSpec s = reduction(op, DType::Bool, {kRun, kRun}, 1,
                                 {rows ? kRunStride : 1, rows ? 1 : kRunStride}, {1, 0});
        expect_same(Launch(s, {40, n}, {{rows ? n : 1, rows ? 1 : 40}, {}}));
      }
}

TEST(CpuReduce, EmptyAxesGiveTheIdentity) {
  for (ReduceOp op : {ReduceOp::Sum, ReduceOp::Prod})
    for (DType t : {DType::F32, DType::I32}) {
      expect_same(Launch(reduction(op, t, {kRun, kRun}, 1, {0, 1}, {1, 0}), {20, 0}));
      expect_same(Launch(reduction(op, t, {kRun, kRun}, 1, {1, kRunStride}, {1, 0}), {20, 0},
                         {{1, 20}, {}}));
      expect_same(Launch(reduction(op, t, {kRun}, 0, {1}, {0}), {0}));
      expect_same(Launch(reduction(op, t, {kRun, 0}, 1, {0, 1}, {1, 0}), {20, 0}));
    }
}

TEST(CpuReduce, SeveralInnerAxes) {
  for (ReduceOp op : kAllReductions) {
    // Over axes 0 and 2 of three, and over all but the last of four; the lanes run along the axis
    // that is contiguous, wherever it stands.
    KernelSpec a =
        reduction(op, DType::F32, {kRun, kRun, kRun}, 1, {kRunStride, kRunStride, 1}, {1, 0, 0});
    expect_same(Launch(a, {3, 5, 37}, {{37, 111, 1}, {}}), 40, 512, 60);
    KernelSpec b =
        reduction(op, DType::F32, {kRun, kRun, kRun}, 1, {kRunStride, 1, kRunStride}, {1, 0, 0});
    expect_same(Launch(b, {3, 37, 5}, {{185, 1, 37}, {}}), 40, 512, 60);
    KernelSpec c = reduction(op, DType::F64, {2, kRun, 3, 4}, 2, {kRunStride, 12, 4, 1},
                             {kRunStride, 1, 0, 0});
    expect_same(Launch(c, {2, 19, 3, 4}, {{228, 12, 4, 1}, {19, 1, 0, 0}}), 40, 512, 60);
    if (HasFatalFailure()) return;
  }
}

TEST(CpuReduce, BlocksOfPartialSums) {
  for (ReduceOp op : kAllReductions)
    for (std::int64_t n : {0, 5, 64, 65, 200, 1000}) {
      if (n == 0 && op != ReduceOp::Sum) continue;
      std::int64_t block = 64, count = (n + block - 1) / block;
      KernelSpec s = reduction(op, DType::F32, {kRun, kRun}, 1, {0, 1}, {1, 0});
      s.block = block;
      expect_same(Launch(s, {std::max<std::int64_t>(count, 1), n}), 40, 512, 60);
      // Columns: block, column; inner: row.
      KernelSpec t =
          reduction(op, DType::F32, {kRun, kRun, kRun}, 2, {0, 1, kRunStride}, {kRunStride, 1, 0});
      t.block = block;
      expect_same(Launch(t, {std::max<std::int64_t>(count, 1), 21, n}, {{0, 1, 21}, {21, 1, 0}}),
                  40, 512, 60);
      if (HasFatalFailure()) return;
    }
}

KernelSpec softmax(KernelSpec::AxisValues extents, KernelSpec::AxisValues strides, DType t) {
  SpecBuilder b;
  b.spec.extents = extents;
  b.spec.outer = 1;
  int x = b.operand(t, false, strides), y = b.operand(t, true, strides, 0);
  std::uint32_t m = b.reduce(ReduceOp::Max, b.load(x));
  b.phase(true);
  std::uint32_t sum = b.reduce(ReduceOp::Sum, b.op(Prim::Exp, b.op(Prim::Sub, b.load(x), m)));
  b.phase(true);
  std::uint32_t scale = b.op(Prim::Div, b.number(1, t), sum);
  b.phase(false);
  std::uint32_t e = b.op(Prim::Exp, b.op(Prim::Sub, b.load(x), m));
  b.store(y, b.op(Prim::Mul, e, scale));
  b.phase(true);
  return b.spec;
}

TEST(CpuReduce, SoftmaxInThreePhasesInPlace) {
  for (DType t : {DType::F32, DType::F64, DType::BF16}) {
    for (std::int64_t n : {1, 16, 50}) {
      expect_same(Launch(softmax({kRun, 10}, {10, 1}, t), {n, 10}));
      expect_same(
          Launch(softmax({kRun, kRun}, {kRunStride, 1}, t), {n, 1000}, {{1000, 1}, {1000, 1}}));
      for (std::int64_t c : {2, 3, 7, 10, 24, 30})
        for (std::int64_t w : {c, c + 1})
          expect_same(Launch(softmax({kRun, kRun}, {kRunStride, 1}, t), {n, c}, {{w, 1}, {w, 1}}));
      expect_same(Launch(softmax({kRun, kRun}, {1, kRunStride}, t), {n, 30}, {{1, n}, {1, n}}));
    }
    if (HasFatalFailure()) return;
  }
}

TEST(CpuReduce, ReductionsDoNotDependOnSplits) {
  auto sum = [](KernelSpec::AxisValues extents, KernelSpec::AxisValues strides) {
    return reduction(ReduceOp::Sum, DType::F32, extents, 1, strides, {1, 0});
  };
  for (const KernelSpec& s : {sum({kRun, kRun}, {kRunStride, 1}), sum({kRun, 10}, {10, 1}),
                              sum({kRun, kRun}, {1, kRunStride})}) {
    bool columns = s.operands[0].strides[0] == 1;
    Launch launch(s, {101, 10}, {{columns ? 1 : 10, columns ? 101 : 1}, {}});
    KernelFn f = jit().compile(s);
    std::vector<Memory> whole = launch.run(f, 0, 101), parts = launch.memory;
    for (std::int64_t at = 0, step = 1; at < 101; at += step, step = step % 19 + 1)
      launch.run_on(parts, f, at, std::min<std::int64_t>(101, at + step));
    EXPECT_EQ(whole[1].bytes, parts[1].bytes) << print(s);
  }
}

/// Random loops over random strides with one or two reductions, against the interpreter.
TEST(CpuReduce, RandomKernels) {
  std::mt19937_64 rng(7);
  auto pick = [&](std::int64_t low, std::int64_t high) {
    return std::uniform_int_distribution<std::int64_t>(low, high)(rng);
  };
  for (int round = 0; round < 150; ++round) {
    SpecBuilder b;
    std::size_t rank = pick(0, 5);
    b.spec.outer = static_cast<std::uint32_t>(pick(0, rank));
    std::vector<std::int64_t> extents;
    for (std::size_t a = 0; a < rank; ++a) {
      extents.push_back(pick(0, 9) == 0 ? pick(17, 40) : pick(1, 6));
      b.spec.extents.push_back(pick(0, 1) ? extents.back() : kRun);
    }
    DType t = kSomeTypes[pick(1, std::size(kSomeTypes) - 1)];
    std::vector<std::vector<std::int64_t>> strides;
    auto operand = [&](bool write, bool outer_only) {
      // A random order of the axes, packed; reads may broadcast, run backwards or skip.
      std::vector<std::size_t> order(rank);
      for (std::size_t a = 0; a < rank; ++a) order[a] = a;
      if (pick(0, 2) == 0) std::shuffle(order.begin(), order.end(), rng);
      std::int64_t step = pick(0, 4) == 0 ? 2 : 1;
      std::vector<std::int64_t> s(rank);
      for (std::size_t k = rank; k-- > 0;) {
        std::size_t a = order[k];
        if ((outer_only && a >= b.spec.outer) || (!write && pick(0, 4) == 0)) continue;
        s[a] = pick(0, 7) == 0 ? -step : step;
        step *= extents[a];
      }
      KernelSpec::AxisValues declared;
      for (std::int64_t v : s) declared.push_back(v == 0 || v == 1 || pick(0, 1) ? v : kRunStride);
      strides.push_back(s);
      return b.operand(t, write, declared);
    };
    int x = operand(false, false), y = operand(false, false);
    bool inner = b.spec.outer < rank;
    std::uint32_t v = b.op(Prim::Add, b.load(x), b.op(Prim::Abs, b.load(y)));
    if (inner) {
      std::uint32_t first = b.reduce(ReduceOp::Sum, v);
      b.phase(true);
      auto op = kAllReductions[pick(0, 5)];
      std::uint32_t second = b.reduce(op, b.op(Prim::Max, b.load(y), b.load(x)));
      b.store(operand(true, false), b.op(Prim::Sub, b.load(x), first));
      b.phase(true);
      b.store(operand(true, true), b.op(Prim::Add, first, b.cast(second, t)));
      b.phase(false);
    } else {
      b.store(operand(true, false), b.op(Prim::Mul, v, b.load(x)));
      b.phase(false);
    }
    expect_same(Launch(b.spec, extents, strides, false, round), 40, 512, 100);
    if (HasFatalFailure()) {
      ADD_FAILURE() << "round " << round;
      return;
    }
  }
}

}  // namespace
}  // namespace snug::test
