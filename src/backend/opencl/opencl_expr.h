#pragma once
#include <string>

#include "backend/opencl/opencl_helpers.h"
#include "kernel/kernel_spec.h"

namespace snug {

/// The type of a value in a register: "float" also for float16 and bfloat16.
std::string opencl_type(DType t);
/// The unsigned type that integer arithmetic wraps in; narrower ones would be promoted to int.
const char* opencl_wide_type(DType t);
/// Whether there is text for an instruction on operands of a dtype.
bool opencl_has(Prim p, DType t);
std::string opencl_literal(DType t, Number value);

/// Instructions as C expressions over variables v0, v1, ... Nothing here traps or is undefined.
class OpenClExpr {
 public:
  /// With `pairs` a float64 is a float2, the sum of two numbers. There are sums, products and
  /// conversions of them, no more.
  OpenClExpr(const KernelSpec& spec, bool pairs) : spec_(spec), pairs_(pairs) {}
  bool is_pair(DType t) const { return pairs_ && t == DType::F64; }
  /// Of a value in a register.
  std::string type(DType t) const { return is_pair(t) ? "float2" : opencl_type(t); }
  /// Any instruction but Index, FlatIndex, Load, Store and Reduce.
  std::string expr(const Instr& in);
  /// An arithmetic instruction on variables of one dtype.
  std::string arithmetic(Prim p, DType t, const std::string& a, const std::string& b,
                         const std::string& c);
  /// Name of a function, which is from now on one of `helpers`.
  std::string helper(std::string_view name, DType t = DType::F32) {
    return add_helper(helpers_, name, t);
  }
  /// The functions asked for.
  const OpenClHelpers& helpers() const { return helpers_; }

 private:
  std::string constant(const Instr& in) const;
  std::string pair_arithmetic(Prim p, const std::string& a, const std::string& b);
  std::string float_arithmetic(Prim p, DType t, const std::string& a, const std::string& b,
                               const std::string& c);
  std::string int_arithmetic(Prim p, DType t, const std::string& a, const std::string& b);
  std::string bool_arithmetic(Prim p, const std::string& a, const std::string& b);
  std::string shift(const Instr& in, const std::string& a, const std::string& b) const;
  std::string cast(DType from, DType to, const std::string& a);
  std::string function(Prim p, DType t, const std::string& a, const std::string& b);

  const KernelSpec& spec_;
  bool pairs_;
  OpenClHelpers helpers_;
};

}  // namespace snug
