#pragma once

namespace snug {

/// "CL_BUILD_PROGRAM_FAILURE" for -11; "unknown code" for codes that OpenCL 1.2 does not have.
const char* opencl_error_name(int code);

/// Whether a code says that the device does not come back.
bool opencl_says_lost(int code);
/// Whether a code says, of a call or of a command that ran, that there is too little memory.
/// Drivers also mean other things by CL_OUT_OF_RESOURCES, which is none of these.
bool opencl_says_full(int code);

}  // namespace snug
