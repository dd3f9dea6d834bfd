#define CL_TARGET_OPENCL_VERSION 120
#include "backend/opencl/opencl_device.h"

#include <CL/cl.h>
#include <fmt/format.h>

#include <algorithm>
#include <mutex>

#include "backend/opencl/opencl_errors.h"
#include "base/error.h"

namespace snug {

namespace {

void check(cl_int code, const char* call) {
  if (code != CL_SUCCESS)
    fail(Fault::Device, fmt::format("{}: {} ({})", call, opencl_error_name(code), code));
}

/// Owns a reference to an OpenCL object.
template <class T, cl_int (*release)(T)>
class Handle {
 public:
  explicit Handle(T object = nullptr) : object_(object) {}
  Handle(Handle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  Handle& operator=(Handle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~Handle() {
    if (object_) release(object_);
  }
  T get() const { return object_; }

 private:
  T object_;
};

std::vector<cl_device_id> all_devices() {
  cl_uint count = 0;
  constexpr cl_int kNoPlatform = -1001;  // CL_PLATFORM_NOT_FOUND_KHR
  cl_int code = clGetPlatformIDs(0, nullptr, &count);
  if (code == kNoPlatform || count == 0) return {};
  check(code, "clGetPlatformIDs");
  std::vector<cl_platform_id> platforms(count);
  check(clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  std::vector<cl_device_id> devices;
  for (cl_platform_id platform : platforms) {
    code = clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count);
    if (code == CL_DEVICE_NOT_FOUND) continue;
    check(code, "clGetDeviceIDs");
    std::vector<cl_device_id> some(count);
    check(clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, some.data(), nullptr),
          "clGetDeviceIDs");
    devices.insert(devices.end(), some.begin(), some.end());
  }
  return devices;
}

std::string text_of(cl_device_id device, cl_device_info what) {
  std::size_t bytes = 0;
  check(clGetDeviceInfo(device, what, 0, nullptr, &bytes), "clGetDeviceInfo");
  std::string text(bytes, '\0');
  check(clGetDeviceInfo(device, what, bytes, text.data(), nullptr), "clGetDeviceInfo");
  while (!text.empty() && text.back() == '\0') text.pop_back();
  return text;
}

/// Never a fast-math option.
const char* build_options(cl_device_id device) {
  cl_device_fp_config config = 0;
  check(clGetDeviceInfo(device, CL_DEVICE_SINGLE_FP_CONFIG, sizeof config, &config, nullptr),
        "clGetDeviceInfo");
  return config & CL_FP_CORRECTLY_ROUNDED_DIVIDE_SQRT
             ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt"
             : "-cl-std=CL1.2";
}

std::string build_log(cl_program program, cl_device_id device) {
  std::size_t bytes = 0;
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, 0, nullptr, &bytes);
  std::string log(bytes, '\0');
  clGetProgramBuildInfo(program, device, CL_PROGRAM_BUILD_LOG, bytes, log.data(), nullptr);
  while (!log.empty() && (log.back() == '\0' || log.back() == '\n')) log.pop_back();
  return log;
}

}  // namespace

struct OpenClBuffer {
  Handle<cl_mem, clReleaseMemObject> memory;
};

struct OpenClKernel {
  Handle<cl_kernel, clReleaseKernel> kernel;
  std::vector<std::int64_t> ints;  // of the last run, and on the device
  Handle<cl_mem, clReleaseMemObject> ints_memory;
};

void OpenClDevice::Release::operator()(OpenClBuffer* buffer) const { delete buffer; }
void OpenClDevice::Release::operator()(OpenClKernel* kernel) const { delete kernel; }

struct OpenClDevice::Impl {
  cl_device_id device = nullptr;
  std::string name;
  Handle<cl_context, clReleaseContext> context;
  Handle<cl_command_queue, clReleaseCommandQueue> queue;
  std::mutex mutex;  // the arguments of a kernel are set one by one
};

std::vector<std::string> OpenClDevice::list() {
  std::vector<std::string> names;
  for (cl_device_id device : all_devices()) names.push_back(text_of(device, CL_DEVICE_NAME));
  return names;
}

OpenClDevice::OpenClDevice(std::size_t number) : impl_(std::make_unique<Impl>()) {
  std::vector<cl_device_id> devices = all_devices();
  if (number >= devices.size())
    fail(Fault::Device, fmt::format("no OpenCL device {}: there are {}", number, devices.size()),
         "pocl-opencl-icd runs OpenCL on the CPU");
  cl_int code = CL_SUCCESS;
  impl_->device = devices[number];
  impl_->name = text_of(impl_->device, CL_DEVICE_NAME);
  impl_->context = Handle<cl_context, clReleaseContext>(
      clCreateContext(nullptr, 1, &impl_->device, nullptr, nullptr, &code));
  check(code, "clCreateContext");
  impl_->queue = Handle<cl_command_queue, clReleaseCommandQueue>(
      clCreateCommandQueue(impl_->context.get(), impl_->device, 0, &code));
  check(code, "clCreateCommandQueue");
}

OpenClDevice::~OpenClDevice() {
  if (impl_->queue.get()) clFinish(impl_->queue.get());
}

const std::string& OpenClDevice::name() const { return impl_->name; }

bool OpenClDevice::has_float64() const {
  return text_of(impl_->device, CL_DEVICE_EXTENSIONS).find("cl_khr_fp64") != std::string::npos;
}

OpenClDevice::Kernel OpenClDevice::compile(const std::string& source, const std::string& function) {
  cl_int code = CL_SUCCESS;
  const char* text = source.c_str();
  Handle<cl_program, clReleaseProgram> program(
      clCreateProgramWithSource(impl_->context.get(), 1, &text, nullptr, &code));
  check(code, "clCreateProgramWithSource");
  code = clBuildProgram(program.get(), 1, &impl_->device, build_options(impl_->device), nullptr,
                        nullptr);
  if (code != CL_SUCCESS)
    fail(Fault::Device,
         fmt::format("clBuildProgram: {} ({}) for {} on {}\n{}", opencl_error_name(code), code,
                     function, impl_->name, build_log(program.get(), impl_->device)));
  Kernel kernel(new OpenClKernel);
  kernel->kernel =
      Handle<cl_kernel, clReleaseKernel>(clCreateKernel(program.get(), function.c_str(), &code));
  check(code, "clCreateKernel");
  return kernel;
}

OpenClDevice::Buffer OpenClDevice::allocate(std::size_t bytes) {
  cl_int code = CL_SUCCESS;
  Buffer buffer(new OpenClBuffer);
  buffer->memory = Handle<cl_mem, clReleaseMemObject>(clCreateBuffer(
      impl_->context.get(), CL_MEM_READ_WRITE, std::max<std::size_t>(bytes, 1), nullptr, &code));
  check(code, "clCreateBuffer");
  return buffer;
}

void OpenClDevice::write(const Buffer& to, std::size_t offset, std::span<const std::byte> from) {
  if (from.empty()) return;
  check(clEnqueueWriteBuffer(impl_->queue.get(), to->memory.get(), CL_TRUE, offset, from.size(),
                             from.data(), 0, nullptr, nullptr),
        "clEnqueueWriteBuffer");
}

void OpenClDevice::read(const Buffer& from, std::size_t offset, std::span<std::byte> to) {
  if (to.empty()) return;
  check(clEnqueueReadBuffer(impl_->queue.get(), from->memory.get(), CL_TRUE, offset, to.size(),
                            to.data(), 0, nullptr, nullptr),
        "clEnqueueReadBuffer");
}

void OpenClDevice::copy(const Buffer& from, std::size_t from_offset, const Buffer& to,
                        std::size_t to_offset, std::size_t bytes) {
  if (bytes == 0) return;
  check(clEnqueueCopyBuffer(impl_->queue.get(), from->memory.get(), to->memory.get(), from_offset,
                            to_offset, bytes, 0, nullptr, nullptr),
        "clEnqueueCopyBuffer");
}

void OpenClDevice::run(const Kernel& kernel, std::span<const Operand> operands,
                       std::span<const std::int64_t> ints, std::int64_t begin, std::int64_t end) {
  if (begin >= end) return;
  std::lock_guard lock(impl_->mutex);
  OpenClKernel& k = *kernel;
  if (!k.ints_memory.get() || !std::ranges::equal(k.ints, ints)) {
    std::vector<std::int64_t> values(ints.begin(), ints.end());
    std::vector<std::int64_t> padded = values;
    padded.push_back(0);  // a buffer is never empty
    cl_int code = CL_SUCCESS;
    k.ints_memory = Handle<cl_mem, clReleaseMemObject>(
        clCreateBuffer(impl_->context.get(), CL_MEM_READ_ONLY | CL_MEM_COPY_HOST_PTR,
                       padded.size() * sizeof(std::int64_t), padded.data(), &code));
    check(code, "clCreateBuffer");
    k.ints = std::move(values);
  }
  cl_uint number = 0;
  auto set = [&](const auto& value) {
    // A handle is passed as it is.  NOLINTNEXTLINE(bugprone-sizeof-expression)
    check(clSetKernelArg(k.kernel.get(), number++, sizeof value, &value), "clSetKernelArg");
  };
  for (const Operand& o : operands) {
    set(o.buffer->memory.get());
    set(static_cast<cl_long>(o.offset));
  }
  set(k.ints_memory.get());
  set(static_cast<cl_long>(end));
  // Whole groups: prime counts would run in groups of one. Items past `end` do nothing.
  constexpr std::size_t kGroup = 64;
  std::size_t offset = static_cast<std::size_t>(begin),
              count = static_cast<std::size_t>(end - begin);
  if (count > kGroup) count = (count + kGroup - 1) / kGroup * kGroup;
  check(clEnqueueNDRangeKernel(impl_->queue.get(), k.kernel.get(), 1, &offset, &count, nullptr, 0,
                               nullptr, nullptr),
        "clEnqueueNDRangeKernel");
  check(clFlush(impl_->queue.get()), "clFlush");
}

void OpenClDevice::finish() { check(clFinish(impl_->queue.get()), "clFinish"); }

}  // namespace snug
