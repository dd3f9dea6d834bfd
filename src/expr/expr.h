#pragma once
#include <complex>
#include <functional>
#include <memory>
#include <source_location>
#include <string>
#include <vector>

#include "base/array.h"
#include "base/device_memory.h"
#include "base/origin.h"
#include "base/ref.h"
#include "expr/attrs.h"
#include "expr/type.h"
#include "expr/value_lock.h"
#include "target/settings.h"

namespace snug {

struct OpDef;
class Variable;
class SharedVariable;

/// Theano's floatX: the dtype of float constructors and of divided integers. At start these are as
/// settings() has them.
DType default_float();
void set_default_float(DType dtype);

CastPolicy cast_policy();
void set_cast_policy(CastPolicy policy);
IntDivision int_division();
void set_int_division(IntDivision division);

/// A handle on an expression: a node of a lasting graph that the user holds. Copying it shares the
/// node; two handles are equal if they hold the same node. An empty one, as Expr() and one that was
/// moved from, can be asked by `if` and assigned to; all else is a Type error.
class Expr {
 public:
  Expr() = default;
  explicit Expr(Ref<Variable> node) : node_(std::move(node)) {}
  // Numbers become constants with Theano's autocast: 1 -> int8, 1000 -> int16, 1.5 -> float32,
  // 1j -> complex64 (with floatX float64 complex128 unless float32 holds the parts).
  Expr(int value);
  Expr(std::int64_t value);
  Expr(float value);
  Expr(double value);
  Expr(std::complex<double> value);
  Expr(const Array& value);

  explicit operator bool() const { return static_cast<bool>(node_); }
  Variable* get() const { return node_.get(); }
  Variable* operator->() const {
    if (!node_) fail_empty();
    return node_.get();
  }
  const Ref<Variable>& ref() const { return node_; }
  friend bool same(const Expr& a, const Expr& b) { return a.get() == b.get(); }

  const TensorType& type() const;
  DType dtype() const { return type().dtype; }
  int ndim() const { return type().ndim(); }
  const std::string& name() const;
  Expr named(std::string name) const;  // sets the name, returns the same expression

 private:
  [[noreturn]] static void fail_empty();
  Ref<Variable> node_;
};

/// One application of an op: what its outputs have in common.
class Apply : public RefCounted {
 public:
  const OpDef* op = nullptr;
  std::vector<Expr> inputs;
  Attrs attrs;
  std::vector<TensorType> types;  // of the outputs
  OriginId origin = 0;
  /// Output i as an expression; the same object as long as somebody holds it.
  Expr output(std::size_t i);
  ~Apply() override;

 private:
  friend class Variable;
  std::vector<Variable*> outputs_;  // not owned; null when nobody holds that output
};

/// One value: an input, a constant, a shared variable, or an output of an Apply.
class Variable : public RefCounted {
 public:
  Variable(TensorType type, std::string name);
  ~Variable() override;

  TensorType type;
  std::string name;
  OriginId origin = 0;
  Ref<Apply> owner;         // null for inputs, constants and shared variables
  std::uint32_t index = 0;  // which output of owner
  /// What is known of the elements of a small integer value while building: -1 where unknown.
  /// Empty if nothing is known.
  std::vector<std::int64_t> elements;
  std::vector<bool> elements_known;
};

class Constant : public Variable {
 public:
  explicit Constant(Array value, std::string name = {});
  const std::shared_ptr<const Array> value;  // contiguous, never written
};

/// How to make the value of a shared variable that has not been needed yet.
struct Recipe {
  DType dtype = DType::F32;
  Dims shape;
  enum class Kind : std::uint8_t { Zeros, Constant, Uniform, Normal } kind = Kind::Zeros;
  double a = 0, b = 1;  // Constant: a. Uniform: low, high. Normal: mean, deviation.
  std::uint64_t seed = 0;
  Array make() const;
};

/// A value that lives between calls. Reading and writing take its lock; compiled functions take
/// the locks of all shared variables they reach, in order of id.
class SharedVariable : public Variable {
  struct Cell;
  std::shared_ptr<Cell> cell_;  // before what refers to it

 public:
  SharedVariable(Array value, std::string name, std::uint8_t broadcast = 0);
  SharedVariable(Recipe recipe, std::string name, std::uint8_t broadcast = 0);
  /// Another variable of the same value: what is written to one is read from both.
  explicit SharedVariable(Ref<SharedVariable> of);

  /// borrow: shares storage; updates then go to new storage. In a callback it is the value before
  /// the updates of the call.
  Array get_value(bool borrow = false);
  /// Converts nothing; the shape may change. A Value error in a callback of a call that uses it.
  void set_value(const Array& value);
  Dims shape() const;  // without materialising
  /// After a device has failed: the copy that was kept last (FunctionOptions::snapshot) is the
  /// value again. A Value error if there is none.
  void restore();
  bool materialised() const { return recipe() == nullptr; }
  const Recipe* recipe() const;  // null once the value was needed

  const std::uint64_t id;  // of the value
  const Ref<SharedVariable> alias_of = {};
  /// What a call makes of the variable unless its updates say otherwise: an expression, or a rule
  /// that makes one (a rule does not hold the variable it is of, so nothing lives in a circle).
  Expr default_update;
  std::function<Expr(const Expr& self)> default_update_rule;
  Expr find_default_update();  // null if there is none

  // For the executor, which holds `mutex`. The value is in one place: on the host, in memory of a
  // device, or nowhere yet (a recipe).
  ValueLock& mutex;
  void make_locked();     // the value of a recipe, on the host
  Array& value_locked();  // brings it to the host
  /// Null if it is not on the host.
  const Array* value_if_materialised() const;
  /// Null if it is not on a device.
  const DeviceArray* value_on_device() const;
  /// Brings it to the device of that name, where `allocate` gives memory.
  DeviceArray& value_on(
      const std::string& device,
      const std::function<std::shared_ptr<DeviceMemory>(std::uint64_t bytes)>& allocate);
  void set_value_on_device(DeviceArray value);
  Dims shape_locked() const;
  Array copy_locked() const;  // wherever it is, but for a recipe
  /// Memory for a copy on the host, and the copy of what is on a device now.
  void reserve_copy();
  void keep_copy();
  /// It has no value any more, until it is given one: reading it is a Device error with that text.
  void lose(std::string why);
  void check_fits(const Array& value) const;
};

/// An inner function over expressions: `results` in terms of `params`. Everything else it reaches
/// that is no constant must be a param.
struct Lambda {
  std::vector<Expr> params, results;
};

/// Applies an op: infers types, stamps the origin. Errors name the op and the user's line.
std::vector<Expr> apply_all(const OpDef& op, std::vector<Expr> inputs, Attrs attrs = {});
/// Called with the outputs of every op applied from now on; null: nobody is. For a binding that
/// computes test values while an expression is built.
void set_apply_hook(void (*hook)(const std::vector<Expr>& outputs));
Expr apply(const OpDef& op, std::vector<Expr> inputs, Attrs attrs = {});  // the only output

Expr input(TensorType type, std::string name = {});
Expr constant(Array value, std::string name = {});
/// The constant's value, or null.
const Array* constant_value(const Expr& e);
SharedVariable* as_shared(const Expr& e);
/// "x", "W", or the op with its inputs' names in short; for messages.
std::string label(const Expr& e);

/// Every expression that `roots` reach, inputs before users; `roots` in their order. Stops at
/// `blockers` (which are included). No recursion: graphs may be 100,000 deep.
std::vector<Expr> topological(std::span<const Expr> roots, std::span<const Expr> blockers = {});

/// An argument of a public function, with the place of the call in the user's C++ code.
struct Arg {
  Expr expr;
  std::source_location where;
  template <class T>
  requires std::is_convertible_v<T, Expr> Arg(
      const T& value, std::source_location w = std::source_location::current())
      : expr(value), where(w) {}
};

}  // namespace snug
