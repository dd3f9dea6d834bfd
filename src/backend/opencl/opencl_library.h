#pragma once
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>

#include <string>
#include <utility>

// What of OpenCL 1.2 is used.
// clang-format off
#define SNUG_OPENCL_FUNCTIONS(X)                                                                  \
  X(clGetPlatformIDs) X(clGetPlatformInfo) X(clGetDeviceIDs) X(clGetDeviceInfo)                   \
  X(clCreateContext) X(clReleaseContext) X(clCreateCommandQueue) X(clReleaseCommandQueue)         \
  X(clCreateBuffer) X(clReleaseMemObject) X(clCreateProgramWithSource)                            \
  X(clCreateProgramWithBinary) X(clBuildProgram) X(clGetProgramBuildInfo) X(clGetProgramInfo)     \
  X(clReleaseProgram) X(clCreateKernel) X(clReleaseKernel) X(clSetKernelArg)                      \
  X(clEnqueueNDRangeKernel) X(clEnqueueReadBuffer) X(clEnqueueWriteBuffer)                        \
  X(clEnqueueFillBuffer) X(clEnqueueCopyBuffer) X(clEnqueueMapBuffer) X(clEnqueueUnmapMemObject)  \
  X(clEnqueueMarkerWithWaitList) X(clEnqueueBarrierWithWaitList) X(clGetEventInfo)                \
  X(clReleaseEvent) X(clRetainEvent) X(clFlush) X(clFinish)
// clang-format on

namespace snug {

/// libOpenCL, which is loaded when it is first asked for: nothing here links it.
struct OpenClLibrary {
#define SNUG_DECLARE(f) decltype(&::f) f = nullptr;
  SNUG_OPENCL_FUNCTIONS(SNUG_DECLARE)
#undef SNUG_DECLARE
};

/// Null if there is none; `why` says so, and what to do.
const OpenClLibrary* find_opencl_library(std::string* why = nullptr);
/// Whether this process loaded the drivers, if they are: a child of fork leaves those of its parent
/// alone.
bool opencl_is_ours();
/// A Device error if there is none.
const OpenClLibrary& opencl();

/// For tests: what all of it calls, to be replaced while nobody does. There is one.
OpenClLibrary& opencl_entries();

/// A Device error that begins with `who`, and names the call and the code, unless it is CL_SUCCESS.
void check_opencl(cl_int code, const std::string& who, const char* call);

/// Owns a reference to an object of OpenCL.
template <class T, auto release>
class ClHandle {
 public:
  explicit ClHandle(T object = nullptr) : object_(object) {}
  ClHandle(ClHandle&& other) noexcept : object_(std::exchange(other.object_, nullptr)) {}
  ClHandle& operator=(ClHandle&& other) noexcept {
    std::swap(object_, other.object_);
    return *this;
  }
  ~ClHandle() {
    if (object_ && opencl_is_ours()) (opencl().*release)(object_);
  }
  T get() const { return object_; }
  /// For objects of a device that hangs: releasing them may hang, too.
  void forget() { object_ = nullptr; }

 private:
  T object_;
};
using ClContext = ClHandle<cl_context, &OpenClLibrary::clReleaseContext>;
using ClQueue = ClHandle<cl_command_queue, &OpenClLibrary::clReleaseCommandQueue>;
using ClMemory = ClHandle<cl_mem, &OpenClLibrary::clReleaseMemObject>;
using ClProgram = ClHandle<cl_program, &OpenClLibrary::clReleaseProgram>;
using ClKernel = ClHandle<cl_kernel, &OpenClLibrary::clReleaseKernel>;
using ClEvent = ClHandle<cl_event, &OpenClLibrary::clReleaseEvent>;

}  // namespace snug
