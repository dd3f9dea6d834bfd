#pragma once
#include <cstdint>
#include <memory>

#include "kernel/library.h"

namespace snug::onednn {

/// The CPU multiplies bfloat16; where it does not, oneDNN's emulation is slower than converting.
bool has_bfloat16();

/// By the process so far. Planning makes none.
std::uint64_t primitives_made();

// float32 and 16-bit floats; what oneDNN refuses, or does slower, goes to the native routine of the
// same name.
std::unique_ptr<PreparedCall> prepare_dot(const CallSite& site);  // and batched_dot
std::unique_ptr<PreparedCall> prepare_affine(const CallSite& site);
std::unique_ptr<PreparedCall> prepare_conv3d(const CallSite& site);
std::unique_ptr<PreparedCall> prepare_conv3d_grad_input(const CallSite& site);
std::unique_ptr<PreparedCall> prepare_conv3d_grad_weight(const CallSite& site);
// On images with channels last.
std::unique_ptr<PreparedCall> prepare_conv2d_last(const CallSite& site);
std::unique_ptr<PreparedCall> prepare_conv2d_grad_input_last(const CallSite& site);
std::unique_ptr<PreparedCall> prepare_conv2d_grad_weight_last(const CallSite& site);

}  // namespace snug::onednn
