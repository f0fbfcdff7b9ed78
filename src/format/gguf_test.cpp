// What is written is read back; what is broken is refused with the sentence that says where.
#include "format/gguf.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "format/gguf_writer.h"
#include "format/memory_source.h"

namespace artesian {
namespace {

constexpr std::uint32_t f32 = 0;
constexpr std::uint32_t q8_0 = 8;

Result<GgufFile> parse(std::vector<std::byte> bytes) {
  MemorySource source("m.gguf", std::move(bytes));
  return GgufFile::parse(source);
}

// A whole small file: the header and zeros for data.
std::vector<std::byte> small_file() {
  GgufPlan plan;
  plan.add_string("general.architecture", "llama");
  plan.add_u32("llama.block_count", 2);
  plan.add_i32("a.negative", -7);
  plan.add_f32("a.float", 0.5F);
  plan.add_bool("a.bool", true);
  plan.add_strings("a.strings", std::vector<std::string>{"one", "", "three"});
  plan.add_i32s("a.numbers", std::vector<std::int32_t>{1, -2, 3});
  plan.add_tensor("norm", f32, {10});
  plan.add_tensor("exps", q8_0, {64, 3, 5});
  auto bytes = plan.header(0, 2);
  bytes.resize(bytes.size() + 64 + 64 * 3 * 5 / 32 * 34);
  return bytes;
}

TEST(Gguf, ReadsWhatWasWritten) {
  const auto bytes = small_file();
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->version, 3U);
  EXPECT_EQ(file->file_bytes, bytes.size());
  EXPECT_EQ(file->find_string("general.architecture"), "llama");
  EXPECT_EQ(file->find_uint("llama.block_count"), 2U);
  EXPECT_EQ(file->find_uint("a.negative"), std::nullopt);
  EXPECT_EQ(file->find_uint("general.architecture"), std::nullopt);
  EXPECT_EQ(file->find_string("nothing"), std::nullopt);
  EXPECT_EQ(std::get<std::int64_t>(file->metadata.at("a.negative")), -7);
  EXPECT_EQ(std::get<double>(file->metadata.at("a.float")), 0.5);
  EXPECT_TRUE(std::get<bool>(file->metadata.at("a.bool")));
  EXPECT_THAT(std::get<GgufArray>(file->metadata.at("a.strings")).strings, testing::ElementsAre("one", "", "three"));
  EXPECT_THAT(std::get<GgufArray>(file->metadata.at("a.numbers")).numbers, testing::ElementsAre(1, -2, 3));

  ASSERT_EQ(file->tensors.size(), 2U);
  const GgufTensor& exps = file->tensors[1];
  EXPECT_EQ(exps.name, "exps");
  EXPECT_THAT(exps.ne, testing::ElementsAre(64, 3, 5, 1));
  EXPECT_EQ(exps.row_bytes(), 68U);
  EXPECT_EQ(exps.matrix_bytes(), 204U);
  EXPECT_EQ(exps.bytes, 1020U);
  EXPECT_EQ(exps.offset, file->data_offset + 64);  // after 40 bytes of norm, aligned
  EXPECT_EQ(file->data_offset % 32, 0U);
}

TEST(Gguf, EntriesCanBeCopied) {
  const auto bytes = small_file();
  const auto file = parse(bytes);
  ASSERT_TRUE(file);
  GgufPlan copy;
  for (const GgufEntry& entry : file->entries) copy.add_raw(std::span(bytes).subspan(entry.offset, entry.bytes));
  const auto again = parse(copy.header(0, 0));
  ASSERT_TRUE(again) << again.error().message;
  EXPECT_EQ(again->metadata.size(), file->metadata.size());
  EXPECT_EQ(std::get<GgufArray>(again->metadata.at("a.strings")).strings[2], "three");
}

TEST(Gguf, LargeVocabularyIsKeptAndLongerNumbersAreCounted) {
  std::vector<std::string> tokens(262144);
  for (std::size_t i = 0; i < tokens.size(); ++i) tokens[i] = std::to_string(i);
  const std::vector<std::int32_t> numbers(gguf_limits::numbers_kept_max + 1);
  GgufPlan plan;
  plan.add_strings("tokens", tokens);
  plan.add_i32s("numbers", numbers);
  plan.add_u32("after", 5);
  const auto file = parse(plan.header(0, 0));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(std::get<GgufArray>(file->metadata.at("tokens")).strings, tokens);
  EXPECT_EQ(std::get<GgufArray>(file->metadata.at("numbers")).count, numbers.size());
  EXPECT_TRUE(std::get<GgufArray>(file->metadata.at("numbers")).numbers.empty());
  EXPECT_EQ(file->find_uint("after"), 5U);
}

TEST(Gguf, OtherAlignmentCounts) {
  GgufPlan plan;
  plan.alignment = 4096;
  plan.add_tensor("a", f32, {1});
  plan.add_tensor("b", f32, {1});
  auto bytes = plan.header(0, 2);
  bytes.resize(bytes.size() + 2 * 4096);
  const auto file = parse(bytes);
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->alignment, 4096U);
  EXPECT_EQ(file->tensors[1].offset, file->data_offset + 4096);
}

TEST(Gguf, EveryCutOfAFileIsRefused) {
  const auto whole = small_file();
  for (std::size_t bytes = 0; bytes < whole.size(); ++bytes) {
    const auto file = parse({whole.begin(), whole.begin() + static_cast<std::ptrdiff_t>(bytes)});
    ASSERT_FALSE(file) << "cut to " << bytes;
    EXPECT_THAT(file.error().message, testing::StartsWith("m.gguf: offset "));
  }
}

// A source whose n-th read fails.
class FailingSource final : public ByteSource {
 public:
  explicit FailingSource(std::vector<std::byte> bytes) : inner_("m.gguf", std::move(bytes)) {}
  const std::string& name() const override { return inner_.name(); }
  std::uint64_t size() const override { return inner_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> out) override {
    if (--left_ < 0) return fail(Code::device_failed, "m.gguf: offset {}: the drive is gone", offset);
    return inner_.read(offset, out);
  }
  void fail_after(int reads) { left_ = reads; }

 private:
  MemorySource inner_;
  int left_ = 0;
};

TEST(Gguf, NthReadFailing) {
  GgufPlan plan;
  plan.add_strings("tokens", std::vector<std::string>(200000, "word"));  // some chunks long
  FailingSource source(plan.header(0, 0));
  int reads = 0;
  for (;; ++reads) {
    source.fail_after(reads);
    const auto file = GgufFile::parse(source);
    if (file) break;
    EXPECT_EQ(file.error().code, Code::device_failed);
    ASSERT_LT(reads, 100);
  }
  EXPECT_GT(reads, 5);
  EXPECT_LT(reads, 20);  // chunks, not values
}

// Hostile files: header fields by hand.
struct Tensor {
  std::string name = "t";
  std::vector<std::uint64_t> ne = {32};
  std::uint32_t type = f32;
  std::uint64_t offset = 0;
};
GgufBytes preamble(std::uint64_t tensors, std::uint64_t entries, std::uint32_t version = 3) {
  GgufBytes out;
  out.raw(std::as_bytes(std::span("GGUF", 4))).number(version).number(tensors).number(entries);
  return out;
}
std::vector<std::byte> with_tensors(const std::vector<Tensor>& tensors, std::size_t data_bytes) {
  GgufBytes out = preamble(tensors.size(), 0);
  for (const Tensor& tensor : tensors) {
    out.string(tensor.name).number(static_cast<std::uint32_t>(tensor.ne.size()));
    for (std::uint64_t n : tensor.ne) out.number(n);
    out.number(tensor.type).number(tensor.offset);
  }
  out.pad(32);
  auto bytes = out.take();
  bytes.resize(bytes.size() + data_bytes);
  return bytes;
}
// One metadata entry, whose value is what `put` writes; padded so that counts are the only thing wrong with it.
std::vector<std::byte> with_entry(std::string_view key, GgufKind kind, const std::function<void(GgufBytes&)>& put) {
  GgufBytes out = preamble(0, 1);
  out.string(key).kind(kind);
  put(out);
  auto bytes = out.take();
  bytes.resize(bytes.size() + 64);
  return bytes;
}

struct Hostile {
  std::string_view what;
  std::function<std::vector<std::byte>()> make;
  std::string_view sentence;  // of the message, after "m.gguf: "
};

const Hostile hostile_files[] = {
    {"empty", [] { return std::vector<std::byte>{}; }, "offset 0: this is not a GGUF file"},
    {"another format", [] { return GgufBytes().string("PK, a zip archive").take(); },
     "offset 0: this is not a GGUF file"},
    {"big endian", [] { return preamble(0, 0, 0x03000000).take(); },
     "offset 4: the file is big-endian or has no version, which is not supported"},
    {"version 1", [] { return preamble(0, 0, 1).take(); }, "offset 4: GGUF version 1 is not supported (2 and 3 are)"},
    {"version 4", [] { return preamble(0, 0, 4).take(); }, "offset 4: GGUF version 4 is not supported (2 and 3 are)"},
    {"absurd tensors", [] { return preamble(~0ULL, 0).take(); },
     "offset 8: the file claims 18446744073709551615 tensors, more than it can hold"},
    {"absurd entries", [] { return preamble(0, 1ULL << 60U).take(); },
     "offset 16: the file claims 1152921504606846976 metadata entries, more than it can hold"},
    {"long key",
     [] {
       GgufBytes out = preamble(0, 1);
       return out.number<std::uint64_t>(70000).raw(std::vector<std::byte>(80000)).take();
     },
     "offset 24: the key of metadata entry 0 has 70000 bytes where at most 65535 are possible"},
    {"no key", [] { return with_entry("", GgufKind::u8, [](GgufBytes&) {}); },
     "offset 24: metadata entry 0 has no key"},
    {"key twice",
     [] {
       GgufBytes out = preamble(0, 2);
       for (int i = 0; i < 2; ++i) out.string("k").kind(GgufKind::u8).number<std::uint8_t>(1);
       return out.raw(std::vector<std::byte>(64)).take();
     },
     "offset 38: metadata 'k' is there twice"},
    {"unknown value type", [] { return with_entry("k", static_cast<GgufKind>(13), [](GgufBytes&) {}); },
     "offset 37: metadata 'k' has the unknown value type 13"},
    {"string of the length 2^64-1",
     [] { return with_entry("k", GgufKind::string, [](GgufBytes& b) { b.number(~0ULL); }); },
     "offset 37: metadata 'k' has 18446744073709551615 bytes where at most 67108864 are possible"},
    {"string past the end",
     [] { return with_entry("k", GgufKind::string, [](GgufBytes& b) { b.number<std::uint64_t>(1000); }); },
     "offset 45: the file ends at 109 inside metadata 'k'"},
    {"array of arrays",
     [] {
       return with_entry("k", GgufKind::array, [](GgufBytes& b) { b.kind(GgufKind::array).number<std::uint64_t>(1); });
     },
     "offset 37: metadata 'k' is an array of arrays"},
    {"array of unknown",
     [] { return with_entry("k", GgufKind::array, [](GgufBytes& b) { b.number(99U).number<std::uint64_t>(1); }); },
     "offset 37: metadata 'k' is an array of the unknown value type 99"},
    {"array too long",
     [] { return with_entry("k", GgufKind::array, [](GgufBytes& b) { b.kind(GgufKind::u64).number(~0ULL / 4); }); },
     "offset 37: metadata 'k' claims 4611686018427387903 elements, more than the rest of the file can hold"},
    {"alignment of 0",
     [] { return with_entry("general.alignment", GgufKind::u32, [](GgufBytes& b) { b.number(0U); }); },
     "offset 24: general.alignment is not a power of two up to 1073741824"},
    {"alignment of 48",
     [] { return with_entry("general.alignment", GgufKind::u32, [](GgufBytes& b) { b.number(48U); }); },
     "offset 24: general.alignment is not a power of two up to 1073741824"},
    {"alignment in words",
     [] { return with_entry("general.alignment", GgufKind::string, [](GgufBytes& b) { b.string("32"); }); },
     "offset 24: general.alignment is not a power of two up to 1073741824"},
    {"tensor without name", [] { return with_tensors({{.name = ""}}, 128); }, "offset 24: tensor 0 has no name"},
    {"tensor with a long name", [] { return with_tensors({{.name = std::string(64, 'x')}}, 128); },
     "offset 24: the name of tensor 0 has 64 bytes where at most 63 are possible"},
    {"tensor twice", [] { return with_tensors({{}, {}}, 128); }, "offset 57: tensor 't' is there twice"},
    {"no dimensions", [] { return with_tensors({{.ne = {}}}, 128); },
     "offset 24: tensor 't' has 0 dimensions where 1 to 4 are possible"},
    {"five dimensions", [] { return with_tensors({{.ne = {1, 1, 1, 1, 1}}}, 128); },
     "offset 24: tensor 't' has 5 dimensions where 1 to 4 are possible"},
    {"empty dimension", [] { return with_tensors({{.ne = {32, 0}}}, 128); },
     "offset 24: tensor 't' has a dimension of 0"},
    {"shape overflows 64 bits", [] { return with_tensors({{.ne = {1ULL << 32U, 1ULL << 32U}}}, 128); },
     "offset 24: tensor 't' has a shape that overflows: 4294967296x4294967296x1x1"},
    {"shape wraps to little", [] { return with_tensors({{.ne = {1ULL << 63U, 2, 32}}}, 128); },
     "offset 24: tensor 't' has a shape that overflows: 9223372036854775808x2x32x1"},
    {"negative dimension", [] { return with_tensors({{.ne = {~0ULL}}}, 128); },
     "offset 24: tensor 't' has a shape that overflows: 18446744073709551615x1x1x1"},
    {"unknown type", [] { return with_tensors({{.type = 4711}}, 128); },
     "offset 24: tensor 't' has the unknown type 4711"},
    {"removed type", [] { return with_tensors({{.type = 4}}, 128); }, "offset 24: tensor 't' has the unknown type 4"},
    {"part of a block", [] { return with_tensors({{.ne = {40}, .type = q8_0}}, 128); },
     "offset 24: tensor 't' has rows of 40 elements, which is not a multiple of the 32 of a Q8_0 block"},
    {"misaligned", [] { return with_tensors({{.offset = 4}}, 256); },
     "offset 24: tensor 't' starts at 4, which is not a multiple of the alignment 32"},
    {"outside of the file", [] { return with_tensors({{.offset = 1ULL << 40U}}, 128); },
     "offset 24: tensor 't' of 128 bytes at 64 + 1099511627776 goes past the end of the file at 192"},
    {"offset that wraps", [] { return with_tensors({{.offset = ~0ULL - 31}}, 128); },
     "offset 24: tensor 't' of 128 bytes at 64 + 18446744073709551584 goes past the end of the file at 192"},
    {"a byte short", [] { return with_tensors({{}}, 127); },
     "offset 24: tensor 't' of 128 bytes at 64 + 0 goes past the end of the file at 191"},
    {"terminal codes in a name", [] { return with_tensors({{.name = "\x1b[31m"}}, 0); },
     "offset 24: tensor '?[31m' of 128 bytes at 64 + 0 goes past the end of the file at 64"},
};

TEST(Gguf, HostileFilesAreRefusedInOneSentence) {
  for (const Hostile& hostile : hostile_files) {
    const auto file = parse(hostile.make());
    ASSERT_FALSE(file) << hostile.what;
    EXPECT_EQ(file.error().message, "m.gguf: " + std::string(hostile.sentence)) << hostile.what;
    EXPECT_THAT(file.error().code, testing::AnyOf(Code::corrupt, Code::invalid)) << hostile.what;
  }
}

TEST(Gguf, OverlappingTensorsAreAllowed) {
  const auto file = parse(with_tensors({{.name = "a"}, {.name = "b"}}, 128));
  ASSERT_TRUE(file) << file.error().message;
  EXPECT_EQ(file->tensors[0].offset, file->tensors[1].offset);
}

TEST(GgmlType, TableIsInOrderAndFoundByNameAndNumber) {
  std::uint32_t last = 0;
  for (const GgmlType& type : ggml_types()) {
    EXPECT_TRUE(type.id == 0 || type.id > last) << type.name;
    last = type.id;
    EXPECT_EQ(find_ggml_type(type.id), &type);
    EXPECT_EQ(find_ggml_type(type.name), &type);
    EXPECT_LE(type.block_bytes, 8 * type.block_elements) << type.name;  // what keeps shape_bytes from overflowing
  }
  EXPECT_EQ(find_ggml_type("q4_k")->block_bytes, 144U);
  EXPECT_EQ(find_ggml_type(31U), nullptr);
  EXPECT_EQ(find_ggml_type("Q9_9"), nullptr);
}

}  // namespace
}  // namespace artesian
