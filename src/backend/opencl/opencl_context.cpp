#include "backend/opencl/opencl_context.h"

#include <fmt/format.h>

#include <vector>

#include "backend/opencl/kept_signals.h"
#include "base/error.h"
#include "base/fork.h"

namespace snug {
namespace {

cl_device_id device_of(const OpenClFound& found) {
  const KeptSignals signals;
  const auto check = [&](cl_int code, const char* call) { check_opencl(code, found.name, call); };
  cl_uint count = 0;
  check(opencl().clGetPlatformIDs(0, nullptr, &count), "clGetPlatformIDs");
  std::vector<cl_platform_id> platforms(count);
  check(opencl().clGetPlatformIDs(count, platforms.data(), nullptr), "clGetPlatformIDs");
  if (found.platform_number < platforms.size()) {
    const cl_platform_id platform = platforms[found.platform_number];
    check(opencl().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, 0, nullptr, &count),
          "clGetDeviceIDs");
    std::vector<cl_device_id> devices(count);
    check(opencl().clGetDeviceIDs(platform, CL_DEVICE_TYPE_ALL, count, devices.data(), nullptr),
          "clGetDeviceIDs");
    if (found.device_number < devices.size()) return devices[found.device_number];
  }
  fail(Fault::Device, fmt::format("{}: {} is not there any more", found.name, found.model));
}

}  // namespace

OpenClContext::OpenClContext(OpenClFound found)
    : found_(std::move(found)),
      device_(device_of(found_)),
      forks_(fork_count()),
      ledger_(found_.name, found_.memory) {
  const KeptSignals signals;
  cl_int code = CL_SUCCESS;
  context_ = ClContext(opencl().clCreateContext(nullptr, 1, &device_, nullptr, nullptr, &code));
  check(code, "clCreateContext");
  queue_ = make_queue();
}

ClQueue OpenClContext::make_queue() const {
  cl_int code = CL_SUCCESS;
  ClQueue queue(opencl().clCreateCommandQueue(context_.get(), device_, 0, &code));
  check(code, "clCreateCommandQueue");
  ++counts_.objects;
  return queue;
}

void OpenClContext::require_own_process() const {
  if (forks_ != fork_count())
    fail(Fault::Device,
         fmt::format("{} is of the process that forked this one: drivers do not come along",
                     found_.name),
         "use the device in one process, or begin to use it after the fork");
}

OpenClContext::Place OpenClContext::find(const std::byte* address) const {
  const std::lock_guard lock(mutex_);
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return {};
  const auto& [begin, block] = *std::prev(next);
  const auto offset = static_cast<std::uint64_t>(address - begin);
  // What is empty may begin where its memory ends.
  return offset <= block.bytes ? Place{block.memory, offset} : Place{};
}

void OpenClContext::add_block(const std::byte* begin, cl_mem memory, std::uint64_t bytes) {
  const std::lock_guard lock(mutex_);
  blocks_[begin] = {memory, bytes};
}

void OpenClContext::remove_block(const std::byte* begin) {
  const std::lock_guard lock(mutex_);
  blocks_.erase(begin);
}

}  // namespace snug
