// An OpenCL driver that lists devices and does nothing else. What it says of itself is given by
// macros: PLATFORM, PLATFORM_VENDOR, VENDOR, MODEL, VERSION ("OpenCL 3.0 fake"), DEVICES (how
// many), BUS (of the first one on PCI; none: it does not tell), AVAILABLE, COMPILER, IS_CPU; HANGS.
#define CL_TARGET_OPENCL_VERSION 120
#define CL_USE_DEPRECATED_OPENCL_1_1_APIS
#include <CL/cl.h>
#include <CL/cl_ext.h>
#include <CL/cl_icd.h>
#include <string.h>
#include <unistd.h>

#ifndef PLATFORM
#define PLATFORM "Fake"
#endif
#ifndef PLATFORM_VENDOR
#define PLATFORM_VENDOR "Makers"
#endif
#ifndef VENDOR
#define VENDOR "Makers"
#endif
#ifndef MODEL
#define MODEL "Card 9"
#endif
#ifndef VERSION
#define VERSION "OpenCL 3.0 fake"
#endif
#ifndef DEVICES
#define DEVICES 1
#endif
#ifndef AVAILABLE
#define AVAILABLE CL_TRUE
#endif
#ifndef COMPILER
#define COMPILER CL_TRUE
#endif
#ifdef BUS
#define EXTENSIONS "cl_khr_fp64 cl_khr_pci_bus_info"
#else
#define EXTENSIONS "cl_khr_fp64"
#endif

static cl_icd_dispatch dispatch;
struct _cl_platform_id {
  cl_icd_dispatch* dispatch;
} platform = {&dispatch};
struct _cl_device_id {
  cl_icd_dispatch* dispatch;
  unsigned number;
} devices[DEVICES];

static cl_int tell(const void* what, size_t bytes, size_t room, void* to, size_t* needed) {
  if (needed) *needed = bytes;
  if (to && room < bytes) return CL_INVALID_VALUE;
  if (to) memcpy(to, what, bytes);
  return CL_SUCCESS;
}
#define TELL_TEXT(text) return tell(text, sizeof(text), room, to, needed)
#define TELL(type, ...)                                  \
  do {                                                   \
    const type value = __VA_ARGS__;                      \
    return tell(&value, sizeof value, room, to, needed); \
  } while (0)

static cl_int platform_info(cl_platform_id p, cl_platform_info what, size_t room, void* to,
                            size_t* needed) {
  switch (what) {
    case CL_PLATFORM_NAME: TELL_TEXT(PLATFORM);
    case CL_PLATFORM_VENDOR: TELL_TEXT(PLATFORM_VENDOR);
    case CL_PLATFORM_VERSION: TELL_TEXT(VERSION);
    case CL_PLATFORM_PROFILE: TELL_TEXT("FULL_PROFILE");
    case CL_PLATFORM_EXTENSIONS: TELL_TEXT("cl_khr_icd");
    case CL_PLATFORM_ICD_SUFFIX_KHR: TELL_TEXT("FAKE");
    default: return CL_INVALID_VALUE;
  }
}

static cl_int device_ids(cl_platform_id p, cl_device_type type, cl_uint room, cl_device_id* to,
                         cl_uint* found) {
#ifdef HANGS
  for (;;) pause();
#endif
  if (found) *found = DEVICES;
  for (cl_uint k = 0; to && k < room && k < DEVICES; ++k) {
    devices[k].dispatch = &dispatch;
    devices[k].number = k;
    to[k] = &devices[k];
  }
  return CL_SUCCESS;
}

static cl_int device_info(cl_device_id d, cl_device_info what, size_t room, void* to,
                          size_t* needed) {
  switch (what) {
    case CL_DEVICE_NAME: TELL_TEXT(MODEL);
    case CL_DEVICE_VENDOR: TELL_TEXT(VENDOR);
    case CL_DRIVER_VERSION: TELL_TEXT("7.1");
    case CL_DEVICE_VERSION: TELL_TEXT(VERSION);
    case CL_DEVICE_EXTENSIONS: TELL_TEXT(EXTENSIONS);
#ifdef IS_CPU
    case CL_DEVICE_TYPE: TELL(cl_device_type, CL_DEVICE_TYPE_CPU);
#else
    case CL_DEVICE_TYPE: TELL(cl_device_type, CL_DEVICE_TYPE_GPU);
#endif
    case CL_DEVICE_AVAILABLE: TELL(cl_bool, AVAILABLE);
    case CL_DEVICE_COMPILER_AVAILABLE: TELL(cl_bool, COMPILER);
    case CL_DEVICE_VENDOR_ID: TELL(cl_uint, 0x1234);
    case CL_DEVICE_MAX_COMPUTE_UNITS: TELL(cl_uint, 20);
    case CL_DEVICE_MEM_BASE_ADDR_ALIGN: TELL(cl_uint, 1024);
    case CL_DEVICE_GLOBAL_MEM_SIZE: TELL(cl_ulong, 8ull << 30);
    case CL_DEVICE_MAX_MEM_ALLOC_SIZE: TELL(cl_ulong, 2ull << 30);
    case CL_DEVICE_LOCAL_MEM_SIZE: TELL(cl_ulong, 1 << 16);
    case CL_DEVICE_MAX_WORK_GROUP_SIZE: TELL(size_t, 1024);
    case CL_DEVICE_MAX_PARAMETER_SIZE: TELL(size_t, 4096);
    case CL_DEVICE_SINGLE_FP_CONFIG: TELL(cl_device_fp_config, CL_FP_FMA);
    case CL_DEVICE_HOST_UNIFIED_MEMORY: TELL(cl_bool, CL_FALSE);
#ifdef BUS
    case CL_DEVICE_PCI_BUS_INFO_KHR: TELL(cl_device_pci_bus_info_khr, {0, BUS + d->number, 0, 0});
#endif
    default: return CL_INVALID_VALUE;
  }
}

static cl_int platform_ids(cl_uint room, cl_platform_id* to, cl_uint* found) {
  if (found) *found = 1;
  if (to && room > 0) to[0] = &platform;
  return CL_SUCCESS;
}

CL_API_ENTRY void* CL_API_CALL clGetExtensionFunctionAddress(const char* name) {
  dispatch.clGetPlatformIDs = platform_ids;
  dispatch.clGetPlatformInfo = platform_info;
  dispatch.clGetDeviceIDs = device_ids;
  dispatch.clGetDeviceInfo = device_info;
  return strcmp(name, "clIcdGetPlatformIDsKHR") == 0 ? (void*)platform_ids : NULL;
}
CL_API_ENTRY cl_int CL_API_CALL clGetPlatformInfo(cl_platform_id p, cl_platform_info what,
                                                  size_t room, void* to, size_t* needed) {
  return platform_info(p, what, room, to, needed);
}
