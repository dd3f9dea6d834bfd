#pragma once
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "expr/attrs.h"
#include "expr/expr.h"
#include "expr/scalar.h"
#include "expr/sizes.h"
#include "expr/type.h"

namespace snug {

enum Trait : std::uint32_t {
  kElementwise = 1u << 0,  // has a scalar body over the broadcast shape of its operands
  kCommutative = 1u << 1,
  kReduction = 1u << 2,      // attrs: axes (ints, sorted), reduce (ReduceOp as integer); drops axes
  kView = 1u << 3,           // has a view rule
  kGenerator = 1u << 4,      // elementwise over an output shape that comes from size inputs
  kRandom = 1u << 5,         // never folded, never reordered by algebra
  kMayFail = 1u << 6,        // can fail while running: stays before the commit point
  kInPlace = 1u << 7,        // output 0 starts as a copy of input 0: may take over its storage
  kInner = 1u << 8,          // has an inner graph (attr "body")
  kLeaf = 1u << 9,           // input, shared variable or constant
  kBarrier = 1u << 10,       // identity that no rewrite may remove (gradient stops and the like)
  kIndexView = 1u << 11,     // a view that renames axes only: has an axis rule
  kPairView = 1u << 12,      // complex numbers as pairs of reals, or back: no node of a graph
  kTakesComplex = 1u << 13,  // takes complex operands as they are
};

/// What a shape rule sees and says. Works on the sizes of a graph; while an expression is built
/// the unknown sizes are fresh symbols, so one rule serves both.
class Infer {
 public:
  Infer(const OpDef& op, const Attrs& attrs, SizeTable& sizes)
      : op(op), attrs(attrs), sizes(sizes) {}
  const OpDef& op;
  const Attrs& attrs;
  SizeTable& sizes;

  std::size_t count() const { return inputs.size(); }
  const Type& in(std::size_t i) const { return *inputs[i]; }
  /// The elements of a small integer input (0-d or 1-d) as size expressions; empty if not known
  /// before running. Check `in(i)` for an empty vector.
  std::span<const SizeId> elements(std::size_t i) const { return input_elements[i]; }
  /// As `elements`, but a value only known while running becomes a stage: a fresh size symbol.
  SizeId size_element(std::size_t i, std::size_t element = 0);

  void out(Type type, std::vector<SizeId> elements = {});
  /// A size only known while running, at most `high`.
  SizeId runtime_size(SizeId high);

  /// Errors; all name the op. `require_*` fail now if both sides are known, else at the call.
  [[noreturn]] void error(Fault fault, std::string message, std::string hint = {}) const;
  void require_equal(SizeId a, SizeId b, std::string message, std::string hint = {});
  void require_at_most(SizeId a, SizeId b, std::string message, std::string hint = {},
                       Fault fault = Fault::Shape);
  void require_ndim(std::size_t i, int ndim) const;

  struct Requirement {
    SizeId a, b;
    bool equal;                 // else: a <= b
    std::string message, hint;  // shapes of the inputs are printed behind the message
    std::vector<SizeDims> shapes;
    OriginId origin = 0;
    Fault fault = Fault::Shape;
  };
  struct Result {
    Type type;
    std::vector<SizeId> elements;
  };

  // Filled by the caller.
  std::vector<const Type*> inputs;
  std::vector<std::span<const SizeId>> input_elements;
  std::function<SizeId(std::size_t input, std::size_t element)> stage_symbol;
  std::vector<SizeId> known_runtime;  // symbols that runtime_size hands out before fresh ones
  /// The inner graph's result types in terms of the outer sizes (ops with kInner, in a graph only).
  std::vector<Type> inner_results;
  // Filled by the rule.
  std::vector<Result> results;
  std::vector<Requirement> requirements;
};

/// Checks the number of inputs, runs the op's rule, and adds the elements of small integer results
/// of elementwise ops, so that `(i + 1) * n` is a size expression. Errors get the current origin.
void run_infer(Infer& infer);

/// Where the elements of a value are inside a buffer, in elements.
struct Layout {
  SizeId offset = 0;
  SizeDims strides;
  bool operator==(const Layout&) const = default;
};
Layout contiguous_layout(SizeTable& sizes, const SizeDims& dims);
bool is_contiguous(SizeTable& sizes, const SizeDims& dims, const Layout& layout);

struct ViewArgs {
  const Attrs& attrs;
  SizeTable& sizes;
  const Type& in;
  const Type& out;
  const Layout& layout;                               // of input 0
  std::span<const std::span<const SizeId>> elements;  // per input
};

/// What the axis rule of an index view sees.
struct AxisArgs {
  const Attrs& attrs;
  const Type& in;
  const Type& out;
};
/// What an axis rule says of an axis that repeats the same elements.
inline constexpr int kRepeated = -1;

struct GradArgs {
  const Attrs& attrs;
  std::span<const Expr> x;   // inputs
  std::span<const Expr> y;   // outputs
  std::span<const Expr> dy;  // gradients of the outputs; null where the cost does not depend on it
  std::vector<bool> wanted = {};  // per input: whether its gradient is used
  /// Gradients of an inner function; autodiff provides it.
  std::function<std::vector<Expr>(const std::vector<Expr>& results,
                                  const std::vector<Expr>& dresults, const std::vector<Expr>& wrt)>
      inner_grad;
};

/// An op applied to operands of which at least one is complex.
struct ComplexArgs {
  const OpDef& op;
  const Attrs& attrs;
  std::span<const Expr> x;
};

/// A tensor of the reference interpreter: floats in double, the others exactly in int64.
struct RefTensor {
  DType dtype = DType::F64;
  Dims shape;
  std::vector<double> f;
  std::vector<std::int64_t> i;
  static RefTensor zeros(DType dtype, const Dims& shape);
  static RefTensor from(const Array& array);
  Array to_array() const;  // rounds to dtype
  std::int64_t size() const { return product(shape); }
  bool floating() const { return is_float(dtype); }
  Number at(std::int64_t k) const { return floating() ? Number{f[k], 0} : Number{0, i[k]}; }
  void set(std::int64_t k, Number n) { floating() ? void(f[k] = n.f) : void(i[k] = n.i); }
};
struct ReferenceArgs {
  const Attrs& attrs;
  std::span<const RefTensor* const> x;
  std::span<RefTensor> y;  // shape and dtype are set (sizes at their bound); values are 0
  /// Runs the inner function of a loop or branch.
  std::function<std::vector<RefTensor>(const std::vector<RefTensor>&)> inner;
};

/// Inputs for the conformance test of an op.
struct Samples {
  double low = -2, high = 2;  // range of float operands
  std::int64_t int_low = -5, int_high = 5;
  bool integers = true;         // also tested on integer dtypes
  bool differentiable = true;   // finite differences make sense on this range
  const char* numpy = nullptr;  // NumPy expression over a, b, c; null: tested by hand
};

/// How an op works on a slice of a batch. A value has the rows of the batch on one axis, or it is
/// whole: the same for every row.
constexpr int kWhole = -1;
struct BatchArgs {
  const Attrs& attrs;
  std::span<const Type* const> in;
  const Type& out;
  std::span<const int> axis;                          // per input: of its rows, or kWhole
  std::span<const bool> row_numbers;                  // per input: row r holds r
  std::span<const std::span<const SizeId>> elements;  // per input
  const SizeTable& sizes;
  SizeId rows;  // the size of the batch
  /// Of the axis that inputs have their rows on: `rows`, or a multiple of it where each row has
  /// several elements of the axis, one after another.
  SizeId size;
};
struct BatchRule {
  enum class Kind : std::uint8_t {
    No,      // a row of the result needs other rows, too
    Rows,    // row r of the result needs row r of the inputs
    Summed,  // the results of the slices are added up
    Joined,  // runs once, on the rows of all slices
  };
  Kind kind = Kind::No;
  int axis = kWhole;     // of the result's rows
  std::vector<int> cut;  // per data input: the axis it is cut on, or kWhole
  int local = -1;        // this input holds row numbers and counts from the first row of the slice
  int rows_at = -1;      // the element of the shape input that is the number of rows
  int counter = -1;      // this input is the number of the result's first element
  bool row_numbers = false;  // row r of the result holds r
  /// Of the axis of the result's rows; kNoSize: as that of the inputs (BatchArgs::size).
  SizeId size = SizeTable::kNoSize;
  /// Why there is none: "it runs along the batch".
  std::string_view why = {};
};

/// One row is everything the system knows about an op.
struct OpDef {
  std::string_view name, doc;
  int arity = 1;  // -1: any number
  int outputs = 1;
  std::uint32_t traits = 0;
  int size_inputs_from = -1;  // inputs from here on only decide sizes and offsets
  void (*infer)(Infer&) = nullptr;
  std::vector<Expr> (*grad)(const GradArgs&) = nullptr;  // one per input, null = none
  std::string_view no_grad = {};                         // otherwise the reason, shown to the user
  Scalar (*scalar)(ScalarBuilder&, const Attrs&) = nullptr;  // elementwise and generators
  bool (*view)(const ViewArgs&, Layout& out) = nullptr;      // false: needs a copy
  /// Index views: the axis of input 0 that an axis of the output runs along, or kRepeated. Axes of
  /// input 0 that none runs along have size 1.
  int (*source_axis)(const AxisArgs&, std::size_t axis) = nullptr;
  void (*reference)(const ReferenceArgs&) = nullptr;  // all but elementwise and reductions
  /// Where rounding may change results beyond comparing, as the signs of eigenvectors: how far `y`
  /// is from solving the problem `x`, relative to the sizes in it. Null: compared one by one.
  double (*residual)(const ReferenceArgs&) = nullptr;
  BatchRule (*batch)(const BatchArgs&) = nullptr;  // all but elementwise and reductions
  /// What the op is on complex operands, in terms of real ones; null: it has no meaning there. A
  /// graph has no complex values: there they are floats with a last axis of size 2.
  std::vector<Expr> (*on_complex)(const ComplexArgs&) = nullptr;
  Samples samples = {};
};
inline bool has(const OpDef& op, std::uint32_t trait) { return (op.traits & trait) != 0; }
/// How many of `count` inputs are data; the rest only decide sizes and offsets.
inline std::size_t data_inputs(const OpDef& op, std::size_t count) {
  return op.size_inputs_from < 0 ? count : static_cast<std::size_t>(op.size_inputs_from);
}

/// The table, sorted by name (ops/table.cpp).
std::span<const OpDef* const> all_ops();
/// By name; an error with the nearest known name otherwise.
const OpDef& find_op(std::string_view name);

}  // namespace snug
