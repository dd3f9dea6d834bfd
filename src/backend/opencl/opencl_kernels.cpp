#include "backend/opencl/opencl_kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/opencl/kept_signals.h"
#include "backend/opencl/opencl_errors.h"
#include "base/error.h"

namespace snug {
namespace {

constexpr std::size_t kMostTogether = 200;  // kernels of a program

std::string key_of(const OpenClText& text) {
  std::string key = text.name + '\0' + text.body + '\0';
  for (const auto& [name, helper] : text.helpers) key += name + '\0' + helper + '\0';
  for (const OpenClKind kind : text.args) key += static_cast<char>(kind);
  for (const std::uint32_t n : text.local) key += fmt::format(" {}", n);
  return key;
}

std::string log_of(cl_program program, cl_device_id device) {
  std::size_t bytes = 0;
  opencl().clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
  std::string log(bytes, '\0');
  opencl().clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  return log;
}

}  // namespace

void OpenClKernel::make_ready() const {
  {
    const std::lock_guard lock(mutex_);
    if (kernel_.get()) return;
  }
  home_->build(*this);
}

OpenClKernels::OpenClKernels(std::shared_ptr<OpenClContext> context)
    : context_(std::move(context)), disk_(DiskCache::default_directory()) {
  // Never a fast-math option.
  options_ = "-cl-std=CL1.2";
  if (context_->found().rounds_division) options_ += " -cl-fp32-correctly-rounded-divide-sqrt";
}

std::shared_ptr<const OpenClKernel> OpenClKernels::add(OpenClText text) {
  const std::string key = key_of(text);
  const std::lock_guard lock(mutex_);
  std::weak_ptr<const OpenClKernel>& place = by_text_[key];
  if (auto there = place.lock()) return there;
  std::string function = fmt::format("{}_{}", text.name, hex(hash_bytes(key)).substr(0, 12));
  std::shared_ptr<const OpenClKernel> made(
      new OpenClKernel(shared_from_this(), std::move(text), std::move(function)));
  place = made;
  waiting_.push_back(made);
  return made;
}

OpenClKernels::Counts OpenClKernels::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

void OpenClKernels::build(const OpenClKernel& wanted) {
  context_->require_own_process();
  const KeptSignals signals;
  const std::lock_guard lock(mutex_);
  if (wanted.kernel_.get()) return;
  // With those that wait, since a program of many takes half the time of as many programs.
  Some together;
  std::vector<std::weak_ptr<const OpenClKernel>> left;
  for (const auto& weak : waiting_) {
    auto kernel = weak.lock();
    if (!kernel || kernel->kernel_.get()) continue;
    if (kernel.get() == &wanted)
      together.insert(together.begin(), kernel);
    else if (together.size() < kMostTogether)
      together.push_back(kernel);
    else
      left.push_back(weak);
  }
  if (together.empty() || together.front().get() != &wanted)  // it failed before
    together = {by_text_.at(key_of(wanted.text())).lock()};
  waiting_ = std::move(left);
  if (together.size() > 1) try {
      return build_together(together);
    } catch (const Error&) {  // of one of them: each is built alone when it is needed
    }
  build_together({together.front()});
}

void OpenClKernels::build_together(const Some& kernels) {
  std::map<std::string, std::string> helpers;
  std::string bodies;
  for (const auto& kernel : kernels) {
    helpers.insert(kernel->text_.helpers.begin(), kernel->text_.helpers.end());
    std::string body = kernel->text_.body;
    put(body, "$NAME", kernel->function_);
    bodies += body + "\n";
  }
  std::string source;
  if (context_->found().fp64) source += "#pragma OPENCL EXTENSION cl_khr_fp64 : enable\n";
  source += "#pragma OPENCL FP_CONTRACT OFF\n\n";
  for (const auto& [name, text] : helpers) source += text + "\n";
  source += bodies;
  const ClProgram program = compile(source, kernels);
  for (const auto& kernel : kernels) {
    cl_int code = CL_SUCCESS;
    ClKernel made(opencl().clCreateKernel(program.get(), kernel->function_.c_str(), &code));
    context_->check(code, "clCreateKernel");
    ++context_->counts().objects;
    run_over_nothing(made.get(), kernel->text());
    const std::lock_guard lock(kernel->mutex_);
    kernel->kernel_ = std::move(made);
  }
}

ClProgram OpenClKernels::compile(const std::string& source, const Some& kernels) {
  const OpenClFound& f = context_->found();
  const CacheKey key = hash_bytes(fmt::format("opencl\n{}\n{}\n{}\n{}\n{}\n{}", f.model, f.platform,
                                              f.driver, f.version, options_, source));
  const cl_device_id device = context_->device();
  cl_int code = CL_SUCCESS;
  if (const auto entry = disk_.load(key)) {
    const auto* bytes = reinterpret_cast<const unsigned char*>(entry->object.data());
    const std::size_t size = entry->object.size();
    cl_int status = CL_SUCCESS;
    ClProgram program(opencl().clCreateProgramWithBinary(context_->context(), 1, &device, &size,
                                                         &bytes, &status, &code));
    if (code == CL_SUCCESS && status == CL_SUCCESS &&
        opencl().clBuildProgram(program.get(), 1, &device, options_.c_str(), nullptr, nullptr) ==
            CL_SUCCESS) {
      ++counts_.from_disk;
      return program;
    }
  }
  const char* text = source.c_str();
  ClProgram program(
      opencl().clCreateProgramWithSource(context_->context(), 1, &text, nullptr, &code));
  context_->check(code, "clCreateProgramWithSource");
  code = opencl().clBuildProgram(program.get(), 1, &device, options_.c_str(), nullptr, nullptr);
  if (code != CL_SUCCESS) {
    std::string names;
    for (const auto& kernel : kernels) names += (names.empty() ? "" : ", ") + kernel->name();
    fail(Fault::Device,
         fmt::format("{}: clBuildProgram: {} ({}) of {}\n{}", f.name, opencl_error_name(code), code,
                     names, log_of(program.get(), device)),
         "run the function on another device");
  }
  ++counts_.compiled;
  std::size_t bytes = 0;
  opencl().clGetProgramInfo(program.get(), CL_PROGRAM_BINARY_SIZES, sizeof bytes, &bytes, nullptr);
  std::string binary(bytes, '\0');
  unsigned char* to = reinterpret_cast<unsigned char*>(binary.data());
  if (bytes > 0 && opencl().clGetProgramInfo(program.get(), CL_PROGRAM_BINARIES, sizeof to, &to,
                                             nullptr) == CL_SUCCESS)
    disk_.store(key, {"", std::move(binary)});
  return program;
}

void OpenClKernels::run_over_nothing(cl_kernel kernel, const OpenClText& text) {
  cl_uint number = 0;
  const auto set = [&](std::size_t bytes, const void* value) {
    context_->check(opencl().clSetKernelArg(kernel, number++, bytes, value), "clSetKernelArg");
  };
  const std::uint64_t zero = 0;
  set(sizeof(cl_int), &zero);
  for (const OpenClKind kind : text.args) switch (kind) {
      case OpenClKind::Memory:
        set(sizeof(cl_mem), nullptr);
        set(sizeof(cl_long), &zero);
        break;
      case OpenClKind::Int:
      case OpenClKind::Float: set(sizeof(cl_int), &zero); break;
      default: set(sizeof(cl_long), &zero);
    }
  std::size_t local[3];
  std::copy_n(text.local.begin(), 3, local);
  context_->check(opencl().clEnqueueNDRangeKernel(context_->queue(), kernel, 3, nullptr, local,
                                                  local, 0, nullptr, nullptr),
                  "clEnqueueNDRangeKernel");
  context_->check(opencl().clFinish(context_->queue()), "clFinish");
}

}  // namespace snug
