#pragma once
#include <string_view>

#include "base/origin.h"

namespace snug {

/// Marks in an origin, beside the stack of lines that it stands for. They go wherever origins go,
/// so they survive every rewrite, and as origins are they are no part of equality. `frames_of` and
/// `describe` do not see them.
///
/// Autodiff made the node.
inline constexpr OriginId kDerivativeMark = OriginId{1} << 31;
/// Its result has the axes of images in the order (batch, rows, columns, channels); the user has
/// channels second.
inline constexpr OriginId kChannelsLastMark = OriginId{1} << 30;
/// The number of a word, and the stack itself.
inline constexpr int kWordShift = 20;
inline constexpr OriginId kWordMask = OriginId{0x3ff} << kWordShift;
inline constexpr OriginId kStackMask = (OriginId{1} << kWordShift) - 1;
/// The number of a device that the user has put it on. Nodes of a graph with others are not equal.
inline constexpr int kDeviceShift = 32;
inline constexpr OriginId kDeviceMask = OriginId{0xff} << kDeviceShift;

inline OriginId as_derivative(OriginId id) { return id | kDerivativeMark; }
inline bool is_derivative(OriginId id) { return (id & kDerivativeMark) != 0; }
inline OriginId as_channels_last(OriginId id) { return id | kChannelsLastMark; }
inline bool is_channels_last(OriginId id) { return (id & kChannelsLastMark) != 0; }

/// What users call a node that is not known to them by the name of its op: the function they called
/// if that is made of several ops ("relu"), and what a step of a gradient belongs to ("conv2d
/// backward by images"). "": there is none.
std::string_view word_of(OriginId id);
/// Replaces the word. An origin keeps what it has once there are a thousand different ones.
OriginId with_word(OriginId id, std::string_view word);

/// The device that the user has put a node on ("opencl:0"); "": none.
std::string_view device_mark(OriginId id);
/// Replaces the device. A Value error if there are more than 255 different ones.
OriginId with_device_mark(OriginId id, std::string_view device);

/// The device that origins which begin now on this thread get; gives the one before.
std::string_view set_current_device_mark(std::string_view device);
/// With that device.
OriginId with_current_device(OriginId id);

class DeviceMarkScope {
 public:
  explicit DeviceMarkScope(std::string_view device) : saved_(set_current_device_mark(device)) {}
  ~DeviceMarkScope() { set_current_device_mark(saved_); }
  DeviceMarkScope(const DeviceMarkScope&) = delete;
  DeviceMarkScope& operator=(const DeviceMarkScope&) = delete;

 private:
  std::string_view saved_;
};

/// Gives the current origin a word for a scope, unless it has one: the function that the user has
/// called names all that it is made of. Null: none. Only inside of an OriginScope or override.
class WordScope {
 public:
  explicit WordScope(const char* word);
  ~WordScope();
  WordScope(const WordScope&) = delete;
  WordScope& operator=(const WordScope&) = delete;

 private:
  OriginId saved_;
};

}  // namespace snug
