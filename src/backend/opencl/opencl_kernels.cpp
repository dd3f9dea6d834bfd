#include "backend/opencl/opencl_kernels.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/opencl/opencl_errors.h"
#include "base/error.h"

namespace snug {
namespace {

/// Kernels of a program: that many take half the time of one by one, hundreds are no faster, and
/// nobody can stop one.
constexpr std::size_t kMostTogether = 16;

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

bool OpenClKernel::is_made() const {
  const std::lock_guard lock(mutex_);
  return kernel_.get() != nullptr;
}

void OpenClKernel::make_ready() const {
  if (!is_made()) home_->build(*this);
}

OpenClKernels::OpenClKernels(std::shared_ptr<OpenClContext> context,
                             const std::filesystem::path& programs)
    : context_(std::move(context)), disk_(programs) {
  // Never a fast-math option.
  options_ = "-cl-std=CL1.2";
  if (context_->found().rounds_division) options_ += " -cl-fp32-correctly-rounded-divide-sqrt";
}

std::shared_ptr<const OpenClKernel> OpenClKernels::add(OpenClText text) {
  const std::string key = key_of(text);
  const std::lock_guard lock(mutex_);
  forget_unused();
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
  Counts counts = counts_;
  counts.texts = by_text_.size();
  return counts;
}

void OpenClKernels::forget_unused() {
  if (by_text_.size() < most_texts_) return;
  std::erase_if(by_text_, [](const auto& known) { return known.second.expired(); });
  std::erase_if(waiting_, [](const auto& kernel) { return kernel.expired(); });
  most_texts_ = std::max<std::size_t>(64, 2 * by_text_.size());
}

void OpenClKernels::build(const OpenClKernel& wanted) {
  context_->require_usable();
  for (;;) {
    std::shared_ptr<DriverWork> work;
    Some ours;
    std::function<void(DriverWork&)> job;
    {
      const std::lock_guard lock(mutex_);
      if (wanted.is_made()) return;
      if (!work_ || work_->is_done()) {
        ours = take_waiting(wanted);
        job = [self = shared_from_this(), ours](DriverWork& w) { self->build_all(ours, w); };
        work_ = std::make_shared<DriverWork>();  // nothing fails before it starts: others wait
      }
      work = work_;
    }
    if (job) work->start(std::move(job));
    if (!work->wait(std::chrono::seconds(2), context_->patience()))
      context_->lose(fmt::format("its compiler has not answered for {} s; asked for: {}",
                                 std::chrono::duration<double>(context_->patience()).count(),
                                 wanted.name()));
    if (!ours.empty() && work->error()) std::rethrow_exception(work->error());
  }
}

OpenClKernels::Some OpenClKernels::take_waiting(const OpenClKernel& wanted) {
  Some all{wanted.shared_from_this()};
  bool waits = false;
  for (const auto& weak : waiting_) {
    auto kernel = weak.lock();
    if (!kernel || kernel->is_made()) continue;
    if (kernel.get() == &wanted)
      waits = true;
    else
      all.push_back(std::move(kernel));
  }
  if (waits)
    waiting_.clear();
  else
    all.resize(1);  // it failed together with others before
  return all;
}

void OpenClKernels::build_all(const Some& kernels, DriverWork& work) {
  for (std::size_t at = 0; at < kernels.size() && !work.stopping(); at += kMostTogether) {
    work.tell(
        fmt::format("compiling for {}: kernel {} of {}", context_->name(), at + 1, kernels.size()));
    const auto some = std::span(kernels).subspan(at, std::min(kMostTogether, kernels.size() - at));
    if (kernels.size() == 1) return build_together(some, work);
    try {
      build_together(some, work);
      continue;
    } catch (const Error&) {  // of one of them: each is built alone when it is needed
    }
    if (at == 0) build_together(some.first(1), work);
  }
  if (!work.stopping()) return;
  const std::lock_guard lock(mutex_);
  for (const auto& kernel : kernels)
    if (!kernel->is_made()) waiting_.push_back(kernel);
}

void OpenClKernels::build_together(std::span<const std::shared_ptr<const OpenClKernel>> kernels,
                                   const DriverWork& work) {
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
    if (work.stopping()) return;
    cl_int code = CL_SUCCESS;
    ClKernel made(opencl().clCreateKernel(program.get(), kernel->function_.c_str(), &code));
    context_->check(code, "clCreateKernel", kernel->name());
    ++context_->counts().objects;
    run_over_nothing(made.get(), kernel->text());
    const std::lock_guard lock(kernel->mutex_);
    kernel->kernel_ = std::move(made);
  }
}

ClProgram OpenClKernels::compile(const std::string& source,
                                 std::span<const std::shared_ptr<const OpenClKernel>> kernels) {
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
      const std::lock_guard lock(mutex_);
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
  {
    const std::lock_guard lock(mutex_);
    ++counts_.compiled;
  }
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
    context_->check(opencl().clSetKernelArg(kernel, number++, bytes, value), "clSetKernelArg",
                    text.name);
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
                  "clEnqueueNDRangeKernel", text.name);
  context_->finish(text.name.c_str());
}

}  // namespace snug
