#pragma once

namespace snug {

/// "CL_BUILD_PROGRAM_FAILURE" for -11; "unknown code" for codes that OpenCL 1.2 does not have.
const char* opencl_error_name(int code);

}  // namespace snug
