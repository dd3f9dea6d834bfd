#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/array.h"

namespace snug {

/// Memory of a device that is not the host. Addresses in it are there to compute with: the range is
/// reserved without access, so host code that touches it by mistake stops at once.
class DeviceMemory {
 public:
  virtual ~DeviceMemory() = default;
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;

  std::byte* data() const { return data_; }
  std::uint64_t bytes() const { return bytes_; }
  virtual const std::string& device() const = 0;  // its name
  /// Return when the bytes are there. A Device error if the device has failed.
  virtual void read(const std::byte* from, std::byte* to, std::uint64_t bytes) const = 0;
  virtual void write(std::byte* to, const std::byte* from, std::uint64_t bytes) = 0;

 protected:
  DeviceMemory(std::byte* data, std::uint64_t bytes) : data_(data), bytes_(bytes) {}

 private:
  std::byte* data_;
  std::uint64_t bytes_;
};

/// Memory of the host that a device copies from and to.
struct StagingMemory {
  virtual ~StagingMemory() = default;
  std::byte* data = nullptr;
  std::uint64_t bytes = 0;
};

/// A contiguous array in such memory.
struct DeviceArray {
  DType dtype = DType::F32;
  Dims shape;
  std::shared_ptr<DeviceMemory> memory;

  std::int64_t bytes() const { return product(shape) * size_of(dtype); }
  Array download() const {
    Array a = Array::empty(dtype, shape);
    memory->read(memory->data(), a.data, static_cast<std::uint64_t>(bytes()));
    return a;
  }
};

}  // namespace snug
