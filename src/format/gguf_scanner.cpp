#include "format/gguf_scanner.h"

namespace artesian {

std::string printable(std::string_view text) {
  constexpr std::size_t shown_max = 80;
  std::string out;
  for (char c : text.substr(0, shown_max)) out += (c >= 0x20 && c < 0x7f) ? c : '?';
  if (text.size() > shown_max) out += "...";
  return out;
}

Status GgufScanner::check(std::uint64_t bytes, std::string_view what) const {
  if (bytes > remaining()) return broken(offset_, "the file ends at {} inside {}", end_, what);
  if (bytes > gguf_limits::header_bytes_max || offset_ > gguf_limits::header_bytes_max - bytes) {
    return broken(offset_, "the header goes on past {} bytes in {}", gguf_limits::header_bytes_max, what);
  }
  return {};
}

Status GgufScanner::fill() {
  const std::uint64_t bytes = std::min<std::uint64_t>(chunk_bytes, remaining());
  chunk_.resize(bytes);
  chunk_offset_ = offset_;
  auto read = source_.read(offset_, chunk_);
  if (!read) chunk_.clear();
  return read;
}

Status GgufScanner::take(std::span<std::byte> out, std::string_view what) {
  if (auto fits = check(out.size(), what); !fits) return fits;
  while (!out.empty()) {
    if (offset_ < chunk_offset_ || offset_ - chunk_offset_ >= chunk_.size()) {
      if (auto filled = fill(); !filled) return filled;
    }
    const std::size_t at = offset_ - chunk_offset_;
    const std::size_t bytes = std::min(out.size(), chunk_.size() - at);
    std::memcpy(out.data(), chunk_.data() + at, bytes);
    out = out.subspan(bytes);
    offset_ += bytes;
  }
  return {};
}

Result<std::string> GgufScanner::string(std::uint64_t bytes_max, std::string_view what) {
  const std::uint64_t at = offset_;
  auto bytes = number<std::uint64_t>(what);
  if (!bytes) return fail(std::move(bytes.error()));
  if (*bytes > bytes_max) return broken(at, "{} has {} bytes where at most {} are possible", what, *bytes, bytes_max);
  if (auto fits = check(*bytes, what); !fits) return fail(std::move(fits.error()));
  std::string text(*bytes, '\0');
  if (auto read = take(std::as_writable_bytes(std::span(text)), what); !read) return fail(std::move(read.error()));
  return text;
}

Status GgufScanner::skip(std::uint64_t bytes, std::string_view what) {
  if (auto fits = check(bytes, what); !fits) return fits;
  offset_ += bytes;
  return {};
}

Status GgufScanner::skip_strings(std::uint64_t count, std::string_view what) {
  for (std::uint64_t i = 0; i < count; ++i) {
    auto bytes = number<std::uint64_t>(what);
    if (!bytes) return fail(std::move(bytes.error()));
    if (auto skipped = skip(*bytes, what); !skipped) return skipped;
  }
  return {};
}

}  // namespace artesian
