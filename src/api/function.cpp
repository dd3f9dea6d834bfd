#include "api/function.h"

#include <fmt/format.h>

#include "api/function_impl.h"
#include "base/bytes.h"

namespace snug {

Function function(const std::vector<Expr>& inputs, const std::vector<Expr>& outputs,
                  const FunctionOptions& options) {
  return Function(std::make_shared<FunctionImpl>(inputs, outputs, options));
}

Function::Call Function::prepare(std::span<const ArgView> arguments) const {
  SNUG_CHECK(impl_, "an empty function was called");
  return Call(impl_->prepare(arguments));
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

namespace {
CallContext& context(void* state) { return *static_cast<CallContext*>(state); }
}  // namespace

Function::Call::Call(Call&& other) noexcept : state_(std::exchange(other.state_, nullptr)) {}
Function::Call::~Call() {
  if (!state_) return;
  CallContext& c = context(state_);
  std::shared_ptr<FunctionImpl> keep = c.function;
  keep->release(c);
}
std::size_t Function::Call::output_count() const { return context(state_).output_shapes.size(); }
DType Function::Call::output_dtype(std::size_t i) const {
  return context(state_).function->output_types[i].dtype;
}
const Dims& Function::Call::output_shape(std::size_t i) const {
  return context(state_).output_shapes[i];
}
void Function::Call::run(std::span<std::byte* const> outputs) {
  context(state_).function->run(context(state_), outputs);
}

void Function::visit_shared(const std::function<void(SharedVariable&)>& visit) const {
  if (impl_ && impl_.use_count() == 1) impl_->visit_shared(visit);
}

MemoryReport Function::memory(std::span<const Dims> shapes, const Values& values,
                              const std::vector<bool>& copied) const {
  return impl_->memory(shapes, values, copied);
}
std::int64_t Function::smallest_budget(std::span<const Dims> shapes, const Values& values) const {
  return impl_->smallest_budget(shapes, values);
}
std::vector<Remedy> Function::remedies(std::span<const Dims> shapes, std::uint64_t budget,
                                       const Values& values) const {
  return impl_->remedies(shapes, values, budget);
}
Function::MaxBatch Function::max_batch(std::span<const Dims> shapes, const std::string& memory,
                                       int axis, const Values& values) const {
  return impl_->max_batch(shapes, values, memory.empty() ? impl_->budget() : parse_bytes(memory),
                          axis);
}
void Function::free() const { impl_->free(); }
std::string Function::explain() const { return impl_->explain(); }
ProfileReport Function::profile() const { return impl_->profile(); }
std::int64_t Function::counter(std::string_view name) const { return impl_->counter(name); }
Function::View Function::view() const { return impl_->view(); }
std::size_t Function::input_count() const { return impl_->input_types.size(); }
const TensorType& Function::input_type(std::size_t i) const { return impl_->input_types[i]; }
const std::string& Function::input_name(std::size_t i) const { return impl_->input_names[i]; }
std::size_t Function::output_count() const { return impl_->output_types.size(); }
const TensorType& Function::output_type(std::size_t i) const { return impl_->output_types[i]; }
const std::string& Function::name() const { return impl_->name; }

}  // namespace snug
