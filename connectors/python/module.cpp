// The module artesian._artesian: the store as Python sees it, one thin class. The GIL is not held while the store
// works; what is friendlier about it is written in Python (artesian/__init__.py).
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <map>
#include <mutex>

#include "batches.h"
#include "library/open.h"
#include "library/stat_rows.h"

namespace nb = nanobind;

namespace artesian::python {
namespace {

nb::object store_error;  // artesian.StoreError, with a code

[[noreturn]] void raise(const Error& error) {
  const nb::object made = store_error(error.message);
  made.attr("code") = nb::str(std::string(code_name(error.code)).c_str());
  PyErr_SetObject(store_error.ptr(), made.ptr());
  throw nb::python_error();
}

template <typename Value>
Value value_of(Result<Value> result) {
  if (!result) raise(result.error());
  if constexpr (!std::is_void_v<Value>) return std::move(*result);
}

StoreFilesOptions files_of(const std::vector<std::string>& paths, const std::vector<std::uint64_t>& caps,
                           std::uint64_t memory_bytes, std::uint64_t buffer_bytes, std::uint32_t queue_depth,
                           const std::string& key_file) {
  StoreFilesOptions options;
  options.key_file = key_file;
  for (std::size_t i = 0; i < paths.size(); ++i) {
    options.paths.push_back({.path = paths[i], .bytes = i < caps.size() ? caps[i] : 0});
  }
  options.engine.memory_bytes = memory_bytes;
  if (buffer_bytes > 0) options.engine.buffer_bytes_max = buffer_bytes;
  if (queue_depth > 0) options.queue_depth_max = queue_depth;
  return options;
}

void create(const std::vector<std::string>& paths, const std::vector<std::uint64_t>& caps, std::uint64_t segment_bytes,
            std::uint64_t block_bytes_max, bool overwrite, const std::string& key_file) {
  StoreFilesOptions options = files_of(paths, caps, 0, 0, 0, key_file);
  if (segment_bytes > 0) options.geometry.segment_bytes = segment_bytes;
  if (block_bytes_max > 0) options.geometry.block_bytes_max = block_bytes_max;
  Status made;
  {
    const nb::gil_scoped_release released;
    made = create_store(options, overwrite);
  }
  value_of(std::move(made));
}

class PyStore {
  StoreHost& host() {
    if (host_ == nullptr) raise({Code::invalid, "the store is closed"});
    return *host_;
  }

  // Seconds from now; 0 or less: none.
  static Batch way(const Store& store, double deadline, bool staged) {
    Batch batch{.urgency = staged ? Urgency::staged : Urgency::demand};
    if (deadline > 0) batch.deadline = store.now() + Nanos(static_cast<std::int64_t>(deadline * 1e9));
    return batch;
  }

  template <typename Call>
  auto released(Call call) {
    Store& store = host().store();
    const nb::gil_scoped_release without;
    return call(store);
  }

  static std::vector<std::span<const std::byte>> keys_of(const ProbeBatch& batch) {
    std::vector<std::span<const std::byte>> keys;
    for (const Probe& item : batch.items) keys.push_back(item.key);
    return keys;
  }

  nb::object probe(NamespaceId ns, nb::handle keys, void (Store::*call)(NamespaceId, std::span<Probe>)) {
    ProbeBatch batch(keys.ptr());
    released([&](Store& store) { (store.*call)(ns, batch.items); });
    return nb::steal(batch.outcomes());
  }

  std::uint64_t submit_probe(NamespaceId ns, nb::handle keys, void (Store::*call)(NamespaceId, std::span<Probe>)) {
    return submit(std::make_unique<ProbeBatch>(keys.ptr()), [&](ProbeBatch& batch, const auto& done) {
      (host().store().*call)(ns, batch.items);
      done();
    });
  }

  template <typename Made, typename Submit>
  std::uint64_t submit(std::unique_ptr<Made> made, Submit submit) {
    StoreHost& to = host();
    const std::uint64_t tag = ++last_tag_;
    Made& batch = *made;
    batches_.emplace(tag, std::move(made));
    const nb::gil_scoped_release without;
    submit(batch, [&to, tag] { to.announce(tag); });
    return tag;
  }

 public:
  PyStore(const std::vector<std::string>& paths, const std::vector<std::uint64_t>& caps, std::uint64_t memory_bytes,
          std::uint64_t buffer_bytes, std::uint32_t queue_depth, const std::string& metrics,
          const std::string& key_file, bool share) {
    const StoreFilesOptions options = files_of(paths, caps, memory_bytes, buffer_bytes, queue_depth, key_file);
    Result<std::unique_ptr<Host>> opened;
    {
      const nb::gil_scoped_release without;
      opened = open_host(options, {.metrics = metrics, .share = share});
    }
    auto host = value_of(std::move(opened));
    metrics_port_ = host->metrics_port();
    host_ = std::move(host);
  }
  // The store that another process shares.
  PyStore(const std::string& path, std::uint64_t buffer_bytes) {
    Result<std::unique_ptr<StoreHost>> attached;
    {
      const nb::gil_scoped_release without;
      attached = attach_host(path, buffer_bytes);
    }
    host_ = value_of(std::move(attached));
  }
  ~PyStore() { close(); }

  // Waits for what is under way; batches that were not drained are let go.
  void close() {
    {
      const nb::gil_scoped_release released;
      host_.reset();
    }
    batches_.clear();
  }

  std::uint32_t open_namespace(const std::string& weights, const std::string& model, const std::string& dtype,
                               const std::string& layout, const std::string& adapter, const std::string& salt,
                               const std::string& codec, const std::string& policy, std::uint32_t block_tokens,
                               std::uint32_t rank, std::uint32_t world_size) {
    return value_of(released([&](Store& store) {
      return store.open_namespace({.model = model,
                                   .weights = weights,
                                   .dtype = dtype,
                                   .layout = layout,
                                   .block_tokens = block_tokens,
                                   .rank = rank,
                                   .world_size = world_size,
                                   .adapter = adapter,
                                   .salt = salt,
                                   .codec = codec,
                                   .policy = policy});
    }));
  }
  void erase_namespace(NamespaceId ns) {
    value_of(released([&](Store& store) { return store.erase_namespace(ns); }));
  }

  nb::object put(NamespaceId ns, nb::handle keys, nb::handle data, nb::handle parents, nb::handle attributes,
                 nb::handle hints, double deadline, bool staged) {
    PutBatch batch(keys.ptr(), data.ptr(), parents.ptr(), attributes.ptr(), hints.ptr());
    released([&](Store& store) { store.put(ns, batch.items, way(store, deadline, staged)); });
    return nb::steal(batch.outcomes());
  }
  std::pair<nb::object, nb::object> get(NamespaceId ns, nb::handle keys, nb::handle buffers, double deadline,
                                        bool staged) {
    GetBatch batch(keys.ptr(), buffers.ptr());
    released([&](Store& store) { store.get(ns, batch.items, way(store, deadline, staged)); });
    return {nb::steal(batch.outcomes()), nb::steal(batch.sizes())};
  }

  // A tag, which drain() gives back with what came of it.
  std::uint64_t submit_put(NamespaceId ns, nb::handle keys, nb::handle data, nb::handle parents, nb::handle attributes,
                           nb::handle hints, double deadline, bool staged) {
    return submit(std::make_unique<PutBatch>(keys.ptr(), data.ptr(), parents.ptr(), attributes.ptr(), hints.ptr()),
                  [&](PutBatch& batch, auto done) {
                    host().submit(ns, std::span(batch.items), way(host().store(), deadline, staged), std::move(done));
                  });
  }
  std::uint64_t submit_get(NamespaceId ns, nb::handle keys, nb::handle buffers, double deadline, bool staged) {
    return submit(std::make_unique<GetBatch>(keys.ptr(), buffers.ptr()), [&](GetBatch& batch, auto done) {
      host().submit(ns, std::span(batch.items), way(host().store(), deadline, staged), std::move(done));
    });
  }
  std::uint64_t submit_stage(NamespaceId ns, nb::handle keys, double deadline) {
    return submit(std::make_unique<ProbeBatch>(keys.ptr()), [&](ProbeBatch& batch, auto done) {
      host().stage(ns, std::span(batch.items), way(host().store(), deadline, true), std::move(done));
    });
  }
  // Answered from memory at once, and drained like the rest.
  std::uint64_t submit_exists(NamespaceId ns, nb::handle keys) { return submit_probe(ns, keys, &Store::exists); }
  std::uint64_t submit_erase(NamespaceId ns, nb::handle keys) { return submit_probe(ns, keys, &Store::erase); }
  int metrics_port() const { return metrics_port_; }
  int event_fd() { return host().event_fd(); }

  // Waits until nothing that was submitted is under way.
  void settle() {
    StoreHost& to = host();
    const nb::gil_scoped_release without;
    to.settle();
  }

  // [(tag, outcomes, sizes or None), ...] of what was answered since.
  nb::list drain() {
    nb::list all;
    std::array<std::uint64_t, 64> tags{};
    for (;;) {
      const std::size_t count = host().drain(tags);
      for (std::size_t i = 0; i < count; ++i) {
        const auto batch = batches_.extract(tags[i]);
        all.append(nb::make_tuple(tags[i], nb::steal(batch.mapped()->outcomes()), nb::steal(batch.mapped()->sizes())));
      }
      if (count < tags.size()) return all;
    }
  }

  nb::object exists(NamespaceId ns, nb::handle keys) { return probe(ns, keys, &Store::exists); }
  nb::object erase(NamespaceId ns, nb::handle keys) { return probe(ns, keys, &Store::erase); }
  nb::object pin(NamespaceId ns, nb::handle keys) { return probe(ns, keys, &Store::pin); }
  void unpin(NamespaceId ns, nb::handle keys) {
    const ProbeBatch batch(keys.ptr());
    const auto names = keys_of(batch);
    released([&](Store& store) { store.unpin(ns, names); });
  }
  nb::object pin_named(NamespaceId ns, const std::string& name, nb::handle keys) {
    ProbeBatch batch(keys.ptr());
    value_of(released([&](Store& store) { return store.pin_named(ns, name, batch.items); }));
    return nb::steal(batch.outcomes());
  }
  // False: there was none.
  bool unpin_named(NamespaceId ns, const std::string& name) {
    auto unpinned = released([&](Store& store) { return store.unpin_named(ns, name); });
    if (!unpinned && unpinned.error().code == Code::not_found) return false;
    value_of(std::move(unpinned));
    return true;
  }
  // [(namespace, name, blocks, bytes), ...]
  nb::list named_pins() {
    nb::list all;
    for (const PinFacts& pin : released([](Store& store) { return store.named_pins(); })) {
      all.append(nb::make_tuple(pin.ns, nb::bytes(pin.name.data(), pin.name.size()), pin.blocks, pin.bytes));
    }
    return all;
  }
  std::size_t longest_prefix(NamespaceId ns, nb::handle keys) {
    const ProbeBatch batch(keys.ptr());
    const auto names = keys_of(batch);
    return released([&](Store& store) { return store.longest_prefix(ns, names); });
  }

  void flush() {
    value_of(released([&](Store& store) { return store.flush(); }));
  }

  // [(key, parent, attributes, bytes, (hints...)), ...]
  nb::list list(NamespaceId ns) {
    std::vector<BlockFacts> found;
    value_of(released([&](Store& store) {
      return store.list(ns, [&](const BlockFacts& facts) {
        found.push_back(facts);
        return true;
      });
    }));
    const auto bytes = [](const std::vector<std::byte>& from) { return nb::bytes(from.data(), from.size()); };
    nb::list all;
    for (const BlockFacts& facts : found) {
      const BlockHints& hints = facts.hints;
      all.append(nb::make_tuple(bytes(facts.key), bytes(facts.parent), bytes(facts.attributes), facts.bytes,
                                nb::make_tuple(hints.session, hints.position, hints.tokens, hints.deadline_ms,
                                               hints.next_use_ms, hints.lifetime)));
    }
    return all;
  }

  nb::dict stats() {
    const StoreStats now = released([](Store& store) { return store.stats(); });
    nb::dict all;
    for (const StatRow& row : stat_rows) all[row.name] = now.*row.figure;
    return all;
  }

 private:
  std::unique_ptr<StoreHost> host_;
  int metrics_port_ = 0;
  // With the GIL held: under way, or answered and not drained.
  std::map<std::uint64_t, std::unique_ptr<AnyBatch>> batches_;
  std::uint64_t last_tag_ = 0;
};

}  // namespace

NB_MODULE(_artesian, module) {
  module.def("set_error_class", [](nb::object error) { store_error = std::move(error); }, nb::arg("error"));
  module.def("create", &create, nb::arg("paths"), nb::arg("caps"), nb::arg("segment_bytes"), nb::arg("block_bytes_max"),
             nb::arg("overwrite"), nb::arg("key_file"));
  nb::class_<PyStore>(module, "Store")
      .def(nb::init<const std::vector<std::string>&, const std::vector<std::uint64_t>&, std::uint64_t, std::uint64_t,
                    std::uint32_t, const std::string&, const std::string&, bool>(),
           nb::arg("paths"), nb::arg("caps"), nb::arg("memory_bytes"), nb::arg("buffer_bytes"), nb::arg("queue_depth"),
           nb::arg("metrics"), nb::arg("key_file"), nb::arg("share"))
      .def(nb::init<const std::string&, std::uint64_t>(), nb::arg("path"), nb::arg("buffer_bytes"))
      .def("metrics_port", &PyStore::metrics_port)
      .def("close", &PyStore::close)
      .def("open_namespace", &PyStore::open_namespace, nb::arg("weights"), nb::arg("model"), nb::arg("dtype"),
           nb::arg("layout"), nb::arg("adapter"), nb::arg("salt"), nb::arg("codec"), nb::arg("policy"),
           nb::arg("block_tokens"), nb::arg("rank"), nb::arg("world_size"))
      .def("erase_namespace", &PyStore::erase_namespace, nb::arg("ns"))
      .def("put", &PyStore::put, nb::arg("ns"), nb::arg("keys"), nb::arg("data"), nb::arg("parents").none(),
           nb::arg("attributes").none(), nb::arg("hints").none(), nb::arg("deadline"), nb::arg("staged"))
      .def("get", &PyStore::get, nb::arg("ns"), nb::arg("keys"), nb::arg("buffers"), nb::arg("deadline"),
           nb::arg("staged"))
      .def("submit_put", &PyStore::submit_put, nb::arg("ns"), nb::arg("keys"), nb::arg("data"),
           nb::arg("parents").none(), nb::arg("attributes").none(), nb::arg("hints").none(), nb::arg("deadline"),
           nb::arg("staged"))
      .def("submit_get", &PyStore::submit_get, nb::arg("ns"), nb::arg("keys"), nb::arg("buffers"), nb::arg("deadline"),
           nb::arg("staged"))
      .def("submit_stage", &PyStore::submit_stage, nb::arg("ns"), nb::arg("keys"), nb::arg("deadline"))
      .def("submit_exists", &PyStore::submit_exists, nb::arg("ns"), nb::arg("keys"))
      .def("submit_erase", &PyStore::submit_erase, nb::arg("ns"), nb::arg("keys"))
      .def("event_fd", &PyStore::event_fd)
      .def("drain", &PyStore::drain)
      .def("settle", &PyStore::settle)
      .def("exists", &PyStore::exists, nb::arg("ns"), nb::arg("keys"))
      .def("erase", &PyStore::erase, nb::arg("ns"), nb::arg("keys"))
      .def("pin", &PyStore::pin, nb::arg("ns"), nb::arg("keys"))
      .def("pin_named", &PyStore::pin_named, nb::arg("ns"), nb::arg("name"), nb::arg("keys"))
      .def("unpin_named", &PyStore::unpin_named, nb::arg("ns"), nb::arg("name"))
      .def("named_pins", &PyStore::named_pins)
      .def("unpin", &PyStore::unpin, nb::arg("ns"), nb::arg("keys"))
      .def("longest_prefix", &PyStore::longest_prefix, nb::arg("ns"), nb::arg("keys"))
      .def("flush", &PyStore::flush)
      .def("list", &PyStore::list, nb::arg("ns"))
      .def("stats", &PyStore::stats);
}

}  // namespace artesian::python
