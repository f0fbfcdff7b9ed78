// The binary interface between ggml and its backends, as ggml 0.25 (backend API version 2) and 0.26 (version 3) lay it
// out, described here so that one plugin serves both and needs no engine headers. Field order is the contract; names
// follow ggml's. The two versions differ only in the buffer type's table. `check_engine` (engine.h) compares what can
// be compared with the engine that loads us.
#pragma once

#include <cstddef>
#include <cstdint>

namespace artesian::ggml {

constexpr int dims_max = 4;
constexpr int src_max = 10;
constexpr int op_param_bytes = 64;
constexpr int name_max = 64;

struct Buffer;
struct BufferType2;
struct BufferType3;
struct Device;
struct Reg;
struct Backend;
struct Graph;             // opaque
struct Context;           // opaque
struct Event;             // opaque
using BufferType = void;  // a BufferType2 or BufferType3, by the engine's version

enum Status : int { status_alloc_failed = -2, status_failed = -1, status_success = 0 };
enum Usage : int { usage_any = 0, usage_weights = 1, usage_compute = 2 };
enum DeviceType : int { device_cpu = 0, device_gpu = 1, device_igpu = 2, device_accel = 3 };

struct Tensor {
  int type;
  Buffer* buffer;
  std::int64_t ne[dims_max];
  std::size_t nb[dims_max];
  int op;
  std::int32_t op_params[op_param_bytes / sizeof(std::int32_t)];
  std::int32_t flags;
  Tensor* src[src_max];
  Tensor* view_src;
  std::size_t view_offs;
  void* data;
  char name[name_max];
  void* extra;
  char padding[8];
};

struct BufferTypeTable2 {
  const char* (*get_name)(BufferType*);
  Buffer* (*alloc_buffer)(BufferType*, std::size_t);
  std::size_t (*get_alignment)(BufferType*);
  std::size_t (*get_max_size)(BufferType*);
  std::size_t (*get_alloc_size)(BufferType*, const Tensor*);
  bool (*is_host)(BufferType*);
};

struct BufferTypeTable3 {
  const char* (*get_name)(BufferType*);
  Buffer* (*alloc_buffer)(BufferType*, std::size_t);
  Buffer* (*alloc_buffer_n)(BufferType*, Tensor**, int);
  std::size_t (*get_alignment)(BufferType*);
  std::size_t (*get_max_size)(BufferType*);
  std::size_t (*get_alloc_size)(BufferType*, const Tensor*);
  std::size_t (*get_alloc_size_n)(BufferType*, Tensor**, int);
  bool (*is_host)(BufferType*);
};

struct BufferType2 {
  BufferTypeTable2 table;
  Device* device;
  void* context;
};

struct BufferType3 {
  BufferTypeTable3 table;
  Device* device;
  void* context;
};

struct BufferTable {
  void (*free_buffer)(Buffer*);
  void* (*get_base)(Buffer*);
  Status (*init_tensor)(Buffer*, Tensor*);
  void (*memset_tensor)(Buffer*, Tensor*, std::uint8_t, std::size_t, std::size_t);
  void (*set_tensor)(Buffer*, Tensor*, const void*, std::size_t, std::size_t);
  void (*get_tensor)(Buffer*, const Tensor*, void*, std::size_t, std::size_t);
  void* set_tensor_2d;
  void* get_tensor_2d;
  bool (*cpy_tensor)(Buffer*, const Tensor*, Tensor*);
  void (*clear)(Buffer*, std::uint8_t);
  void (*reset)(Buffer*);
};

struct Buffer {
  BufferTable table;
  BufferType* type;
  void* context;
  std::size_t size;
  Usage usage;
};

struct BackendTable {
  const char* (*get_name)(Backend*);
  void (*free)(Backend*);
  void* set_tensor_async;
  void* get_tensor_async;
  void* set_tensor_2d_async;
  void* get_tensor_2d_async;
  void* cpy_tensor_async;
  void (*synchronize)(Backend*);
  void* graph_plan_create;
  void* graph_plan_free;
  void* graph_plan_update;
  void* graph_plan_compute;
  Status (*graph_compute)(Backend*, Graph*);
  void* event_record;
  void* event_wait;
  void* graph_optimize;
};

struct Backend {
  void* guid;
  BackendTable table;
  Device* device;
  void* context;
};

struct DeviceCaps {
  bool async, host_buffer, buffer_from_host_ptr, events, mmap_support;
};

struct DeviceProps {
  const char* name;
  const char* description;
  std::size_t memory_free, memory_total;
  DeviceType type;
  const char* device_id;
  DeviceCaps caps;
};

struct DeviceTable {
  const char* (*get_name)(Device*);
  const char* (*get_description)(Device*);
  void (*get_memory)(Device*, std::size_t*, std::size_t*);
  DeviceType (*get_type)(Device*);
  void (*get_props)(Device*, DeviceProps*);
  Backend* (*init_backend)(Device*, const char*);
  BufferType* (*get_buffer_type)(Device*);
  BufferType* (*get_host_buffer_type)(Device*);
  Buffer* (*buffer_from_host_ptr)(Device*, void*, std::size_t, std::size_t);
  bool (*supports_op)(Device*, const Tensor*);
  bool (*supports_buft)(Device*, BufferType*);
  bool (*offload_op)(Device*, const Tensor*);
  void* event_new;
  void* event_free;
  void* event_synchronize;
};

struct Device {
  DeviceTable table;
  Reg* reg;
  void* context;
};

struct RegTable {
  const char* (*get_name)(Reg*);
  std::size_t (*get_device_count)(Reg*);
  Device* (*get_device)(Reg*, std::size_t);
  void* (*get_proc_address)(Reg*, const char*);
};

struct Reg {
  int api_version;
  RegTable table;
  void* context;
};

struct InitParams {
  std::size_t memory_bytes;
  void* memory;
  bool no_alloc;
};

}  // namespace artesian::ggml
