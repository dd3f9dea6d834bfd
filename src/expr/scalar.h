#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"

namespace snug {

/// The scalar instructions that loop bodies are made of. Each device language, the reference
/// interpreter and constant folding know exactly these. Semantics are NumPy's: integer division by
/// zero gives 0, comparisons with NaN are false, min and max pass NaN on.
enum class Prim : std::uint8_t {
  // leaves
  Const,      // number (floats) or integer (others)
  Arg,        // integer = number of the operand of the op; only in op rows
  Index,      // integer = axis of the op's output; int64
  FlatIndex,  // element number of the op's output in C order; int64
  // arithmetic; operands and result have one dtype
  Add,
  Sub,
  Mul,
  Div,
  FloorDiv,
  Mod,
  Pow,
  Min,
  Max,
  Fma,  // Fma = a * b + c, rounded once
  Neg,
  Abs,
  Sign,
  Sqr,
  Sqrt,
  Floor,
  Ceil,
  Trunc,
  Round,  // Round: half to even
  // floats only
  Exp,
  Expm1,
  Exp2,
  Log,
  Log1p,
  Log2,
  Log10,
  Tanh,
  Sigmoid,
  Softplus,
  Erf,
  Erfc,
  Sin,
  Cos,
  Tan,
  Asin,
  Acos,
  Atan,
  Atan2,
  Sinh,
  Cosh,
  Asinh,
  Acosh,
  Atanh,
  Erfcx,  // exp(x * x) * erfc(x)
  // floats only, by the functions of base/special.h
  Gamma,
  Gammaln,
  Digamma,
  Trigamma,
  Erfinv,
  Erfcinv,
  J0,
  J1,
  I0,
  I1,
  Polygamma,  // (n, x): derivative n of digamma
  Gammainc,   // (k, x), regularised
  Gammaincc,
  Jv,  // (order, x)
  Iv,
  Betaln,  // (a, b)
  IsNan,
  IsInf,
  // comparisons: operands of one dtype, result bool
  Lt,
  Le,
  Gt,
  Ge,
  Eq,
  Ne,
  // bits; on bool they are logic
  And,
  Or,
  Xor,
  Not,
  Shl,
  Shr,
  Select,  // a (bool) ? b : c
  Cast,    // to dtype, as NumPy's astype
  // Philox 4x32-10: word `integer` (0..3) for key a and counter b (both uint64); uint32
  Philox,
  // in kernels only
  Load,    // from operand `integer`
  Store,   // value a to operand `integer`
  Reduce,  // value a over the inner axes; integer = ReduceOp; usable in later phases only
};

enum class ReduceOp : std::uint8_t { Sum, Prod, Max, Min, Any, All, ArgMax, ArgMin };

struct Instr {
  Prim prim = Prim::Const;
  DType dtype = DType::F32;           // of the result; Store: of the operand
  std::uint32_t a = 0, b = 0, c = 0;  // earlier instructions
  std::int64_t integer = 0;
  double number = 0;
  bool operator==(const Instr&) const = default;
};

constexpr int operand_count(Prim p) {
  if (p <= Prim::FlatIndex || p == Prim::Load) return 0;
  if (p == Prim::Fma || p == Prim::Select) return 3;
  if ((p >= Prim::Add && p <= Prim::Max) || (p >= Prim::Lt && p <= Prim::Xor) || p == Prim::Shl ||
      p == Prim::Shr || p == Prim::Atan2 || p == Prim::Philox ||
      (p >= Prim::Polygamma && p <= Prim::Betaln))
    return 2;
  return 1;
}
/// Functions that cost about as much as exp, or more.
constexpr bool is_function(Prim p) {
  return (p >= Prim::Exp && p <= Prim::Betaln) || p == Prim::Pow;
}
/// Functions that no device language has: the CPU calls base/special.h for them, on float64.
constexpr bool is_special(Prim p) { return p >= Prim::Gamma && p <= Prim::Betaln; }
const char* name_of(Prim p);      // "exp"
const char* name_of(ReduceOp r);  // "sum"

/// Builds the loop body of one elementwise op. Values are instruction numbers wrapped in Scalar.
struct ScalarBuilder;
struct Scalar {
  ScalarBuilder* builder = nullptr;
  std::uint32_t id = 0;
  DType dtype() const;
};

struct ScalarBuilder {
  std::vector<Instr> body;
  std::vector<DType> arg_types;  // dtypes of the op's operands
  DType result = DType::F32;     // dtype of the op's output

  /// Operand i as it is, and converted to `dtype`.
  Scalar arg(int i);
  Scalar arg(int i, DType dtype);
  Scalar constant(double value, DType dtype);
  Scalar integer(std::int64_t value, DType dtype);
  Scalar index(int axis);
  Scalar flat_index();
  Scalar cast(Scalar x, DType dtype);
  Scalar call(Prim p, Scalar a);
  Scalar call(Prim p, Scalar a, Scalar b);
  Scalar select(Scalar condition, Scalar then, Scalar otherwise);
  Scalar fma(Scalar a, Scalar b, Scalar c);
  Scalar philox(int word, Scalar key, Scalar counter);
};
Scalar operator+(Scalar a, Scalar b);
Scalar operator-(Scalar a, Scalar b);
Scalar operator*(Scalar a, Scalar b);
Scalar operator/(Scalar a, Scalar b);
Scalar operator-(Scalar a);

/// One instruction on numbers, exact for integers, in double for floats (float32 results of
/// conversions are rounded to their dtype). The reference, folding and tests use it.
struct Number {
  double f = 0;
  std::int64_t i = 0;  // uint64 values are held in their two's complement bits
};
Number evaluate(const Instr& instr, DType operand_dtype, Number a, Number b, Number c);

}  // namespace snug
