#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace snug {

struct OpenClBuffer;  // memory of a device
struct OpenClKernel;  // a compiled function

/// One OpenCL device with one queue, in which commands run in order. Every failure is a Device
/// error with the name of OpenCL's code. May be used from several threads. Buffers and kernels may
/// outlive the object, but are of use with it only.
class OpenClDevice {
 public:
  struct Release {
    void operator()(OpenClBuffer* buffer) const;
    void operator()(OpenClKernel* kernel) const;
  };
  using Buffer = std::unique_ptr<OpenClBuffer, Release>;
  using Kernel = std::unique_ptr<OpenClKernel, Release>;

  /// The element of index 0 on all axes: `offset` is in elements.
  struct Operand {
    const OpenClBuffer* buffer = nullptr;
    std::int64_t offset = 0;
  };

  /// Names of the devices of all platforms; empty without OpenCL.
  static std::vector<std::string> list();
  /// `number` counts as in list().
  explicit OpenClDevice(std::size_t number = 0);
  ~OpenClDevice();

  const std::string& name() const;
  bool has_float64() const;

  /// Compiles OpenCL C; an error holds the compiler's log.
  Kernel compile(const std::string& source, const std::string& function);

  Buffer allocate(std::size_t bytes);
  /// Offsets are in bytes. Both return when the copy is done.
  void write(const Buffer& to, std::size_t offset, std::span<const std::byte> from);
  void read(const Buffer& from, std::size_t offset, std::span<std::byte> to);
  /// Enqueues a copy within the device.
  void copy(const Buffer& from, std::size_t from_offset, const Buffer& to, std::size_t to_offset,
            std::size_t bytes);

  /// Enqueues the flattened outer points [begin, end) of a kernel of emit_opencl.
  void run(const Kernel& kernel, std::span<const Operand> operands,
           std::span<const std::int64_t> ints, std::int64_t begin, std::int64_t end);
  /// Waits for all that was enqueued.
  void finish();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace snug
