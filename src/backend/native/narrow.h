#pragma once
#include <cstdint>

#include "backend/native/gemm.h"

namespace snug::native {

// Products of float32 and float64 that have few rows or columns, or a small second operand:
// libraries spend more on packing their operands than these are worth. Operands are read where they
// are. Needs AVX2.

/// True if it is of this kind, and the rows of b and c are packed.
bool narrow_takes(const Gemm& g);

/// Sums of many terms are cut into parts, a number that sizes decide. They are added up here, in
/// their order; without workspace one thread adds each as it comes, with the same bits.
std::uint64_t narrow_workspace(const Gemm& g);
void narrow_gemm(const Gemm& g, int threads, bool accumulate, std::byte* workspace);

}  // namespace snug::native
