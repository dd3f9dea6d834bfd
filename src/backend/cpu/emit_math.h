#pragma once
#include <llvm/IR/IRBuilder.h>

#include <string>
#include <vector>

#include "backend/cpu/host_cpu.h"
#include "expr/scalar.h"
#include "kernel/math_constants.h"

namespace snug {

/// Emits math functions on a float or double, or on a vector of them. Each lane is computed by the
/// same operations whatever the number of lanes, so results do not depend on it. At most 4 ULP, or
/// 1 ULP if `strict`: then float32 goes through float64, and float64 through the C library's
/// extended format. Special functions are called in either case, on float64, and are as accurate as
/// base/special.h.
class MathEmitter {
 public:
  MathEmitter(llvm::IRBuilder<>& builder, const HostCpu& host, bool strict)
      : b(builder), host_(host), strict_(strict) {}

  llvm::Value* call(Prim p, llvm::Value* x, llvm::Value* y = nullptr);
  /// fmod(x, y) of C, exact.
  llvm::Value* fmod(llvm::Value* x, llvm::Value* y);

  // Small helpers, also used for other instructions.
  llvm::Value* number(llvm::Value* like, double v) const;
  llvm::Value* integer(llvm::Value* like, std::int64_t v) const;  // `like` holds integers
  llvm::Value* fma(llvm::Value* x, llvm::Value* y, llvm::Value* z);
  llvm::Value* unary(llvm::Intrinsic::ID id, llvm::Value* x);
  llvm::Value* copysign(llvm::Value* magnitude, llvm::Value* sign);
  llvm::Type* int_type(llvm::Type* like, unsigned bits) const;  // as many lanes
  llvm::Type* float_type(llvm::Type* like, bool is_double) const;
  llvm::AllocaInst* local(llvm::Type* type);  // in the entry block
  /// A small whole number (|n| < 2^31, 2^51) as int32 (from float) or int64 (from double).
  llvm::Value* near_integer(llvm::Value* n);

 private:
  using V = llvm::Value*;
  struct Split {
    V e, m;  // x = m * 2^e, m in [sqrt(1/2), sqrt(2))
  };
  struct Angle {
    V quadrant, r;  // |x| = quadrant * pi/2 + r
  };

  bool single(V x) const { return x->getType()->getScalarType()->isFloatTy(); }
  V pick(V x, double f32, double f64) const { return number(x, single(x) ? f32 : f64); }
  V pick(V x, const math::Pair& p) const { return pick(x, p.f32, p.f64); }
  V poly(V x, const math::Polynomial& p);
  V clamp_above(V x, V limit);  // NaN stays
  V clamp_below(V x, V limit);
  V power_of_two(V n_as_int);  // 2^n for normal results
  V scale(V y, V n);           // y * 2^n for any n, rounded once where the CPU can
  /// Vectors for which there is an instruction of AVX-512.
  bool has_avx512(V x) const;
  /// The instruction of this name for vectors like `like`, on all lanes, rounding as usual; for
  /// wide values one per register.
  V avx512(const char* name, V like, std::vector<V> args);
  std::vector<V> half_of(const std::vector<V>& values, bool high);  // of the vectors among them
  V join(V low, V high);
  /// Of each lane, the entry that the last three bits of its index name.
  V entry_of(const float (&table)[8], V index);
  V bits(V x);
  V from_bits(V i, V like);

  V exp_tail(V r);
  V exp_within(V x);
  V erf_single(V x);
  V expm1_poly(V r);
  V reduce_exp(V x, V n);
  V exp(V x);
  V exp2(V x);
  V expm1_within(V x);
  V expm1(V x);
  Split split_avx512(V x);
  Split split(V x);
  V log_reduced(V f, V e);  // e * ln 2 + log(1 + f)
  V log_special(V x, V result);
  V log(Prim p, V x);
  V log1p_finite(V x);
  V log1p(V x);
  V tanh(V x);
  V sigmoid(V x);
  V softplus(V x);
  V abs_of(V x);  // |x|, the same value for x and -x
  V erfcx_near(V x);
  V erfc_positive(V x);
  V erf(V x);
  V erfc(V x);
  V erfcx(V x);
  Angle reduce_angle(V x);
  V sine_or_cosine(Angle a, bool cosine);
  V trigonometric(Prim p, V x);
  V pow_single(V x, V y);

  V library(Prim p, V x, V y);
  V vector_library(const std::string& name, unsigned width, V x, V y);
  /// Per lane in C: replaces the lanes of `fast` where `slow` holds; a jump around it if none.
  V per_lane(const std::string& function, V slow, V fast, V x, V y);

  llvm::IRBuilder<>& b;
  const HostCpu& host_;
  bool strict_;
};

}  // namespace snug
