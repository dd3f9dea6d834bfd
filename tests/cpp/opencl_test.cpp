#include <filesystem>
#include <fstream>

#include "backend/opencl/emit_opencl.h"
#include "backend/opencl/opencl_device.h"
#include "backend/opencl/opencl_kernels.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "cpu_kernels.h"

namespace snug::test {
namespace {

/// The factor of `close` that stands for 4 to 9 ULP; 1 to 2 for the 16-bit types.
double few_ulp(DType t) { return t == DType::F64 ? 0.1 : t == DType::F32 ? 0.5 : 1; }

/// The first device that the machine has, which tests share; null if there is none. Devices stay
/// open: drivers end before this program does.
OpenClDevice* first_device() {
  static OpenClDevice* const device = [] {
    const OpenClSearch found = find_opencl_devices();
    return found.devices.empty() ? nullptr : new OpenClDevice(found.devices[0]);
  }();
  return device;
}

/// The same, taken for a card: kernels are laid out as for one.
OpenClDevice& as_card() {
  static OpenClDevice* const device = [] {
    OpenClFound found = first_device()->found();
    found.gpu = true;
    return new OpenClDevice(found);
  }();
  return *device;
}

class OpenCl : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!first_device()) GTEST_SKIP() << "no OpenCL device: " << find_opencl_devices().trouble;
  }
  static OpenClDevice& device() { return *first_device(); }

  static std::vector<Memory> run(const Launch& launch, OpenClDevice& device) {
    const KernelSpec& s = launch.spec;
    std::unique_ptr<PreparedCall> kernel = device.prepare(s, launch.ints);
    kernel->make_ready();
    std::vector<std::shared_ptr<DeviceMemory>> memory;
    std::vector<std::byte*> operands;
    for (std::size_t o = 0; o < s.operands.size(); ++o) {
      const Memory& m = launch.memory[o];
      memory.push_back(device.allocate(m.bytes.size(), "an operand"));
      memory[o]->write(memory[o]->data(), m.bytes.data(), m.bytes.size());
      const std::int32_t alias = s.operands[o].may_alias;
      operands.push_back(alias >= 0 ? operands[alias] : memory[o]->data() + m.first);
    }
    const auto workspace = device.allocate(std::max<std::uint64_t>(kernel->workspace, 1), "w");
    RunArgs args;
    args.in = operands.data();
    args.in_count = static_cast<std::uint32_t>(operands.size());
    args.ints = launch.ints;
    args.workspace = workspace->data();
    const auto queues = device.open(1);
    queues->run(*kernel, args);
    queues->finish();
    std::vector<Memory> out = launch.memory;
    for (std::size_t o = 0; o < out.size(); ++o)
      memory[o]->read(memory[o]->data(), out[o].bytes.data(), out[o].bytes.size());
    return out;
  }

  /// Integers and margins are equal; floats are close (see `close`).
  static void expect_interpreted(const Launch& launch, double factor = 0.5, double scale = 0) {
    const KernelSpec& s = launch.spec;
    verify(s);
    const std::vector<Memory> want = launch.run(nullptr, 0, launch.points());
    expect_equal(launch, run(launch, device()), want, factor, scale);
    expect_equal(launch, run(launch, as_card()), want, factor, scale);
  }

  static void expect_equal(const Launch& launch, const std::vector<Memory>& got,
                           const std::vector<Memory>& want, double factor, double scale) {
    const KernelSpec& s = launch.spec;
    for (std::size_t o = 0; o < s.operands.size(); ++o) {
      DType t = s.operands[o].dtype;
      std::size_t width = size_of(t);
      for (std::size_t at = 0; at + width <= got[o].bytes.size(); at += width) {
        const std::byte *a = got[o].bytes.data() + at, *b = want[o].bytes.data() + at;
        if (std::memcmp(a, b, width) == 0) continue;
        std::int64_t ia = 0, ib = 0;
        std::memcpy(&ia, a, width), std::memcpy(&ib, b, width);
        double fa = is_float(t) ? read_float(a, t) : static_cast<double>(ia);
        double fb = is_float(t) ? read_float(b, t) : static_cast<double>(ib);
        ASSERT_TRUE(is_float(t) && close(fa, fb, t, factor, scale))
            << print(s) << emit_opencl(s, {}).body << "operand " << o << " element "
            << (static_cast<std::int64_t>(at) - launch.memory[o].first) /
                   static_cast<std::int64_t>(width)
            << ": OpenCL " << fa << ", interpreted " << fb;
      }
    }
  }
};

/// One output per reduction of the rows of one operand.
KernelSpec reductions(std::initializer_list<ReduceOp> ops, DType t, std::int64_t columns) {
  SpecBuilder b;
  b.spec.name = "reduce";
  b.spec.extents = {kRun, columns};
  b.spec.outer = 1;
  std::uint32_t x = b.load(b.operand(t, false, {kRunStride, 1}));
  std::vector<std::uint32_t> results;
  for (ReduceOp op : ops) results.push_back(b.reduce(op, x));
  b.phase(true);
  for (std::uint32_t r : results) b.store(b.operand(b.spec.body[r].dtype, true, {1, 0}), r);
  b.phase(false);
  return b.spec;
}

TEST_F(OpenCl, MulAddTanh) {
  for (DType t : {DType::F32, DType::F64}) {
    SpecBuilder b;
    b.spec.name = "mul_add_tanh";
    b.spec.extents = {kRun};
    b.spec.outer = 1;
    std::uint32_t x = b.load(b.operand(t, false, {1})), y = b.load(b.operand(t, false, {1}));
    std::uint32_t sum = b.op(Prim::Add, b.op(Prim::Mul, x, y), b.number(0.25, t));
    b.store(b.operand(t, true, {1}, 0), b.op(Prim::Tanh, sum));
    b.phase(false);
    // The interpreter keeps the product in double, so sums near 0 differ by an ULP of its terms.
    expect_interpreted(Launch(b.spec, {1000}), few_ulp(t), 1);
    expect_interpreted(Launch(b.spec, {1000}, {}, true), few_ulp(t), 1);
    expect_interpreted(Launch(b.spec, {0}));
  }
}

TEST_F(OpenCl, BroadcastWithStrides) {
  SpecBuilder b;
  b.spec.name = "add";
  b.spec.extents = {kRun, 3, kRun};
  b.spec.outer = 3;
  std::uint32_t x = b.load(b.operand(DType::F32, false, {kRunStride, 0, kRunStride}));
  std::uint32_t y = b.load(b.operand(DType::F32, false, {0, 1, 0}));
  std::uint32_t flat = b.cast(b.push({Prim::FlatIndex, DType::I64}), DType::F32);
  b.store(b.operand(DType::F32, true, {kRunStride, kRunStride, 1}),
          b.op(Prim::Add, b.op(Prim::Mul, x, flat), y));
  b.phase(false);
  expect_interpreted(Launch(b.spec, {5, 3, 7}, {{-14, 0, 2}, {}, {21, 7, 1}}), 0.5, 1);
}

/// A sum of two operands, one of them turned, and its turned copy.
KernelSpec turned(DType t, bool in_place = false) {
  SpecBuilder b;
  b.spec.name = "turned";
  b.spec.extents = {kRun, kRun, kRun};
  b.spec.outer = 3;
  const KernelSpec::AxisValues along = {kRunStride, kRunStride, 1},
                               across = {1, kRunStride, kRunStride};
  const int x = b.operand(t, false, along), y = b.operand(t, false, across);
  const std::uint32_t sum = b.op(Prim::Add, b.load(x), b.load(y));
  b.store(b.operand(t, true, along), sum);
  b.store(b.operand(t, true, across, in_place ? y : -1), sum);
  b.phase(false);
  return b.spec;
}

TEST_F(OpenCl, SquaresOfWhatLiesAcross) {
  for (DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::U64})
    for (const bool in_place : {false, true}) {
      const std::vector<std::int64_t> along = {3 * 33, 33, 1}, across = {1, 33 * 70, 70};
      expect_interpreted(
          Launch(turned(t, in_place), {70, 3, 33}, {along, across, along, across}, is_float(t)));
      if (HasFatalFailure()) return;
    }
  EXPECT_EQ(map_kernel(turned(DType::F32),
                       Launch(turned(DType::F32), {70, 3, 33},
                              {{99, 33, 1}, {1, 2310, 70}, {99, 33, 1}, {1, 2310, 70}})
                           .ints,
                       as_card().found())
                .kind,
            OpenClMapping::Kind::Tile);
}

TEST_F(OpenCl, VectorsWhereSizesAndAddressesAllowThem) {
  for (DType t : {DType::F32, DType::F64, DType::BF16, DType::U8, DType::I64}) {
    SpecBuilder b;
    b.spec.name = "vectors";
    b.spec.extents = {kRun, kRun};
    b.spec.outer = 2;
    const int x = b.operand(t, false, {kRunStride, 1});
    const std::uint32_t row = b.load(b.operand(t, false, {0, 1}));
    const std::uint32_t column = b.load(b.operand(t, false, {1, 0}));
    const std::uint32_t place = b.cast(b.with_integer(Prim::Index, DType::I64, 1), t);
    const std::uint32_t flat = b.cast(b.push({Prim::FlatIndex, DType::I64}), t);
    std::uint32_t sum = b.op(Prim::Add, b.op(Prim::Add, b.load(x), row), column);
    sum = b.op(Prim::Add, b.op(Prim::Add, sum, place), flat);
    b.store(b.operand(t, true, {kRunStride, 1}, x), sum);
    b.store(b.operand(t, true, {1, kRunStride}), row);
    b.phase(false);
    const auto all = [](std::int64_t pitch) {
      return std::vector<std::vector<std::int64_t>>{
          {pitch, 1}, {0, 1}, {1, 0}, {pitch, 1}, {1, 23}};
    };
    // Columns; strides of rows.
    for (const auto& [columns, pitch] : {std::pair(40, 40), {40, 42}, {40, 44}, {39, 40}, {4, 4}})
      expect_interpreted(Launch(b.spec, {23, columns}, all(pitch)), 0.5, 2000);
    if (HasFatalFailure()) return;
  }
}

TEST(OpenClMapping, DivisionsByNumbersThatAreKnownBefore) {
  for (const std::int64_t d : {1, 2, 3, 5, 7, 10, 64, 100, 641, 65535, 65537, 1 << 30, INT32_MAX}) {
    const Divisor by = divisor_of(d);
    for (const std::int64_t n : {std::int64_t{0}, std::int64_t{1}, d - 1, d, 2 * d - 1, 2 * d,
                                 std::int64_t{1234567890}, std::int64_t{INT32_MAX}}) {
      if (n > INT32_MAX) continue;
      const auto u = static_cast<std::uint32_t>(n);
      const auto high = static_cast<std::uint32_t>((std::uint64_t{u} * by.factor) >> 32);
      EXPECT_EQ((high + u) >> by.shift, n / d) << n << " / " << d;
    }
  }
}

TEST_F(OpenCl, RowReductionsOverTenColumns) {
  for (DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I8, DType::U64}) {
    KernelSpec folds = reductions({ReduceOp::Sum, ReduceOp::Prod}, t, 10);
    expect_interpreted(Launch(folds, {37, 10}, {{10, 1}, {}, {}}), few_ulp(t), 10);
    KernelSpec extremes =
        reductions({ReduceOp::Max, ReduceOp::Min, ReduceOp::ArgMax, ReduceOp::ArgMin}, t, 10);
    for (std::uint64_t seed : {1, 2})
      expect_interpreted(Launch(extremes, {37, 10}, {{10, 1}, {}, {}, {}, {}}, true, seed), 0);
    if (HasFatalFailure()) return;
  }
  KernelSpec logic = reductions({ReduceOp::Any, ReduceOp::All}, DType::Bool, kRun);
  expect_interpreted(Launch(logic, {40, 3}, {{3, 1}, {}, {}}));
  KernelSpec empty = reductions({ReduceOp::Sum, ReduceOp::Max}, DType::F32, kRun);
  expect_interpreted(Launch(empty, {4, 0}, {{1, 1}, {}, {}}));
}

TEST_F(OpenCl, LongRows) {
  for (DType t : {DType::F32, DType::F16, DType::I32}) {
    KernelSpec all =
        reductions({ReduceOp::Sum, ReduceOp::Max, ReduceOp::ArgMax, ReduceOp::ArgMin}, t, kRun);
    for (const std::int64_t columns : {64, 127, 1000})
      expect_interpreted(
          Launch(all, {5, columns}, {{columns, 1}, {}, {}, {}, {}}, is_float(t) && columns < 1000),
          few_ulp(t), static_cast<double>(columns));
    if (HasFatalFailure()) return;
  }
}

TEST_F(OpenCl, BlocksOfAReduction) {
  for (ReduceOp op : {ReduceOp::Sum, ReduceOp::ArgMax}) {
    SpecBuilder b;
    b.spec.name = "partial";
    b.spec.extents = {kRun, kRun, 2};
    b.spec.outer = 1;
    b.spec.block = 16;
    std::uint32_t x = b.load(b.operand(DType::I32, false, {0, kRunStride, 1}));
    std::uint32_t flat = b.cast(b.push({Prim::FlatIndex, DType::I64}), DType::I32);
    std::uint32_t r = b.reduce(op, b.op(Prim::Mul, x, flat));
    b.phase(true);
    b.store(b.operand(b.spec.body[r].dtype, true, {1, 0, 0}), r);
    b.phase(false);
    expect_interpreted(Launch(b.spec, {4, 50, 2}, {{0, 2, 1}, {}}));
  }
}

TEST_F(OpenCl, SoftmaxInThreePhases) {
  SpecBuilder b;
  b.spec.name = "softmax";
  b.spec.extents = {kRun, kRun};
  b.spec.outer = 1;
  int x = b.operand(DType::F32, false, {kRunStride, 1});
  int y = b.operand(DType::F32, true, {kRunStride, 1});
  std::uint32_t highest = b.reduce(ReduceOp::Max, b.load(x));
  b.phase(true);
  std::uint32_t sum = b.reduce(ReduceOp::Sum, b.op(Prim::Exp, b.op(Prim::Sub, b.load(x), highest)));
  b.phase(true);
  std::uint32_t e = b.op(Prim::Exp, b.op(Prim::Sub, b.load(x), highest));
  b.store(y, b.op(Prim::Div, e, sum));
  b.phase(true);
  expect_interpreted(Launch(b.spec, {33, 19}, {{20, 1}, {19, 1}}), few_ulp(DType::F32));
  expect_interpreted(Launch(b.spec, {33, 19}, {{20, 1}, {19, 1}}, true), few_ulp(DType::F32));
  expect_interpreted(Launch(b.spec, {7, 300}, {{300, 1}, {300, 1}}), few_ulp(DType::F32));
}

TEST_F(OpenCl, AValueThatIsStoredOverWhatAllHaveRead) {
  SpecBuilder b;
  b.spec.name = "renew_and_use";
  b.spec.extents = {kRun, kRun};
  b.spec.outer = 1;
  const int x = b.operand(DType::F32, false, {kRunStride, 1});
  const int before = b.operand(DType::F32, false, {1, 0});
  const int after = b.operand(DType::F32, true, {1, 0}, before);
  const int y = b.operand(DType::F32, true, {kRunStride, 1});
  const std::uint32_t sum = b.reduce(ReduceOp::Sum, b.load(x));
  b.phase(true);
  const std::uint32_t renewed = b.op(Prim::Add, b.load(before), sum);
  b.store(after, renewed);
  b.phase(false);
  b.store(y, b.op(Prim::Mul, b.load(x), renewed));
  b.phase(true);
  expect_interpreted(Launch(b.spec, {5, 200}, {{200, 1}, {1, 0}, {1, 0}, {200, 1}}), 0.5, 200);
}

TEST_F(OpenCl, DropoutWithPhilox) {
  SpecBuilder b;
  b.spec.name = "dropout";
  b.spec.extents = {kRun, kRun};
  b.spec.outer = 2;
  std::uint32_t x = b.load(b.operand(DType::F32, false, {kRunStride, 1}));
  std::uint32_t key = b.with_integer(Prim::Const, DType::U64, 0x9876543210abcdef);
  std::uint32_t counter = b.cast(b.push({Prim::FlatIndex, DType::I64}), DType::U64);
  for (int word = 0; word < 4; ++word)
    b.store(b.operand(DType::U32, true, {kRunStride, 1}),
            b.with_integer(Prim::Philox, DType::U32, word, key, counter));
  std::uint32_t bits = b.with_integer(Prim::Philox, DType::U32, 0, key, counter);
  std::uint32_t keep = b.op(Prim::Ge, bits, b.with_integer(Prim::Const, DType::U32, 1 << 30));
  std::uint32_t scaled = b.op(Prim::Mul, x, b.number(4.0 / 3));
  b.store(b.operand(DType::F32, true, {kRunStride, 1}),
          b.op(Prim::Select, keep, scaled, b.number(0)));
  b.phase(false);
  expect_interpreted(Launch(b.spec, {41, 23}, std::vector<std::vector<std::int64_t>>(6, {23, 1})));
}

/// One output per instruction of [first, last].
KernelSpec every(Prim first, Prim last, DType t, bool skip_sqrt, bool strict = false) {
  SpecBuilder b;
  b.spec.name = "every";
  b.spec.extents = {kRun};
  b.spec.outer = 1;
  b.spec.strict = strict;
  std::uint32_t x = b.load(b.operand(t, false, {1})), y = b.load(b.operand(t, false, {1}));
  std::uint32_t z = b.load(b.operand(t, false, {1}));
  for (int p = static_cast<int>(first); p <= static_cast<int>(last); ++p) {
    auto prim = static_cast<Prim>(p);
    if (skip_sqrt && prim == Prim::Sqrt) continue;
    std::uint32_t r = b.op(prim, x, y, z);
    b.store(b.operand(b.spec.body[r].dtype, true, {1}), r);
  }
  b.phase(false);
  return b.spec;
}

TEST_F(OpenCl, EveryInstructionOnIntegers) {
  for (DType t : {DType::Bool, DType::I8, DType::I16, DType::I32, DType::I64, DType::U8, DType::U16,
                  DType::U32, DType::U64})
    for (bool special : {false, true}) {
      expect_interpreted(Launch(every(Prim::Add, Prim::Round, t, true), {400}, {}, special));
      expect_interpreted(Launch(every(Prim::Lt, Prim::Shr, t, true), {400}, {}, special));
      if (HasFatalFailure()) return;
    }
}

TEST_F(OpenCl, EveryInstructionOnFloats) {
  for (DType t : {DType::F16, DType::BF16, DType::F32, DType::F64}) {
    expect_interpreted(Launch(every(Prim::Add, Prim::Round, t, false), {300}), few_ulp(t));
    expect_interpreted(Launch(every(Prim::Exp, Prim::Erfcx, t, false), {300}), few_ulp(t));
    expect_interpreted(Launch(every(Prim::IsNan, Prim::IsInf, t, false), {300}));
    expect_interpreted(Launch(every(Prim::Min, Prim::Max, t, false), {300}, {}, true), 0);
    expect_interpreted(Launch(every(Prim::IsNan, Prim::Ne, t, false), {300}, {}, true));
    if (HasFatalFailure()) return;
  }
  expect_interpreted(Launch(every(Prim::Exp, Prim::Erfcx, DType::F32, false, true), {300}), 0.12);
}

TEST_F(OpenCl, EveryConversion) {
  for (DType from : kAllTypes) {
    SpecBuilder b;
    b.spec.name = "cast";
    b.spec.extents = {kRun};
    b.spec.outer = 1;
    std::uint32_t x = b.load(b.operand(from, false, {1}));
    for (DType to : kAllTypes) b.store(b.operand(to, true, {1}), b.cast(x, to));
    b.phase(false);
    expect_interpreted(Launch(b.spec, {500}, {}, true), 0.2);
    if (HasFatalFailure()) return;
  }
}

/// A kernel by hand.
OpenClText text(const std::string& body) {
  return {.name = "by_hand", .helpers = {}, .body = body, .args = {}, .local = {1, 1, 1}};
}

TEST_F(OpenCl, BrokenSourceGivesTheLog) {
  const auto broken =
      device().kernels().add(text("__kernel void $NAME(const int go) { undeclared_name = 1; }"));
  // What else waits to be compiled is, all the same.
  const auto good = device().kernels().add(text("__kernel void $NAME(const int go) {}"));
  good->make_ready();
  try {
    broken->make_ready();
    FAIL() << "compiled";
  } catch (const Error& e) {
    EXPECT_EQ(Fault::Device, e.fault());
    EXPECT_NE(std::string::npos, e.message().find("CL_BUILD_PROGRAM_FAILURE")) << e.what();
    EXPECT_NE(std::string::npos, e.message().find("undeclared_name")) << e.what();
    EXPECT_NE(std::string::npos, e.message().find("by_hand")) << e.what();
  }
}

TEST_F(OpenCl, OtherErrorsHaveNames) {
  const auto missing = device().kernels().add(text("__kernel void other(const int go) {}"));
  try {
    missing->make_ready();
    FAIL() << "found";
  } catch (const Error& e) {
    EXPECT_EQ(Fault::Device, e.fault());
    EXPECT_NE(std::string::npos, e.message().find("CL_INVALID_KERNEL_NAME")) << e.what();
  }
  OpenClFound nowhere = device().found();
  nowhere.device_number = 1000;
  EXPECT_THROW(OpenClDevice{nowhere}, DeviceError);
}

TEST_F(OpenCl, IntegersThatAreTooManyGoThroughMemory) {
  SpecBuilder b;
  b.spec.name = "sum_of_many";
  b.spec.extents = {kRun, kRun, kRun, kRun};
  b.spec.outer = 4;
  const KernelSpec::AxisValues any = {kRunStride, kRunStride, kRunStride, kRunStride};
  std::uint32_t sum = b.load(b.operand(DType::F32, false, any));
  std::vector<std::vector<std::int64_t>> strides{{24, 8, 2, 1}};
  for (int k = 0; k < 60; ++k) {
    sum = b.op(Prim::Add, sum, b.load(b.operand(DType::F32, false, any)));
    strides.push_back({24, 8, 2, 1});
  }
  b.store(b.operand(DType::F32, true, any), sum);
  strides.push_back({24, 8, 2, 1});
  b.phase(false);
  const Launch launch(b.spec, {2, 3, 4, 2}, strides);
  EXPECT_GT(device().prepare(launch.spec, launch.ints)->workspace, 0u);
  expect_interpreted(launch, 0.5, 100);
}

TEST_F(OpenCl, ProgramsAreKeptOnDisk) {
  const OpenClText kernel =
      text("__kernel void $NAME(const int go) { volatile int twice = 2 * go; }");
  for (int time = 0; time < 2; ++time) {
    OpenClDevice again(device().found());
    again.kernels().add(kernel)->make_ready();
    const OpenClKernels::Counts counts = again.kernels().counts();
    EXPECT_EQ(counts.compiled + counts.from_disk, 1u);
    EXPECT_TRUE(time == 0 || counts.from_disk == 1);
  }
}

TEST_F(OpenCl, AnInterruptWhileKernelsAreCompiled) {
  OpenClDevice again(device().found());
  std::vector<std::shared_ptr<const OpenClKernel>> kernels;
  for (int k = 0; k < 40; ++k)
    kernels.push_back(again.kernels().add(
        text(fmt::format("__kernel void $NAME(const int go) {{ volatile int n = {}; }}", k))));
  for (const int check : {1, 2, 4}) try {
      const InterruptProbe probe(check);
      kernels[0]->make_ready();
    } catch (const InterruptedError&) {
    }
  // What was begun is kept, the rest is made later.
  for (const auto& kernel : kernels) EXPECT_NO_THROW(kernel->make_ready());
  const OpenClKernels::Counts counts = again.kernels().counts();
  kernels[0]->make_ready();
  EXPECT_EQ(again.kernels().counts().compiled, counts.compiled);
  EXPECT_EQ(again.context().counts().objects, 1u + kernels.size());
}

TEST_F(OpenCl, TextsThatNobodyHasAreForgotten) {
  OpenClDevice again(device().found());
  const auto kept = again.kernels().add(text("__kernel void $NAME(const int go) {}"));
  for (int k = 0; k < 1000; ++k)
    again.kernels().add(text(fmt::format("__kernel void $NAME(const int go) {{ // {}\n}}", k)));
  EXPECT_LE(again.kernels().counts().texts, 65u);
  EXPECT_EQ(again.kernels().add(kept->text()), kept);
  kept->make_ready();
  const OpenClKernels::Counts counts = again.kernels().counts();
  EXPECT_EQ(counts.compiled + counts.from_disk, 1u);
}

TEST_F(OpenCl, DamagedProgramsAreBuiltAgain) {
  namespace fs = std::filesystem;
  std::string name = (fs::temp_directory_path() / "snug-programs-XXXXXX").string();
  const fs::path folder = mkdtemp(name.data());
  const OpenClText kernel =
      text("__kernel void $NAME(const int go) { volatile int thrice = 3 * go; }");
  const auto build = [&](const OpenClFound& found) {
    OpenClDevice again(found, folder);
    again.kernels().add(kernel)->make_ready();
    return again.kernels().counts();
  };
  EXPECT_EQ(build(device().found()).compiled, 1u);
  EXPECT_EQ(build(device().found()).from_disk, 1u);
  for (const double part : {0.0, 0.01, 0.5, 1.0}) {
    const fs::path file = fs::directory_iterator(folder)->path();
    std::fstream bytes(file, std::ios::in | std::ios::out | std::ios::binary);
    const auto at =
        static_cast<std::streamoff>(part * (static_cast<double>(fs::file_size(file)) - 1));
    bytes.seekg(at);
    const auto old = static_cast<char>(bytes.get());
    bytes.seekp(at);
    bytes.put(static_cast<char>(old ^ 4));
    bytes.close();
    EXPECT_EQ(build(device().found()).compiled, 1u) << at;
    EXPECT_EQ(build(device().found()).from_disk, 1u) << at;
  }
  // Another driver has other programs.
  OpenClFound newer = device().found();
  newer.driver += ".1";
  EXPECT_EQ(build(newer).compiled, 1u);
  fs::remove_all(folder);
}

TEST_F(OpenCl, MemoryIsCountedAndRefused) {
  OpenClDevice small(device().found());
  small.set_limit(1 << 20);
  const auto one = small.allocate(700 << 10, "the first");
  EXPECT_EQ(small.allocated(), 700u << 10);
  try {
    small.allocate(700 << 10, "the second");
    FAIL() << "allocated";
  } catch (const MemoryError& e) {
    EXPECT_EQ(e.needed(), 1400u << 10);
    EXPECT_EQ(e.allowed(), 1u << 20);
    for (const char* word : {"opencl:0", "the second", "700.00 KiB", "the first", "1.00 MiB"})
      EXPECT_NE(e.message().find(word), std::string::npos) << word << " in " << e.what();
  }
  EXPECT_EQ(small.allocated(), 700u << 10);
}

TEST(OpenClEmitter, UnsupportedInstructions) {
  for (const KernelSpec& s : {every(Prim::Sqrt, Prim::Sqrt, DType::I32, false),
                              every(Prim::Exp, Prim::Exp, DType::F64, false, true)}) {
    try {
      emit_opencl(s, {});
      FAIL() << "emitted";
    } catch (const Error& e) {
      EXPECT_EQ(Fault::Unsupported, e.fault());
    }
  }
}

}  // namespace
}  // namespace snug::test
