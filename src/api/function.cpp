#include "api/function.h"

#include <fmt/format.h>

#include <algorithm>

#include "api/function_impl.h"
#include "base/bytes.h"
#include "target/free_memory.h"

namespace snug {
namespace {

void require_index(const char* what, std::size_t i, std::size_t count) {
  if (i >= count)
    fail(Fault::Index, fmt::format("there is no {} {}: the function has {}", what, i, count));
}

/// What `f` gives; where an allocation fails the error says so in words.
template <class F>
decltype(auto) told(std::string_view doing, const std::string& name, F&& f) try {
  return f();
} catch (const std::bad_alloc&) {
  fail_for_lack_of_memory(fmt::format("{} {}", doing, name.empty() ? "the function" : name));
}

}  // namespace

Function function(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                  const FunctionOptions& options, std::source_location where) {
  const FallbackOrigin origin(where);
  return told("compiling", options.name,
              [&] { return Function(std::make_shared<FunctionImpl>(inputs, outputs, options)); });
}

Function::Call Function::prepare(std::span<const ArgView> arguments) const {
  return told("a call of", made().function().name, [&] { return Call(made().prepare(arguments)); });
}

FunctionImpl& Function::made() const {
  if (!impl_)
    fail(Fault::Type, "an empty function was used",
         "it was never made, or moved from: ask valid() first");
  return *impl_;
}

void Function::run_into(std::span<const ArgView> arguments,
                        std::span<std::byte* const> outputs) const {
  prepare(arguments).run(outputs);
}

std::vector<Array> Function::call(const std::vector<Array>& arguments) const {
  std::vector<ArgView> views;
  for (const Array& a : arguments) views.push_back({a.data, a.dtype, a.shape, a.strides});
  return call_views(views);
}

std::vector<Array> Function::call_views(std::span<const ArgView> arguments) const {
  Call call = prepare(arguments);
  std::vector<Array> outputs;
  std::vector<std::byte*> pointers;
  for (std::size_t i = 0; i < call.output_count(); ++i) {
    outputs.push_back(Array::empty(call.output_dtype(i), call.output_shape(i)));
    pointers.push_back(outputs.back().data);
  }
  call.run(pointers);
  for (std::size_t i = 0; i < outputs.size(); ++i) {
    outputs[i].shape = call.output_shape(i);
    outputs[i].strides = contiguous_strides(outputs[i].shape);
  }
  return outputs;
}

Function::Call::Call(Call&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
Function::Call::~Call() {
  if (!state_) return;
  std::shared_ptr<FunctionImpl> keep = state_->function;
  keep->release(*state_);
}
CallContext& Function::Call::state() const {
  if (!state_) fail(Fault::Type, "a call that was moved from was used");
  return *state_;
}
std::size_t Function::Call::output_count() const { return state().output_shapes.size(); }
DType Function::Call::output_dtype(std::size_t i) const {
  require_index("output", i, output_count());
  return state().function->function().output_types[i].dtype;
}
const Dims& Function::Call::output_shape(std::size_t i) const {
  require_index("output", i, output_count());
  return state().output_shapes[i];
}
void Function::Call::run(std::span<std::byte* const> outputs) {
  FunctionImpl& f = *state().function;
  told("a call of", f.function().name, [&] { f.run(state(), outputs); });
}

void Function::visit_shared(const std::function<void(SharedVariable&)>& visit) const {
  if (impl_ && impl_.use_count() == 1) impl_->visit_shared(visit);
}

Shapes::Shapes(std::initializer_list<Named> shapes) {
  for (const Named& s : shapes) {
    names_.push_back(s.name);
    shapes_.push_back(s.shape);
  }
}

std::vector<Dims> Shapes::of(std::span<const std::string> names, std::span<const TensorType> types,
                             std::string_view what) const {
  const auto label = [&](std::size_t i) {
    return names[i].empty() ? fmt::format("input {}", i) : names[i];
  };
  std::vector<Dims> out = shapes_;
  if (!names_.empty()) {
    std::vector<bool> given(names.size(), false);
    out.resize(names.size());
    for (std::size_t k = 0; k < names_.size(); ++k) {
      const auto found = std::find(names.begin(), names.end(), names_[k]);
      if (found == names.end()) {
        const std::string near = nearest(names_[k], {names.begin(), names.end()});
        fail(Fault::Value, fmt::format("{}: there is no input named \"{}\"", what, names_[k]),
             near.empty() ? "" : fmt::format("did you mean \"{}\"?", near));
      }
      const auto i = static_cast<std::size_t>(found - names.begin());
      if (given[i]) fail(Fault::Value, fmt::format("{}: {} is given twice", what, names_[k]));
      given[i] = true;
      out[i] = shapes_[k];
    }
    for (std::size_t i = 0; i < names.size(); ++i)
      if (!given[i])
        fail(Fault::Value, fmt::format("{}: the shape of {} is missing", what, label(i)));
  }
  if (out.size() != names.size())
    fail(Fault::Value, fmt::format("{}: the function has {} inputs, got {} shapes", what,
                                   names.size(), out.size()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (static_cast<int>(out[i].size()) != types[i].ndim())
      fail(Fault::Shape, fmt::format("{}: input {} has {} dimensions, the shape {} has {}", what, i,
                                     types[i].ndim(), describe_shape(out[i]), out[i].size()));
    for (std::int64_t d : out[i])
      if (d < 0) fail(Fault::Shape, fmt::format("{}: {} has the size {}", what, label(i), d));
  }
  return out;
}

namespace {

std::vector<Dims> shapes_of(const FunctionImpl& f, const Shapes& shapes,
                            const Function::Values& values, const char* what) {
  if (values.size() > f.function().input_types.size())
    fail(Fault::Value, fmt::format("{}: the function has {} inputs, got {} values", what,
                                   f.function().input_types.size(), values.size()));
  return shapes.of(f.function().input_names, f.function().input_types, what);
}

}  // namespace

MemoryReport Function::memory(const Shapes& shapes, const Values& values,
                              const std::vector<bool>& copied) const {
  const std::vector<Dims> sizes = shapes_of(made(), shapes, values, "memory");
  return told("planning", impl_->function().name,
              [&] { return impl_->memory(sizes, values, copied); });
}
std::int64_t Function::smallest_budget(const Shapes& shapes, const Values& values,
                                       const std::string& device) const {
  const std::vector<Dims> sizes = shapes_of(made(), shapes, values, "smallest_budget");
  return told("planning", impl_->function().name,
              [&] { return impl_->smallest_budget(sizes, values, device); });
}
std::vector<Remedy> Function::remedies(const Shapes& shapes, const std::string& memory,
                                       const Values& values) const {
  const std::vector<Dims> sizes = shapes_of(made(), shapes, values, "remedies");
  return told("planning", impl_->function().name,
              [&] { return impl_->remedies(sizes, values, memory); });
}
Function::Way Function::way(std::span<const Dims> shapes) const { return made().way(shapes); }
void Function::set_way(std::span<const Dims> shapes, const Way& way) const {
  made().set_way(shapes, way);
}
MaxBatch Function::max_batch(const Shapes& shapes, const std::string& memory, int axis,
                             const Values& values) const {
  const std::vector<Dims> sizes = shapes_of(made(), shapes, values, "max_batch");
  return told("planning", impl_->function().name,
              [&] { return impl_->max_batch(sizes, values, memory, axis); });
}
void Function::free() const { made().free(); }
std::string Function::explain() const { return made().explain(); }
ProfileReport Function::profile() const { return made().profile(); }
std::int64_t Function::counter(std::string_view name) const { return made().counter(name); }
Function::View Function::view() const { return made().view(); }
std::size_t Function::input_count() const { return made().function().input_types.size(); }
const TensorType& Function::input_type(std::size_t i) const {
  require_index("input", i, input_count());
  return impl_->function().input_types[i];
}
const std::string& Function::input_name(std::size_t i) const {
  require_index("input", i, input_count());
  return impl_->function().input_names[i];
}
std::size_t Function::output_count() const { return made().function().output_types.size(); }
const TensorType& Function::output_type(std::size_t i) const {
  require_index("output", i, output_count());
  return impl_->function().output_types[i];
}
const std::string& Function::name() const { return made().function().name; }

}  // namespace snug
