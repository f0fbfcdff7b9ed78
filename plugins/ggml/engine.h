// The engine that loaded us: its functions, looked up by name, and a check that its binary interface is one we know.
#pragma once

#include <array>
#include <string>

#include "abi.h"
#include "base/result.h"

namespace artesian::ggml {

struct Engine {
  int api_version = 0;
  std::string version;  // "0.26.0"
  Reg* cpu_reg = nullptr;
  Device* cpu_device = nullptr;
  BufferType* cpu_buffer_type = nullptr;

  const char* (*op_name)(int) = nullptr;
  bool (*dev_supports_op)(Device*, const Tensor*) = nullptr;
  bool (*buft_is_host)(BufferType*) = nullptr;
  Backend* (*dev_init)(Device*, const char*) = nullptr;
  void (*backend_free)(Backend*) = nullptr;
  Status (*graph_compute)(Backend*, Graph*) = nullptr;
  Context* (*init)(InitParams) = nullptr;
  void (*free)(Context*) = nullptr;
  Graph* (*new_graph)(Context*, std::size_t, bool) = nullptr;
  void (*graph_clear)(Graph*) = nullptr;
  void (*graph_add_node)(Graph*, Tensor*) = nullptr;
  int (*graph_size)(Graph*) = nullptr;
  Tensor* (*graph_node)(Graph*, int) = nullptr;
  Buffer* (*buffer_init)(BufferType*, BufferTable, void*, std::size_t) = nullptr;
  void (*set_n_threads)(Backend*, int) = nullptr;
  void (*set_threadpool)(Backend*, void*) = nullptr;
  void (*set_abort_callback)(Backend*, bool (*)(void*), void*) = nullptr;

  int op_mul_mat = -1, op_mul_mat_id = -1;
  // By operator number.
  std::array<bool, 256> op_computes_nothing{};  // NONE and views
  std::array<bool, 256> op_joins{};             // what lies between products, and may be computed along with them
  bool cpu_alone = true;                        // no GPU or other device with memory of its own
};

// Looks everything up in what is loaded. Code::rejected, in one clear sentence, for an engine that we do not know.
Result<Engine> find_engine();

}  // namespace artesian::ggml
