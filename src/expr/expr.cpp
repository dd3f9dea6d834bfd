#include "expr/expr.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <mutex>
#include <optional>
#include <shared_mutex>
#include <unordered_map>
#include <unordered_set>

#include "base/fork.h"
#include "base/philox.h"
#include "base/pool.h"
#include "base/threads.h"
#include "base/truth.h"
#include "expr/exports.h"
#include "expr/number.h"
#include "expr/op_def.h"
#include "target/memory_budget.h"

namespace snug {
namespace {

std::atomic<DType>& float_x() {
  static std::atomic<DType> x{settings().float_x};
  return x;
}
std::atomic<CastPolicy>& casts() {
  static std::atomic<CastPolicy> policy{settings().cast_policy};
  return policy;
}
std::atomic<IntDivision>& divisions() {
  static std::atomic<IntDivision> division{settings().int_division};
  return division;
}

/// Releases chains of any length without recursion: while one Apply dies on this thread, those it
/// was the last to hold wait in a queue.
void bury(Ref<Apply> apply) {
  thread_local std::vector<Ref<Apply>> queue;
  thread_local bool draining = false;
  if (!apply) return;
  queue.push_back(std::move(apply));
  if (draining) return;
  draining = true;
  while (!queue.empty()) {
    Ref<Apply> next = std::move(queue.back());
    queue.pop_back();
  }
  draining = false;
}

/// True if the value is worth knowing while building: it may be a size.
bool may_be_size(const TensorType& type) {
  return is_discrete(type.dtype) &&
         (type.ndim() == 0 || (type.ndim() == 1 && type.shape[0] >= 0 && type.shape[0] <= 64));
}

Type scratch_type(SizeTable& sizes, const TensorType& t) {
  Type type;
  type.dtype = t.dtype;
  type.broadcast = t.broadcast;
  for (std::int64_t d : t.shape) type.dims.push_back(d >= 0 ? sizes.constant(d) : sizes.symbol({}));
  return type;
}

TensorType settled(const SizeTable& sizes, const Type& t) {
  TensorType type;
  type.dtype = t.dtype;
  type.broadcast = t.broadcast;
  for (SizeId d : t.dims) type.shape.push_back(sizes.known(d).value_or(-1));
  return type;
}

template <class T>
Array scalar_array(DType dtype, T value) {
  Array a = Array::empty(dtype, {});
  if constexpr (std::is_floating_point_v<T>)
    a.set_double(0, value);
  else
    a.set_int(0, value);
  return a;
}

Array autocast(std::int64_t v) {
  if (casts() == CastPolicy::NumpyFloatX) return scalar_array(DType::I64, v);
  DType t = v >= -128 && v <= 127              ? DType::I8
            : v >= -32768 && v <= 32767        ? DType::I16
            : v >= INT32_MIN && v <= INT32_MAX ? DType::I32
                                               : DType::I64;
  return scalar_array(t, v);
}

Array autocast(double v) {
  DType x = default_float();
  if (x != DType::F64 || casts() == CastPolicy::NumpyFloatX) return scalar_array(x, v);
  bool exact = std::isnan(v) || static_cast<double>(static_cast<float>(v)) == v;
  return scalar_array(exact ? DType::F32 : DType::F64, v);
}

Array autocast(std::complex<double> v) {
  const DType parts = upcast(autocast(v.real()).dtype, autocast(v.imag()).dtype);
  Array a = Array::empty(complex_of(parts), {});
  a.set_complex(0, v);
  return a;
}

std::atomic<std::uint64_t> next_shared_id{1};
std::atomic<void (*)(const std::vector<Expr>&)> apply_hook{nullptr};

}  // namespace

DType default_float() { return float_x(); }
void set_default_float(DType dtype) {
  if (!is_float(dtype))
    fail(Fault::Value, fmt::format("floatX: {} is no float type", name_of(dtype)));
  float_x() = dtype;
}

CastPolicy cast_policy() { return casts(); }
void set_cast_policy(CastPolicy policy) { casts() = policy; }
IntDivision int_division() { return divisions(); }
void set_int_division(IntDivision division) { divisions() = division; }

std::string describe(const TensorType& type) {
  return fmt::format("{} {}", name_of(type.dtype), describe_shape(type.shape));
}

Expr::Expr(int value) : Expr(constant(autocast(static_cast<std::int64_t>(value)))) {}
Expr::Expr(std::int64_t value) : Expr(constant(autocast(value))) {}
Expr::Expr(float value) : Expr(constant(scalar_array(DType::F32, static_cast<double>(value)))) {}
Expr::Expr(double value) : Expr(number_constant(autocast(value), value)) {}
Expr::Expr(std::complex<double> value) : Expr(number_constant(autocast(value), value)) {}
Expr::Expr(const Array& value) : Expr(constant(value)) {}

const TensorType& Expr::type() const {
  if (!node_) fail_empty();
  return node_->type;
}
const std::string& Expr::name() const { return (*this)->name; }
Expr Expr::named(std::string name) const {
  (*this)->name = std::move(name);
  return *this;
}
void Expr::fail_empty() {
  fail(Fault::Type, "an empty expression was used",
       "it was never set, or moved from: ask `if (x)` first");
}

Apply::~Apply() = default;

Expr Apply::output(std::size_t i) {
  if (outputs_.size() < types.size()) outputs_.resize(types.size(), nullptr);
  if (outputs_[i]) return Expr(Ref<Variable>(outputs_[i]));
  Ref<Variable> v(new Variable(types[i], {}));
  v->owner = Ref<Apply>(this);
  v->index = static_cast<std::uint32_t>(i);
  v->origin = origin;
  outputs_[i] = v.get();
  return Expr(v);
}

Variable::Variable(TensorType t, std::string n) : type(t), name(std::move(n)) {
  if (is_complex(t.dtype) && t.ndim() > 7)  // their pairs have one more
    fail(Fault::Type, fmt::format("a complex tensor has at most 7 dimensions, not {}", t.ndim()));
}

Variable::~Variable() {
  if (!owner) return;
  if (index < owner->outputs_.size()) owner->outputs_[index] = nullptr;
  bury(std::move(owner));
}

Constant::Constant(Array v, std::string name)
    : Variable({v.dtype, v.checked("constant").shape, 0}, std::move(name)),
      value(std::make_shared<Array>(v.contiguous_copy())) {
  for (std::size_t i = 0; i < type.shape.size(); ++i)
    if (type.shape[i] == 1) type.broadcast |= 1u << i;
  if (may_be_size(type))
    for (std::int64_t k = 0; k < value->size(); ++k) {
      elements.push_back(value->at_int(k));
      elements_known.push_back(true);
    }
}

namespace {

/// Element k of a recipe.
double element_of(const Recipe& r, std::int64_t k) {
  if (r.kind == Recipe::Kind::Constant) return r.a;
  const auto w = philox(r.seed, static_cast<std::uint64_t>(k));
  const double u1 = (w[0] + (w[1] >> 11) * 0x1p-21 + 0.5 * 0x1p-21) * 0x1p-32;
  const double u2 = (w[2] + 0.5) * 0x1p-32;
  return r.kind == Recipe::Kind::Uniform
             ? r.a + (r.b - r.a) * u1
             : r.a + r.b * std::sqrt(-2 * std::log(u1)) * std::cos(2 * M_PI * u2);
}

template <class T>
void fill(T* out, std::int64_t n, const Recipe& r) {
  constexpr std::int64_t kWork = 16;  // per element
  parallel_ranges(n, n * kWork, pool_threads(available_threads()),
                  [&](std::int64_t k, std::int64_t end) {
                    for (; k < end; ++k) out[k] = static_cast<T>(element_of(r, k));
                  });
}

}  // namespace

Array Recipe::make() const {
  if (kind == Kind::Zeros) return Array::zeros(dtype, shape);
  Array out = Array::empty(dtype, shape);
  const std::int64_t n = out.size();
  if (dtype == DType::F32) {
    fill(out.typed<float>(), n, *this);
  } else if (dtype == DType::F64) {
    fill(out.typed<double>(), n, *this);
  } else {
    for (std::int64_t k = 0; k < n; ++k) {
      const double v = element_of(*this, k);
      is_continuous(dtype) ? out.set_double(k, v) : out.set_int(k, static_cast<std::int64_t>(v));
    }
  }
  return out;
}

struct SharedVariable::Cell {
  const std::uint64_t id = next_shared_id++;
  ValueLock mutex;
  Array value;
  std::unique_ptr<Recipe> recipe;
  std::optional<DeviceArray> there;  // on a device; `value` is none then
  std::string lost;                  // why there is no value
  Array copy;                        // on the host, of an earlier value; none until it is kept
  bool copied = false;               // it has been
  bool torn = false;                 // a call was changing it when this process was forked
  const ForkHook hook{free_in_child, this};

  /// Nobody who held the lock is here.
  static void free_in_child(void* self) {
    Cell& cell = *static_cast<Cell*>(self);
    cell.torn |= cell.mutex.forget_holders();
  }
  /// A copy of what is on a device.
  Array download(const std::string& name) const try { return there->download(); } catch (Error& e) {
    e.reword(
        fmt::format("{}: {}", name.empty() ? "a shared variable" : "the shared variable " + name,
                    e.message()),
        e.hint());
    throw;
  }
  void require_whole(const std::string& name) const {
    if (!lost.empty())
      fail(Fault::Device,
           fmt::format("{} has no value any more: {}",
                       name.empty() ? "a shared variable" : "the shared variable " + name, lost),
           copied ? "restore() brings back the copy that was kept last"
                  : "give it one by set_value, or load a checkpoint");
    if (torn)
      fail(Fault::Value,
           fmt::format("{} has no value in this process: a call of another thread was changing it "
                       "when the process was forked",
                       name.empty() ? "a shared variable" : "the shared variable " + name),
           "give it one by set_value, or fork while no call that updates it runs");
  }
};

namespace {

/// The array that `make` gives, as the value of a shared variable: a Memory error, before it is
/// made, if the budget of the process does not allow it.
template <class F>
Array counted(std::int64_t bytes, const std::string& name, F&& make) {
  const MemoryClaim claim(
      MemoryClaim::Kind::Shared, static_cast<std::uint64_t>(bytes),
      name.empty() ? "a shared variable" : fmt::format("the shared variable {}", name));
  Array value = make();
  value.storage->count_as_shared();
  return value;
}

/// Storage that was lent once.
struct Lent {
  std::weak_ptr<Storage> storage;
  std::function<bool(const Storage*)> current;  // whether the variable has that storage
  std::string name;
};

struct LentList {
  BriefMutex mutex;
  std::vector<Lent> items;
};

LentList& lent() {
  static LentList* list = new LentList;  // lives as long as any thread may ask
  return *list;
}

void note_lent(const std::shared_ptr<Storage>& storage, std::string name,
               std::function<bool(const Storage*)> current) {
  std::lock_guard lock(lent().mutex);
  std::erase_if(lent().items, [](const Lent& l) { return l.storage.expired(); });
  for (const Lent& l : lent().items)
    if (!l.storage.owner_before(storage) && !storage.owner_before(l.storage)) return;
  lent().items.push_back({storage, std::move(current), std::move(name)});
}

}  // namespace

std::vector<Export> live_exports() {
  std::vector<Lent> items;
  {
    std::lock_guard lock(lent().mutex);
    items = lent().items;
  }
  std::vector<Export> out;
  for (const Lent& l : items) {
    std::shared_ptr<Storage> storage = l.storage.lock();
    if (!storage) continue;
    const bool current = l.current(storage.get());
    if (storage.use_count() > (current ? 2 : 1)) out.push_back({l.name, storage->bytes(), current});
  }
  return out;
}

SharedVariable::SharedVariable(Array value, std::string name, std::uint8_t broadcast)
    : Variable({value.dtype, Dims(value.checked("shared").shape.size(), -1), broadcast},
               std::move(name)),
      cell_(std::make_shared<Cell>()),
      id(cell_->id),
      mutex(cell_->mutex) {
  for (std::size_t i = 0; i < type.shape.size(); ++i)
    if (type.broadcastable(i)) type.shape[i] = 1;
  check_fits(value);
  cell_->value = counted(value.bytes(), this->name, [&] { return value.contiguous_copy(); });
  if (value.dtype == DType::Bool) make_bools(cell_->value.data, value.bytes());
}

SharedVariable::SharedVariable(Recipe recipe, std::string name, std::uint8_t broadcast)
    : Variable({recipe.dtype, Dims(recipe.shape.size(), -1), broadcast}, std::move(name)),
      cell_(std::make_shared<Cell>()),
      id(cell_->id),
      mutex(cell_->mutex) {
  std::int64_t bytes = size_of(recipe.dtype);
  for (std::int64_t d : recipe.shape)
    if (d < 0 || __builtin_mul_overflow(bytes, d, &bytes))
      fail(Fault::Shape,
           fmt::format("shared: an array of shape {} is impossible", describe_shape(recipe.shape)));
  cell_->recipe = std::make_unique<Recipe>(recipe);
  for (std::size_t i = 0; i < type.shape.size(); ++i)
    if (type.broadcastable(i)) type.shape[i] = 1;
}

SharedVariable::SharedVariable(Ref<SharedVariable> of)
    : Variable(of->type, of->name), cell_(of->cell_), id(of->id), alias_of(of), mutex(of->mutex) {}

Expr SharedVariable::find_default_update() {
  if (default_update || !default_update_rule) return default_update;
  return default_update_rule(Expr(Ref<Variable>(this)));
}

void SharedVariable::check_fits(const Array& value) const {
  if (value.dtype != type.dtype || static_cast<int>(value.shape.size()) != type.ndim())
    fail(Fault::Type,
         fmt::format("shared variable {}: {} with {} dimensions does not fit {} with {} dimensions",
                     name.empty() ? "(no name)" : name, name_of(value.dtype), value.shape.size(),
                     name_of(type.dtype), type.ndim()));
  for (std::size_t i = 0; i < value.shape.size(); ++i)
    if (type.broadcastable(i) && value.shape[i] != 1)
      fail(Fault::Type,
           fmt::format("shared variable {}: axis {} is broadcastable, so its size is 1, not {}",
                       name.empty() ? "(no name)" : name, i, value.shape[i]));
    else if (type.shape[i] >= 0 && value.shape[i] != type.shape[i])
      fail(Fault::Type,
           fmt::format("shared variable {}: axis {} has size {}, not {}",
                       name.empty() ? "(no name)" : name, i, type.shape[i], value.shape[i]));
}

const Recipe* SharedVariable::recipe() const { return cell_->recipe.get(); }

const Array* SharedVariable::value_if_materialised() const {
  cell_->require_whole(name);
  return cell_->recipe || cell_->there ? nullptr : &cell_->value;
}

const DeviceArray* SharedVariable::value_on_device() const {
  cell_->require_whole(name);
  return cell_->there ? &*cell_->there : nullptr;
}

Array SharedVariable::copy_locked() const {
  if (value_on_device()) return cell_->download(name);
  return value_if_materialised()->contiguous_copy();
}

Dims SharedVariable::shape_locked() const {
  return cell_->recipe  ? cell_->recipe->shape
         : cell_->there ? cell_->there->shape
                        : cell_->value.shape;
}

DeviceArray& SharedVariable::value_on(
    const std::string& device,
    const std::function<std::shared_ptr<DeviceMemory>(std::uint64_t bytes)>& allocate) {
  if (const DeviceArray* there = value_on_device(); there && there->memory->device() == device)
    return *cell_->there;
  Array& value = value_locked();
  const auto bytes = static_cast<std::uint64_t>(value.bytes());
  DeviceArray moved{value.dtype, value.shape, allocate(bytes)};
  moved.memory->write(moved.memory->data(), value.data, bytes);
  set_value_on_device(std::move(moved));
  return *cell_->there;
}

void SharedVariable::set_value_on_device(DeviceArray value) {
  const NoFork whole;
  cell_->there = std::move(value);
  cell_->value = {};
}

void SharedVariable::reserve_copy() {
  const DeviceArray& there = *value_on_device();
  if (cell_->copy.storage && cell_->copy.shape == there.shape) return;
  Array room = counted(there.bytes(), name, [&] { return Array::empty(there.dtype, there.shape); });
  const NoFork whole;
  cell_->copied = false;
  cell_->copy = std::move(room);
}

void SharedVariable::keep_copy() {
  const DeviceArray& there = *value_on_device();
  reserve_copy();
  there.memory->read(there.memory->data(), cell_->copy.data,
                     static_cast<std::uint64_t>(there.bytes()));
  cell_->copied = true;
}

void SharedVariable::restore() {
  const WriteLock lock(*this, "restore");
  if (!cell_->copied)
    fail(Fault::Value,
         fmt::format("{}: no copy was kept", name.empty() ? "a shared variable" : name),
         "functions that update it keep some with FunctionOptions::snapshot");
  Array value = counted(cell_->copy.bytes(), name, [&] { return cell_->copy.contiguous_copy(); });
  const NoFork whole;
  cell_->there.reset();
  cell_->recipe.reset();
  cell_->lost.clear();
  cell_->value = std::move(value);
}

void SharedVariable::lose(std::string why) {
  const NoFork whole;
  cell_->there.reset();
  cell_->value = {};
  cell_->lost = std::move(why);
}

void SharedVariable::make_locked() {
  cell_->require_whole(name);
  if (cell_->recipe) {
    const Recipe& recipe = *cell_->recipe;
    Array made =
        counted(product(recipe.shape) * size_of(recipe.dtype), name, [&] { return recipe.make(); });
    const NoFork whole;
    cell_->value = std::move(made);
    cell_->recipe.reset();
  }
}

Array& SharedVariable::value_locked() {
  make_locked();
  if (cell_->there) {
    Array here = counted(cell_->there->bytes(), name, [&] { return cell_->download(name); });
    const NoFork whole;
    cell_->value = std::move(here);
    cell_->there.reset();
  }
  return cell_->value;
}

Array SharedVariable::get_value(bool borrow) {
  std::optional<Array> out;
  // What an open call is going to write, it may write in place.
  const OpenCalls::Held held = OpenCalls::of_thread()->find(*this);
  if (held.written || (held.held && cell_->there)) borrow = false;
  {
    const ReadLock reader(*this);
    const Array* const value = value_if_materialised();
    if (borrow && value)
      out = *value;
    else if (value || (value_on_device() && !borrow))
      out = copy_locked();
  }
  if (!out) {
    const WriteLock writer(*this, "get_value");
    Array& value = value_locked();
    out = borrow ? value : value.contiguous_copy();
  }
  if (borrow)
    note_lent(out->storage, name, [of = std::weak_ptr<Cell>(cell_)](const Storage* storage) {
      std::shared_ptr<Cell> cell = of.lock();
      if (!cell) return false;
      std::shared_lock reader(cell->mutex, std::try_to_lock);
      if (!reader) return true;  // a call that runs has it
      return !cell->recipe && cell->value.storage.get() == storage;
    });
  return std::move(*out);
}

void SharedVariable::set_value(const Array& given) {
  const Array value = given.checked("set_value");
  check_fits(value);
  if (value.contiguous()) {
    // Into the same memory, if nobody else has it: a large variable need not have room twice.
    const WriteLock lock(*this, "set_value");
    Array& old = cell_->value;
    if (!cell_->recipe && old.storage && old.shape == value.shape && old.storage.use_count() == 1) {
      if (value.bytes()) std::memcpy(old.data, value.data, static_cast<std::size_t>(value.bytes()));
      if (value.dtype == DType::Bool) make_bools(old.data, value.bytes());
      cell_->torn = false;
      return;
    }
  }
  Array copy = counted(value.bytes(), name, [&] { return value.contiguous_copy(); });
  if (value.dtype == DType::Bool) make_bools(copy.data, copy.bytes());
  const WriteLock lock(*this, "set_value");
  const NoFork whole;
  cell_->recipe.reset();
  cell_->there.reset();
  cell_->lost.clear();
  cell_->value = std::move(copy);
  cell_->torn = false;
}

Dims SharedVariable::shape() const {
  const ReadLock lock(*this);
  return shape_locked();
}

void set_apply_hook(void (*hook)(const std::vector<Expr>& outputs)) { apply_hook = hook; }

namespace {

bool any_complex(const std::vector<Expr>& inputs) {
  return std::any_of(inputs.begin(), inputs.end(),
                     [](const Expr& x) { return x && is_complex(x.dtype()); });
}

std::vector<Expr> apply_on_complex(const OpDef& op, const std::vector<Expr>& inputs,
                                   const Attrs& attrs) {
  for (std::size_t i = 0; i < inputs.size(); ++i)
    if (!inputs[i])
      fail(Fault::Type, fmt::format("{}: argument {} is an empty expression", op.name, i));
  if (!op.on_complex)
    fail(Fault::Type, fmt::format("{}: is not defined for complex numbers", op.name),
         "take their real part, imaginary part or absolute value");
  if (op.arity >= 0 && static_cast<int>(inputs.size()) != op.arity)
    fail(Fault::Type,
         fmt::format("{}: takes {} arguments, got {}", op.name, op.arity, inputs.size()));
  return op.on_complex({op, attrs, inputs});
}

}  // namespace

std::vector<Expr> apply_all(const OpDef& op, std::vector<Expr> inputs, Attrs attrs) {
  if (!has(op, kTakesComplex) && any_complex(inputs)) return apply_on_complex(op, inputs, attrs);
  SizeTable sizes;
  Infer infer(op, attrs, sizes);
  std::unordered_map<Variable*, std::size_t> seen;  // one value has one set of unknown sizes
  std::vector<Type> types(inputs.size());
  std::vector<std::vector<SizeId>> elements(inputs.size());
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    if (!inputs[i])
      fail(Fault::Type, fmt::format("{}: argument {} is an empty expression", op.name, i));
    Variable* v = inputs[i].get();
    auto [it, fresh] = seen.try_emplace(v, i);
    if (!fresh) {
      types[i] = types[it->second];
      elements[i] = elements[it->second];
      continue;
    }
    types[i] = scratch_type(sizes, v->type);
    for (std::size_t k = 0; k < v->elements.size(); ++k)
      elements[i].push_back(v->elements_known[k] ? sizes.constant(v->elements[k])
                                                 : sizes.symbol({}));
    if (elements[i].empty() && may_be_size(v->type)) {
      std::int64_t n = v->type.ndim() == 0 ? 1 : v->type.shape[0];
      for (std::int64_t k = 0; k < n; ++k) elements[i].push_back(sizes.symbol({}));
    }
  }
  for (std::size_t i = 0; i < inputs.size(); ++i) {
    infer.inputs.push_back(&types[i]);
    infer.input_elements.push_back(elements[i]);
  }
  infer.stage_symbol = [&](std::size_t, std::size_t) { return sizes.symbol({}); };
  run_infer(infer);
  for (const Infer::Result& r : infer.results)
    if (is_complex(r.type.dtype) && !has(op, kTakesComplex))
      infer.error(Fault::Type, fmt::format("makes no {}", name_of(r.type.dtype)),
                  "make real numbers and cast them");

  Ref<Apply> node(new Apply);
  node->op = &op;
  node->inputs = std::move(inputs);
  node->attrs = std::move(attrs);
  node->origin = current_origin();
  for (const Infer::Result& r : infer.results) node->types.push_back(settled(sizes, r.type));
  std::vector<Expr> outputs;
  for (std::size_t i = 0; i < node->types.size(); ++i) {
    Expr out = node->output(i);
    const auto& e = infer.results[i].elements;
    bool any = false;
    for (SizeId id : e) any |= sizes.known(id).has_value();
    if (any)
      for (SizeId id : e) {
        out->elements.push_back(sizes.known(id).value_or(-1));
        out->elements_known.push_back(sizes.known(id).has_value());
      }
    outputs.push_back(std::move(out));
  }
  if (auto* hook = apply_hook.load(std::memory_order_relaxed)) hook(outputs);
  return outputs;
}

Expr apply(const OpDef& op, std::vector<Expr> inputs, Attrs attrs) {
  return apply_all(op, std::move(inputs), std::move(attrs))[0];
}

Expr input(TensorType type, std::string name) {
  for (std::size_t i = 0; i < type.shape.size(); ++i)
    if (type.broadcastable(i)) type.shape[i] = 1;
  Ref<Variable> v(new Variable(type, std::move(name)));
  v->origin = current_origin();
  return Expr(v);
}

Expr constant(Array value, std::string name) {
  if (value.dtype == DType::Bool &&
      (!value.contiguous() || has_other_than_bools(value.data, value.bytes()))) {
    value = value.contiguous_copy();
    make_bools(value.data, value.bytes());
  }
  Ref<Variable> v(new Constant(std::move(value), std::move(name)));
  v->origin = current_origin();
  return Expr(v);
}

const Array* constant_value(const Expr& e) {
  auto* c = dynamic_cast<const Constant*>(e.get());
  return c ? c->value.get() : nullptr;
}

SharedVariable* as_shared(const Expr& e) { return dynamic_cast<SharedVariable*>(e.get()); }

std::string label(const Expr& e) {
  if (!e) return "(nothing)";
  if (!e->name.empty()) return e->name;
  if (const Array* value = constant_value(e))
    return value->size() == 1 ? describe_element(*value)
                              : fmt::format("constant {}", describe_shape(value->shape));
  if (!e->owner) return fmt::format("(unnamed {})", describe(e->type));
  std::string text(e->owner->op->name);
  text += "(";
  for (std::size_t i = 0; i < e->owner->inputs.size(); ++i) {
    const Expr& x = e->owner->inputs[i];
    if (i) text += ", ";
    text += !x->name.empty() ? x->name : x->owner ? "..." : constant_value(x) ? label(x) : "?";
  }
  return text + ")";
}

std::vector<Expr> topological(std::span<const Expr> roots, std::span<const Expr> blockers) {
  std::vector<Expr> order;
  std::unordered_set<Variable*> done, blocked;
  for (const Expr& b : blockers) blocked.insert(b.get());
  struct Item {
    Variable* v;
    bool expanded;
  };
  std::vector<Item> stack;
  for (const Expr& root : roots) {
    stack.push_back({root.operator->(), false});
    while (!stack.empty()) {
      Item item = stack.back();
      stack.pop_back();
      if (done.count(item.v)) continue;
      if (item.expanded || !item.v->owner || blocked.count(item.v)) {
        done.insert(item.v);
        order.push_back(Expr(Ref<Variable>(item.v)));
        continue;
      }
      stack.push_back({item.v, true});
      const std::vector<Expr>& inputs = item.v->owner->inputs;
      for (std::size_t i = inputs.size(); i-- > 0;)
        if (!done.count(inputs[i].get())) stack.push_back({inputs[i].get(), false});
    }
  }
  return order;
}

}  // namespace snug
