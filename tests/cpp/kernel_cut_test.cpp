// Where kernels are cut among threads, and that their results do not depend on it.
#include "kernel/kernel_cut.h"

#include <gtest/gtest.h>

#include "cpu_kernels.h"

namespace snug::test {
namespace {

constexpr int kThreads = 2;

/// y (rows, columns) = x turned + 1.
SpecBuilder turned_sum() {
  SpecBuilder b;
  b.spec.extents = {kRun, kRun};
  b.spec.outer = 2;
  const int x = b.operand(DType::F32, false, {1, KernelSpec::Operand::kRuntimeStride});
  const int y = b.operand(DType::F32, true, {KernelSpec::Operand::kRuntimeStride, 1});
  b.store(y, b.op(Prim::Exp, b.load(x)));
  b.phase(false);
  return b;
}

TEST(KernelCut, TakesTheFirstAxisIfItIsLong) {
  const std::int64_t extents[] = {100000, 10};
  const KernelCut cut = choose_cut(turned_sum().spec, extents, kThreads);
  EXPECT_EQ(cut.axis, 0U);
  EXPECT_GT(cut.grain, 1);
}

TEST(KernelCut, TakesALongerAxisInWholeVectors) {
  const std::int64_t extents[] = {10, 100000};
  const KernelCut cut = choose_cut(turned_sum().spec, extents, kThreads);
  EXPECT_EQ(cut.axis, 1U);
  EXPECT_EQ(cut.grain % 32, 0);
}

TEST(KernelCut, LeavesAxesWhosePlaceOrLengthTheCodeKnows) {
  const std::int64_t extents[] = {10, 100000};
  SpecBuilder with_index = turned_sum();
  with_index.spec.body[0] = {Prim::Index, DType::I64, 0, 0, 0, 1};
  EXPECT_EQ(choose_cut(with_index.spec, extents, kThreads).axis, 0U);
  SpecBuilder known = turned_sum();
  known.spec.extents[1] = 100000;
  EXPECT_EQ(choose_cut(known.spec, extents, kThreads).axis, 0U);
  SpecBuilder reduction = turned_sum();
  reduction.spec.outer = 1;
  EXPECT_EQ(choose_cut(reduction.spec, extents, kThreads).axis, 0U);
}

}  // namespace
}  // namespace snug::test
