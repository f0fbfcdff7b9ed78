// The plugin as ggml sees it: one registry entry, one accelerator device that takes weights, and behind it a second,
// hidden device for the running backend, whose buffer type is the CPU's own. So weights land with us when a model is
// loaded, while compute buffers are the CPU backend's and nothing is copied between the two.
//
// Before a model is loaded its files are open and its plan is made; a door that steps aside shows the CPU's buffer
// type, which the engine skips: all then goes on as without us.
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstring>
#include <memory>

#include "door.h"
#include "engine.h"
#include "executor.h"
#include "platform/file.h"

namespace artesian::ggml {
namespace {

constexpr std::size_t tensor_alignment = 32;

struct Plugin {
  Engine engine;
  Settings settings;
  Reg reg{};
  Device weights_device{}, compute_device{};
  BufferType2 type2{};
  BufferType3 type3{};
  void* (*cpu_get_proc_address)(Reg*, const char*) = nullptr;

  BufferType* type() { return engine.api_version == 2 ? static_cast<BufferType*>(&type2) : &type3; }
};

Plugin& plugin() {
  static Plugin instance;
  return instance;
}

// A buffer of ours: memory of its own (pages only where something is written), or the engine's mapping of a model file.
struct WeightBuffer {
  Arena arena;
  void* base = nullptr;
  std::optional<MappedFile> mapped;
  Door* door = nullptr;  // whose weights it holds

  ~WeightBuffer() { hold(nullptr); }
  void hold(Door* other) {
    if (door == other) return;
    if (door != nullptr) door->leave();
    door = other;
    if (door != nullptr) door->enter();
  }
};

WeightBuffer& context_of(Buffer* buffer) {
  return *static_cast<WeightBuffer*>(buffer->context);
}

Door* door_of(const std::string& path) {
  return find_door(path, plugin().settings, plugin().engine.version);
}

// The door among these files that does not step aside.
Door* wanted_door(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    if (Door* door = door_of(path); door != nullptr && (door->active() || door->refused())) return door;
  }
  return nullptr;
}

// The door of the model that the engine is loading now.
Door* loading_door() {
  return wanted_door(open_gguf_files());
}

// ---- buffers --------------------------------------------------------------------------------------------------------

void free_buffer(Buffer* buffer) {
  delete &context_of(buffer);
}

void* get_base(Buffer* buffer) {
  return context_of(buffer).base;
}

// A mapped weight is ours if it lies where the plan says that it lies in the file.
Status init_tensor(Buffer* buffer, Tensor* tensor) {
  WeightBuffer& own = context_of(buffer);
  if (!own.mapped || tensor->view_src != nullptr) return status_success;
  tensor->extra = nullptr;
  if (own.door == nullptr) return status_success;
  Binding* binding = own.door->find(tensor->name);
  if (binding == nullptr) return status_success;
  const GgufTensor& planned = own.door->model().tensors[binding->tensor];
  const auto distance = static_cast<std::uint64_t>(static_cast<char*>(tensor->data) - static_cast<char*>(own.base));
  if (own.door->model().paths[planned.file] == own.mapped->path && own.mapped->offset + distance == planned.offset) {
    tensor->extra = binding;
  }
  return status_success;
}

// Bytes handed over without a mapping: if the whole tensor equals its place in the file, the file is enough.
bool equals_file(const Door& door, const Binding& binding, const void* data, std::size_t size) {
  const GgufTensor& planned = door.model().tensors[binding.tensor];
  if (planned.bytes != size) return false;
  auto file = File::open(door.model().paths[planned.file], {});
  if (!file) return false;
  std::vector<std::byte> part(1U << 20);
  for (std::size_t at = 0; at < size; at += part.size()) {
    const auto piece = std::span(part).first(std::min(part.size(), size - at));
    if (!file->read(planned.offset + at, piece)) return false;
    if (std::memcmp(piece.data(), static_cast<const char*>(data) + at, piece.size()) != 0) return false;
    file->forget_cached(planned.offset + at, piece.size());
  }
  return true;
}

void set_tensor(Buffer* buffer, Tensor* tensor, const void* data, std::size_t offset, std::size_t size) {
  WeightBuffer& own = context_of(buffer);
  if (buffer->usage == usage_weights && tensor->view_src == nullptr && !own.mapped) {
    tensor->extra = nullptr;
    Door* door = offset == 0 ? loading_door() : nullptr;
    Binding* binding = door != nullptr ? door->find(tensor->name) : nullptr;
    if (binding != nullptr && equals_file(*door, *binding, data, size)) {
      own.hold(door);
      tensor->extra = binding;
      return;
    }
  }
  if (!own.mapped) std::memcpy(static_cast<char*>(tensor->data) + offset, data, size);
}

void memset_tensor(Buffer* buffer, Tensor* tensor, std::uint8_t value, std::size_t offset, std::size_t size) {
  if (!context_of(buffer).mapped) std::memset(static_cast<char*>(tensor->data) + offset, value, size);
}

void get_tensor(Buffer* buffer, const Tensor* tensor, void* data, std::size_t offset, std::size_t size) {
  const Binding* binding = static_cast<const Binding*>(tensor->extra);
  if (buffer->usage == usage_weights && !context_of(buffer).mapped && binding != nullptr) {
    const GgufTensor& planned = binding->door->model().tensors[binding->tensor];
    auto file = File::open(binding->door->model().paths[planned.file], {});
    const artesian::Status read =
        file ? file->read(planned.offset + offset, {static_cast<std::byte*>(data), size}) : fail(file.error());
    if (!read) std::fprintf(stderr, "artesian: %s: %s\n", tensor->name, read.error().message.c_str());
    return;
  }
  std::memcpy(data, static_cast<const char*>(tensor->data) + offset, size);
}

void clear(Buffer* buffer, std::uint8_t value) {
  WeightBuffer& own = context_of(buffer);
  if (!own.mapped) std::memset(own.base, value, buffer->size);
}

constexpr BufferTable buffer_table = {.free_buffer = free_buffer,
                                      .get_base = get_base,
                                      .init_tensor = init_tensor,
                                      .memset_tensor = memset_tensor,
                                      .set_tensor = set_tensor,
                                      .get_tensor = get_tensor,
                                      .set_tensor_2d = nullptr,
                                      .get_tensor_2d = nullptr,
                                      .cpy_tensor = nullptr,
                                      .clear = clear,
                                      .reset = nullptr};

// A model whose door is refused gets no memory, so that the engine gives up loading it. It asks for a buffer of no
// bytes when it only wants to know what will lie where.
Buffer* alloc_buffer(BufferType* type, std::size_t size) {
  if (const Door* door = size > 0 ? loading_door() : nullptr; door != nullptr && door->refused()) return nullptr;
  auto own = std::make_unique<WeightBuffer>();
  auto arena = Arena::reserve(size);
  if (!arena) return nullptr;
  own->arena = std::move(*arena);
  own->base = own->arena.data();
  return plugin().engine.buffer_init(type, buffer_table, own.release(), size);
}

Buffer* buffer_from_host_ptr(Device*, void* address, std::size_t size, std::size_t) {
  auto own = std::make_unique<WeightBuffer>();
  own->base = address;
  own->mapped = find_mapping(address);
  if (!own->mapped) own->mapped = MappedFile{};
  if (!own->mapped->path.empty()) own->hold(door_of(own->mapped->path));
  if (own->door != nullptr && own->door->refused()) return nullptr;
  if (own->door != nullptr && own->door->active()) own->door->advise(*own->mapped);
  return plugin().engine.buffer_init(plugin().type(), buffer_table, own.release(), size);
}

const char* type_name(BufferType*) {
  return "Artesian";
}
std::size_t type_alignment(BufferType*) {
  return tensor_alignment;
}
bool type_is_host(BufferType*) {
  return false;
}

// ---- operations -----------------------------------------------------------------------------------------------------

Buffer* buffer_of(const Tensor* tensor) {
  return tensor->view_src != nullptr ? tensor->view_src->buffer : tensor->buffer;
}

bool is_ours(const Buffer* buffer) {
  return buffer != nullptr && buffer->type == plugin().type();
}

// What lies between a dense model's products and is the CPU backend's to compute: it comes with them, since every
// change of backends costs the threads a meeting. In engines with a GPU that stays the scheduler's to decide.
bool joins_products(const Device* device, const Tensor* op) {
  const Engine& engine = plugin().engine;
  const bool between = engine.op_joins[static_cast<std::size_t>(op->op) % engine.op_joins.size()];
  if (!(between || op->op == engine.op_mul_mat) || device != &plugin().compute_device || !engine.cpu_alone ||
      !dense_door_at_work()) {
    return false;
  }
  for (const Tensor* source : op->src) {
    if (source != nullptr && is_ours(buffer_of(source))) return false;
  }
  return engine.dev_supports_op(engine.cpu_device, op);
}

// Matrix products whose weight lies with us and that the CPU backend can compute. While a model is loaded the engine
// asks with a dummy buffer of ours: then the plan decides.
bool supports_op(Device* device, const Tensor* op) {
  const Engine& engine = plugin().engine;
  if (engine.op_computes_nothing[static_cast<std::size_t>(op->op) % engine.op_computes_nothing.size()]) {
    return is_ours(buffer_of(op));
  }
  if (op->op != engine.op_mul_mat && op->op != engine.op_mul_mat_id) return joins_products(device, op);
  const Tensor* weights = op->src[0];
  Buffer* buffer = buffer_of(weights);
  if (!is_ours(buffer)) return joins_products(device, op);
  for (int i = 1; i < src_max; ++i) {
    if (op->src[i] != nullptr && is_ours(buffer_of(op->src[i]))) return false;
  }
  if (buffer->size == 0 && weights->data == nullptr) {
    Door* door = loading_door();
    if (door != nullptr && door->refused()) return true;
    const Binding* binding = door != nullptr ? door->find(weights->name) : nullptr;
    if (binding == nullptr || binding->expert != (op->op == engine.op_mul_mat_id)) return false;
  }
  Tensor plain = *op, plain_weights = *weights;  // the CPU backend must not see a buffer that it cannot read
  plain_weights.buffer = nullptr;
  plain_weights.view_src = nullptr;
  plain.src[0] = &plain_weights;
  return engine.dev_supports_op(engine.cpu_device, &plain);
}

bool supports_buft(Device*, BufferType* type) {
  return type == plugin().type() || plugin().engine.buft_is_host(type);
}

// ---- the running backend --------------------------------------------------------------------------------------------

const char* backend_name(Backend*) {
  return "Artesian";
}

void backend_free(Backend* backend) {
  publish_doors();
  delete static_cast<Executor*>(backend->context);
  delete backend;
}

// The threads that the user wants (their processors, priority, how long they poll): the engine hands them to its CPU
// backend before each graph, in the thread that computes it, and ours compute with them, too.
thread_local void* threadpool = nullptr;

void set_threadpool(Backend* cpu_backend, void* pool) {
  threadpool = pool;
  plugin().engine.set_threadpool(cpu_backend, pool);
}

Status graph_compute(Backend* backend, Graph* graph) {
  try {
    Executor& executor = *static_cast<Executor*>(backend->context);
    if (plugin().engine.set_threadpool != nullptr && executor.delegate() != nullptr) {
      plugin().engine.set_threadpool(executor.delegate(), threadpool);
    }
    return executor.run(graph);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "artesian: %s; this batch is given up\n", error.what());
    return status_failed;
  }
}

Backend* init_backend(Device*, const char*) {
  static std::array<std::uint8_t, 16> guid = {'a', 'r', 't', 'e', 's', 'i', 'a', 'n', 1, 7, 3, 9, 2, 8, 4, 6};
  auto backend = std::make_unique<Backend>();
  backend->guid = guid.data();
  backend->table.get_name = backend_name;
  backend->table.free = backend_free;
  backend->table.graph_compute = graph_compute;
  backend->device = &plugin().compute_device;
  backend->context = std::make_unique<Executor>(plugin().engine).release();
  return backend.release();
}

void set_n_threads(Backend* backend, int threads) {
  Backend* delegate = static_cast<Executor*>(backend->context)->delegate();
  if (plugin().engine.set_n_threads != nullptr && delegate != nullptr) {
    plugin().engine.set_n_threads(delegate, threads);
  }
}

void set_abort_callback(Backend* backend, bool (*callback)(void*), void* data) {
  Backend* delegate = static_cast<Executor*>(backend->context)->delegate();
  if (plugin().engine.set_abort_callback != nullptr && delegate != nullptr) {
    plugin().engine.set_abort_callback(delegate, callback, data);
  }
}

// ---- devices and registry -------------------------------------------------------------------------------------------

const char* device_name(Device*) {
  return "Artesian";
}
const char* device_description(Device*) {
  return "weights streamed from flash";
}
DeviceType device_type(Device*) {
  return device_accel;
}

void device_memory(Device*, std::size_t* free, std::size_t* total) {
  *free = *total = 0;
}

void device_props(Device*, DeviceProps* props) {
  *props = {.name = "Artesian",
            .description = device_description(nullptr),
            .memory_free = 0,
            .memory_total = 0,
            .type = device_accel,
            .device_id = nullptr,
            .caps = {.buffer_from_host_ptr = true, .mmap_support = true}};
}

BufferType* weights_buffer_type(Device*) {
  const auto files = open_gguf_files();
  if (!files.empty() && wanted_door(files) == nullptr) return plugin().engine.cpu_buffer_type;
  return plugin().type();
}

BufferType* compute_buffer_type(Device*) {
  return plugin().engine.cpu_buffer_type;
}

const char* reg_name(Reg*) {
  return "Artesian";
}
std::size_t reg_device_count(Reg*) {
  return 1;
}
Device* reg_device(Reg*, std::size_t) {
  return &plugin().weights_device;
}

void* reg_proc_address(Reg*, const char* name) {
  if (std::strcmp(name, "ggml_backend_set_n_threads") == 0) return reinterpret_cast<void*>(set_n_threads);
  if (std::strcmp(name, "ggml_backend_set_abort_callback") == 0) return reinterpret_cast<void*>(set_abort_callback);
  return nullptr;
}

// Repacked kernels round differently: while a door is active the weights left to the engine keep the file's layout,
// too.
void* cpu_proc_address(Reg* reg, const char* name) {
  if (std::strcmp(name, "ggml_backend_dev_get_extra_bufts") == 0 && loading_door() != nullptr) return nullptr;
  if (plugin().engine.set_threadpool != nullptr && std::strcmp(name, "ggml_backend_cpu_set_threadpool") == 0) {
    return reinterpret_cast<void*>(set_threadpool);
  }
  return plugin().cpu_get_proc_address(reg, name);
}

void build_tables(Plugin& self) {
  self.type2 = {.table = {.get_name = type_name,
                          .alloc_buffer = alloc_buffer,
                          .get_alignment = type_alignment,
                          .is_host = type_is_host},
                .device = &self.weights_device};
  self.type3 = {.table = {.get_name = type_name,
                          .alloc_buffer = alloc_buffer,
                          .get_alignment = type_alignment,
                          .is_host = type_is_host},
                .device = &self.weights_device};
  self.weights_device.table = {.get_name = device_name,
                               .get_description = device_description,
                               .get_memory = device_memory,
                               .get_type = device_type,
                               .get_props = device_props,
                               .init_backend = init_backend,
                               .get_buffer_type = weights_buffer_type,
                               .buffer_from_host_ptr = buffer_from_host_ptr,
                               .supports_op = supports_op,
                               .supports_buft = supports_buft};
  self.weights_device.reg = &self.reg;
  self.compute_device = self.weights_device;
  self.compute_device.table.get_buffer_type = compute_buffer_type;
  self.reg = {.api_version = self.engine.api_version,
              .table = {.get_name = reg_name,
                        .get_device_count = reg_device_count,
                        .get_device = reg_device,
                        .get_proc_address = reg_proc_address}};
  self.cpu_get_proc_address = self.engine.cpu_reg->table.get_proc_address;
  self.engine.cpu_reg->table.get_proc_address = cpu_proc_address;
}

Reg* register_plugin() {
  static Reg* const registered = []() -> Reg* {
    auto engine = find_engine();
    if (!engine) {
      std::fprintf(stderr, "artesian: %s\n", engine.error().message.c_str());
      return nullptr;
    }
    Plugin& self = plugin();
    self.engine = std::move(*engine);
    self.settings = read_settings();
    build_tables(self);
    return &self.reg;
  }();
  return registered;
}

}  // namespace
}  // namespace artesian::ggml

#define ARTESIAN_EXPORT extern "C" __attribute__((visibility("default")))

ARTESIAN_EXPORT void* ggml_backend_init() {
  return artesian::ggml::register_plugin();
}

// Asked by the preload shim: shall the model file behind this descriptor be mapped without being read?
ARTESIAN_EXPORT int artesian_wants_lazy_mapping(int fd) {
  std::array<char, 4096> path{};
  const ssize_t length = readlink(fmt::format("/proc/self/fd/{}", fd).c_str(), path.data(), path.size() - 1);
  if (length <= 0) return 0;
  const artesian::ggml::Door* door =
      artesian::ggml::door_of(std::string(path.data(), static_cast<std::size_t>(length)));
  return door != nullptr && door->active() ? 1 : 0;
}
