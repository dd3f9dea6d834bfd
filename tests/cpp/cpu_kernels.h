#pragma once
// Builds kernels for the tests and runs them compiled and interpreted on equal memory.
#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

#include "backend/cpu/jit.h"
#include "kernel/kernel_spec.h"

namespace snug::test {

inline constexpr std::int64_t kRun = KernelSpec::kRuntime;
inline constexpr std::int64_t kRunStride = KernelSpec::Operand::kRuntimeStride;

inline constexpr DType kAllTypes[] = {DType::Bool, DType::I8,  DType::I16, DType::I32, DType::I64,
                                      DType::U8,   DType::U16, DType::U32, DType::U64, DType::F16,
                                      DType::BF16, DType::F32, DType::F64};

struct SpecBuilder {
  KernelSpec spec;

  std::uint32_t push(const Instr& in) {
    spec.body.push_back(in);
    return static_cast<std::uint32_t>(spec.body.size() - 1);
  }
  int operand(DType t, bool write, KernelSpec::AxisValues strides, int may_alias = -1) {
    spec.operands.push_back({t, write, strides, may_alias});
    return static_cast<int>(spec.operands.size()) - 1;
  }
  std::uint32_t with_integer(Prim p, DType t, std::int64_t integer, std::uint32_t a = 0,
                             std::uint32_t b = 0) {
    Instr in{p, t, a, b};
    in.integer = integer;
    return push(in);
  }
  std::uint32_t load(int o) { return with_integer(Prim::Load, spec.operands[o].dtype, o); }
  void store(int o, std::uint32_t a) { with_integer(Prim::Store, spec.operands[o].dtype, o, a); }
  std::uint32_t number(double v, DType t = DType::F32) {
    Instr in{Prim::Const, t};
    in.number = v;
    in.integer = static_cast<std::int64_t>(v);
    return push(in);
  }
  std::uint32_t op(Prim p, std::uint32_t a, std::uint32_t b = 0, std::uint32_t c = 0) {
    DType t = spec.body[p == Prim::Select ? b : a].dtype;
    bool logic = (p >= Prim::Lt && p <= Prim::Ne) || p == Prim::IsNan || p == Prim::IsInf;
    return push({p, logic ? DType::Bool : t, a, b, c});
  }
  std::uint32_t cast(std::uint32_t a, DType t) { return push({Prim::Cast, t, a}); }
  std::uint32_t reduce(ReduceOp r, std::uint32_t a) {
    bool arg = r == ReduceOp::ArgMax || r == ReduceOp::ArgMin;
    return with_integer(Prim::Reduce, arg ? DType::I64 : spec.body[a].dtype, static_cast<int>(r),
                        a);
  }
  /// Ends a phase.
  void phase(bool inner) {
    std::uint32_t begin = spec.phases.empty() ? 0 : spec.phases.back().end;
    spec.phases.push_back({begin, static_cast<std::uint32_t>(spec.body.size()), inner});
  }
};

/// One operand's bytes, with room on both sides that must not change.
struct Memory {
  static constexpr std::int64_t kMargin = 128;
  std::vector<std::byte> bytes;
  std::int64_t first = 0;  // byte of the element of index 0
  std::byte* at() { return bytes.data() + first; }
};

inline void put_random(std::byte* p, DType t, std::mt19937_64& rng, bool special) {
  std::uint64_t bits = rng();
  std::uniform_real_distribution<double> real(-4, 4);
  std::uniform_int_distribution<int> small(-6, 6), one_in(0, 9);
  if (is_float(t)) {
    const double specials[] = {0.0,
                               -0.0,
                               1.0,
                               -1.0,
                               0.5,
                               std::numeric_limits<double>::infinity(),
                               -std::numeric_limits<double>::infinity(),
                               std::numeric_limits<double>::quiet_NaN(),
                               1e30,
                               -1e30,
                               1e-30,
                               2.5,
                               255.5,
                               300,
                               -300,
                               3e9,
                               -3e9,
                               1e19,
                               70000};
    double v = special && one_in(rng) < 4 ? specials[bits % std::size(specials)] : real(rng);
    float f = static_cast<float>(v);
    std::uint16_t h = t == DType::F16 ? float_to_half(f) : float_to_bfloat(f);
    if (t == DType::F64)
      std::memcpy(p, &v, 8);
    else if (t == DType::F32)
      std::memcpy(p, &f, 4);
    else
      std::memcpy(p, &h, 2);
    return;
  }
  if (t == DType::Bool) {
    *p = static_cast<std::byte>(bits & 1);
    return;
  }
  std::int64_t v = special && one_in(rng) < 4 ? static_cast<std::int64_t>(bits) : small(rng);
  if (special && one_in(rng) == 0) v = INT64_MIN >> (64 - 8 * size_of(t));
  std::memcpy(p, &v, size_of(t));
}

inline double read_float(const std::byte* p, DType t) {
  if (t == DType::F64) {
    double v;
    std::memcpy(&v, p, 8);
    return v;
  }
  if (t == DType::F32) {
    float v;
    std::memcpy(&v, p, 4);
    return v;
  }
  std::uint16_t h;
  std::memcpy(&h, p, 2);
  return t == DType::F16 ? half_to_float(h) : bfloat_to_float(h);
}

/// `scale` is the size of the terms where they cancel.
inline bool close(double a, double b, DType t, double factor, double scale) {
  if (std::isnan(a) || std::isnan(b)) return std::isnan(a) && std::isnan(b);
  double rtol = t == DType::F64 ? 1e-14 : t == DType::F32 ? 1e-6 : t == DType::F16 ? 1e-3 : 8e-3;
  double tiny = t == DType::F64 ? 1e-300 : t == DType::F16 ? 1e-7 : 1e-37;
  double limit = t == DType::F64 ? 1.79e308 : t == DType::F16 ? 65504 : 3.4028e38;
  auto bounded = [&](double v) { return std::fmax(-limit, std::fmin(limit, v)); };
  a = bounded(a), b = bounded(b);
  scale = std::fmax(scale, std::fmax(std::fabs(a), std::fabs(b)));
  return std::fabs(a - b) <= factor * (rtol * scale + tiny);
}

/// The arguments of a kernel: actual sizes, strides per operand, and memory.
struct Launch {
  const KernelSpec& spec;
  std::vector<std::int64_t> ints;
  std::vector<Memory> memory;

  /// Strides not constant in the spec come from `strides` (per operand, may be empty).
  Launch(const KernelSpec& s, std::vector<std::int64_t> extents,
         std::vector<std::vector<std::int64_t>> strides = {}, bool special = false,
         std::uint64_t seed = 1)
      : spec(s), ints(std::move(extents)) {
    std::mt19937_64 rng(seed);
    for (std::size_t o = 0; o < s.operands.size(); ++o) {
      std::int64_t low = 0, high = 0;
      bool empty = false;
      for (std::size_t axis = 0; axis < s.rank(); ++axis) {
        std::int64_t stride = s.operands[o].strides[axis];
        if (stride == kRunStride) stride = strides.at(o).at(axis);
        ints.push_back(stride);
        if (s.block && axis == 0 && stride == 0) continue;
        std::int64_t reach = (ints[axis] - 1) * stride;
        if (ints[axis] == 0) empty = true;
        (reach < 0 ? low : high) += reach;
      }
      if (empty) low = high = 0;
      DType t = s.operands[o].dtype;
      Memory m;
      std::int64_t elements = high - low + 1;
      m.bytes.resize(elements * size_of(t) + 2 * Memory::kMargin);
      for (std::size_t i = 0; i < m.bytes.size(); ++i) m.bytes[i] = static_cast<std::byte>(0xA5);
      for (std::int64_t i = 0; i < elements; ++i)
        put_random(m.bytes.data() + Memory::kMargin + i * size_of(t), t, rng, special);
      m.first = Memory::kMargin - low * size_of(t);
      memory.push_back(std::move(m));
    }
  }
  std::int64_t points() const { return spec.outer ? ints[0] : 1; }

  std::vector<Memory> run(KernelFn f, std::int64_t begin, std::int64_t end) const {
    std::vector<Memory> copy = memory;
    run_on(copy, f, begin, end);
    return copy;
  }
  /// Interprets if f is null.
  void run_on(std::vector<Memory>& m, KernelFn f, std::int64_t begin, std::int64_t end) const {
    std::vector<std::byte*> pointers;
    for (std::size_t o = 0; o < m.size(); ++o) {
      std::int32_t alias = spec.operands[o].may_alias;
      pointers.push_back(alias >= 0 ? pointers[alias] : m[o].at());
    }
    if (f)
      f(pointers.data(), ints.data(), begin, end);
    else
      interpret(spec, pointers.data(), ints.data(), begin, end);
  }
};

/// For tests: no disk cache, the widest vectors of this machine or narrower ones.
inline CpuJit& jit(int bits = 512) {
  static CpuJit wide(HostCpu::detect(512), ""), middle(HostCpu::detect(256), ""),
      narrow(HostCpu::detect(128), "");
  return bits == 512 ? wide : bits == 256 ? middle : narrow;
}

/// Compares all memory after a compiled and an interpreted run.
inline void expect_same(const Launch& launch, double factor = 4, int bits = 512, double scale = 0) {
  const KernelSpec& s = launch.spec;
  verify(s);
  KernelFn f = jit(bits).compile(s);
  std::vector<Memory> got = launch.run(f, 0, launch.points());
  std::vector<Memory> want = launch.run(nullptr, 0, launch.points());
  for (std::size_t o = 0; o < s.operands.size(); ++o) {
    DType t = s.operands[o].dtype;
    std::int64_t width = size_of(t), n = static_cast<std::int64_t>(got[o].bytes.size());
    std::int64_t margin = Memory::kMargin;
    ASSERT_EQ(0, std::memcmp(got[o].bytes.data(), want[o].bytes.data(), margin)) << print(s);
    ASSERT_EQ(
        0, std::memcmp(got[o].bytes.data() + n - margin, want[o].bytes.data() + n - margin, margin))
        << print(s);
    for (std::int64_t i = 0; i < (n - 2 * margin) / width; ++i) {
      const std::byte* a = got[o].bytes.data() + margin + i * width;
      const std::byte* b = want[o].bytes.data() + margin + i * width;
      if (std::memcmp(a, b, width) == 0) continue;
      bool same = is_float(t) && close(read_float(a, t), read_float(b, t), t, factor, scale);
      std::int64_t ia = 0, ib = 0;
      std::memcpy(&ia, a, width), std::memcpy(&ib, b, width);
      ASSERT_TRUE(same) << print(s) << "operand " << o << " element " << i << ": compiled "
                        << (is_float(t) ? read_float(a, t) : static_cast<double>(ia))
                        << ", interpreted "
                        << (is_float(t) ? read_float(b, t) : static_cast<double>(ib));
    }
  }
}

}  // namespace snug::test
