#include "platform/nvme.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

namespace artesian {
namespace {

constexpr std::uint8_t opcode_write = 0x01, opcode_io_management_receive = 0x12;
constexpr std::uint32_t directive_data_placement = 2U
                                                   << 20;   // in command dword 12, beside the number of blocks less one
constexpr std::uint32_t operation_reclaim_unit_status = 1;  // in command dword 10
constexpr std::size_t status_header = 16, status_count = 14, status_entry = 32;

std::uint64_t address_of(const void* memory) {
  return reinterpret_cast<std::uintptr_t>(memory);
}

std::uint16_t word_at(std::span<const std::byte> bytes, std::size_t offset) {
  std::uint16_t word = 0;
  std::memcpy(&word, bytes.data() + offset, sizeof(word));
  return word;
}

}  // namespace

nvme_uring_cmd nvme_placed_write(std::uint32_t nsid, std::uint64_t lba, std::uint32_t block_bytes,
                                 std::span<const std::byte> memory, std::uint16_t placement) {
  nvme_uring_cmd command{};
  command.opcode = opcode_write;
  command.nsid = nsid;
  command.addr = address_of(memory.data());
  command.data_len = static_cast<__u32>(memory.size());
  command.cdw10 = static_cast<__u32>(lba);
  command.cdw11 = static_cast<__u32>(lba >> 32U);
  command.cdw12 = directive_data_placement | static_cast<__u32>(memory.size() / block_bytes - 1);
  command.cdw13 = static_cast<__u32>(placement) << 16U;
  return command;
}

nvme_uring_cmd nvme_reclaim_unit_status(std::uint32_t nsid, std::span<std::byte> into) {
  nvme_uring_cmd command{};
  command.opcode = opcode_io_management_receive;
  command.nsid = nsid;
  command.addr = address_of(into.data());
  command.data_len = static_cast<__u32>(into.size());
  command.cdw10 = operation_reclaim_unit_status;
  command.cdw11 = static_cast<__u32>(into.size() / 4 - 1);
  return command;
}

Result<std::vector<std::uint16_t>> read_reclaim_unit_status(std::span<const std::byte> status) {
  if (status.size() < status_header) return fail(Code::corrupt, "a reclaim unit status of {} bytes", status.size());
  const std::size_t count = word_at(status, status_count);
  if (count > (status.size() - status_header) / status_entry) {
    return fail(Code::corrupt, "a reclaim unit status of {} bytes has no room for {} handles", status.size(), count);
  }
  std::vector<std::uint16_t> placements;
  for (std::size_t i = 0; i < count; ++i) placements.push_back(word_at(status, status_header + i * status_entry));
  return placements;
}

Result<NvmeNamespace> NvmeNamespace::open(const std::string& name) {
  constexpr std::string_view block_prefix = "nvme";
  if (!name.starts_with(block_prefix)) return fail(Code::rejected, "{} is no NVMe namespace", name);
  NvmeNamespace made;
  made.path_ = "/dev/ng" + name.substr(block_prefix.size());
  made.fd_ = ::open(made.path_.c_str(), O_RDWR | O_CLOEXEC);
  if (made.fd_ < 0) return fail(Code::rejected, "{}: {}", made.path_, std::strerror(errno));
  const int nsid = ::ioctl(made.fd_, NVME_IOCTL_ID);
  if (nsid <= 0) return fail(Code::rejected, "{}: no namespace number: {}", made.path_, std::strerror(errno));
  made.nsid_ = static_cast<std::uint32_t>(nsid);
  return made;
}

NvmeNamespace::NvmeNamespace(NvmeNamespace&& other) noexcept
    : path_(std::move(other.path_)), fd_(std::exchange(other.fd_, -1)), nsid_(other.nsid_) {}

NvmeNamespace& NvmeNamespace::operator=(NvmeNamespace&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(nsid_, other.nsid_);
  return *this;
}

NvmeNamespace::~NvmeNamespace() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::vector<std::uint16_t>> NvmeNamespace::placements() const {
  alignas(8) std::array<std::byte, 4096> status{};
  const nvme_uring_cmd question = nvme_reclaim_unit_status(nsid_, status);
  nvme_passthru_cmd64 command{};
  static_assert(sizeof(question) <= sizeof(command));  // the same fields, and room for a result behind them
  std::memcpy(&command, &question, sizeof(question));
  const int answer = ::ioctl(fd_, NVME_IOCTL_IO64_CMD, &command);
  if (answer < 0) return fail(Code::rejected, "{}: {}", path_, std::strerror(errno));
  if (answer > 0) return fail(Code::rejected, "{}: no data placement (status {:#x})", path_, answer);
  return read_reclaim_unit_status(status);
}

}  // namespace artesian
