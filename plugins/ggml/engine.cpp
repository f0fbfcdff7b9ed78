#include "engine.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>

namespace artesian::ggml {
namespace {

constexpr std::size_t tensor_object_bytes = 32;  // what ggml_tensor_overhead adds to the tensor itself
constexpr std::array<std::string_view, 5> views = {"NONE", "VIEW", "RESHAPE", "PERMUTE", "TRANSPOSE"};
// Attention in one operator is not among them: the engine gives it up where it is not computed by the layer's device.
constexpr std::array<std::string_view, 14> between = {"ADD",  "SUB", "MUL",   "DIV",      "SCALE", "NORM", "RMS_NORM",
                                                      "ROPE", "GLU", "UNARY", "SOFT_MAX", "CPY",   "CONT", "SET_ROWS"};
constexpr int op_numbers = 101;  // no more than any known engine has: ggml_op_name does not check its argument

// ggml's libraries may have been opened with local visibility, out of reach of the default search.
void* find_symbol(const char* name) {
  if (void* symbol = dlsym(RTLD_DEFAULT, name)) return symbol;
  struct Search {
    const char* name;
    void* symbol;
  } search{name, nullptr};
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* data) {
        auto& wanted = *static_cast<Search*>(data);
        const std::string_view path = info->dlpi_name != nullptr ? info->dlpi_name : "";
        const std::string_view file = path.substr(path.rfind('/') + 1);
        if (!file.starts_with("libggml") || file.starts_with("libggml-artesian")) return 0;
        if (void* handle = dlopen(info->dlpi_name, RTLD_LAZY | RTLD_NOLOAD)) {
          wanted.symbol = dlsym(handle, wanted.name);
          dlclose(handle);
        }
        return wanted.symbol != nullptr ? 1 : 0;
      },
      &search);
  return search.symbol;
}

template <typename Function>
bool look_up(Function& function, const char* name) {
  function = reinterpret_cast<Function>(find_symbol(name));
  return function != nullptr;
}

template <typename Function>
void ask_reg(Function& function, Reg* reg, const char* name) {
  if (reg->table.get_proc_address == nullptr) return;
  function = reinterpret_cast<Function>(reg->table.get_proc_address(reg, name));
}

Status find_cpu(Engine& engine) {
  std::size_t (*reg_count)() = nullptr;
  Reg* (*reg_get)(std::size_t) = nullptr;
  if (!look_up(reg_count, "ggml_backend_reg_count") || !look_up(reg_get, "ggml_backend_reg_get")) {
    return status_failed;
  }
  for (std::size_t i = 0; i < reg_count(); ++i) {
    Reg* reg = reg_get(i);
    engine.api_version = reg->api_version;
    for (std::size_t k = 0; k < reg->table.get_device_count(reg); ++k) {
      Device* device = reg->table.get_device(reg, k);
      const DeviceType type = device->table.get_type(device);
      engine.cpu_alone = engine.cpu_alone && (type == device_cpu || type == device_accel);
    }
    if (std::strcmp(reg->table.get_name(reg), "CPU") != 0 || reg->table.get_device_count(reg) == 0) continue;
    engine.cpu_reg = reg;
    engine.cpu_device = reg->table.get_device(reg, 0);
  }
  return engine.cpu_device != nullptr ? status_success : status_failed;
}

bool look_up_functions(Engine& engine) {
  return look_up(engine.op_name, "ggml_op_name") && look_up(engine.dev_supports_op, "ggml_backend_dev_supports_op") &&
         look_up(engine.buft_is_host, "ggml_backend_buft_is_host") &&
         look_up(engine.dev_init, "ggml_backend_dev_init") && look_up(engine.backend_free, "ggml_backend_free") &&
         look_up(engine.graph_compute, "ggml_backend_graph_compute") && look_up(engine.init, "ggml_init") &&
         look_up(engine.free, "ggml_free") && look_up(engine.new_graph, "ggml_new_graph_custom") &&
         look_up(engine.graph_clear, "ggml_graph_clear") && look_up(engine.graph_add_node, "ggml_graph_add_node") &&
         look_up(engine.graph_size, "ggml_graph_n_nodes") && look_up(engine.graph_node, "ggml_graph_node") &&
         look_up(engine.buffer_init, "ggml_backend_buffer_init");
}

}  // namespace

Result<Engine> find_engine() {
  Engine engine;
  const char* (*version)() = nullptr;
  std::size_t (*tensor_overhead)() = nullptr;
  BufferType* (*cpu_buffer_type)() = nullptr;
  if (!look_up(version, "ggml_version") || !look_up(tensor_overhead, "ggml_tensor_overhead") ||
      !look_up(cpu_buffer_type, "ggml_backend_cpu_buffer_type") || !look_up_functions(engine)) {
    return fail(Code::rejected,
                "this engine's ggml lacks functions that the weights door needs; it runs without the door");
  }
  engine.version = version();
  engine.cpu_buffer_type = cpu_buffer_type();
  if (find_cpu(engine) != status_success) {
    return fail(Code::rejected, "ggml {} has no CPU backend registered; the engine runs without the door",
                engine.version);
  }
  if (engine.api_version != 2 && engine.api_version != 3) {
    return fail(Code::rejected,
                "ggml {} has backend API version {}, known are 2 and 3; the engine runs without the door",
                engine.version, engine.api_version);
  }
  if (tensor_overhead() != sizeof(Tensor) + tensor_object_bytes) {
    return fail(Code::rejected, "ggml {} lays tensors out in a way that is not known; the engine runs without the door",
                engine.version);
  }
  for (int op = 0; op < op_numbers; ++op) {
    const std::string_view name = engine.op_name(op);
    const auto number = static_cast<std::size_t>(op);
    engine.op_computes_nothing[number] = std::ranges::find(views, name) != views.end();
    engine.op_joins[number] = std::ranges::find(between, name) != between.end();
    if (name == "MUL_MAT") engine.op_mul_mat = op;
    if (name == "MUL_MAT_ID") engine.op_mul_mat_id = op;
  }
  ask_reg(engine.set_n_threads, engine.cpu_reg, "ggml_backend_set_n_threads");
  ask_reg(engine.set_threadpool, engine.cpu_reg, "ggml_backend_cpu_set_threadpool");
  ask_reg(engine.set_abort_callback, engine.cpu_reg, "ggml_backend_set_abort_callback");
  return engine;
}

}  // namespace artesian::ggml
