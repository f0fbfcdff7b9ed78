// One machine in virtual time: a simulated drive that several share, each through a Device of its own that shows some
// of the drive's files, and those that act at times of their own while others wait.
//
// Not thread safe. Clock and drive are the caller's; devices belong to the node and go with it. Whoever acts must
// neither wait nor flush; one at most, the program's own course, may.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "nand/flows.h"
#include "nand/nand_device.h"

namespace artesian::sim {

class Actor {
 public:
  virtual ~Actor() = default;
  virtual Nanos next() const = 0;  // when it has something to do by itself; Nanos::max(): never
  virtual void act() = 0;          // that time has come, or something of its device has arrived
};

class Node {
 public:
  Node(nand::NandDevice& drive, ManualClock& clock);
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  // `files` of the drive from `first` on, numbered from 0; `name` for reports.
  Device& add_device(std::string name, FileIndex first, std::size_t files);
  // Acts from now on; `device` is the one that it uses.
  void add_actor(Actor& actor, const Device& device);
  void remove_actors();  // nobody acts any more

  // Moves to the next thing that happens by `until`, and lets act whose turn it is. False: nothing did, and it is
  // `until` (unless that is Nanos::max(): then nothing ever will).
  bool advance(Nanos until);

  // Requests of each device since this was last called.
  std::vector<nand::FlowResult> take_results();

 private:
  class Port;
  struct Pending {
    Port* port = nullptr;
    std::uint64_t tag = 0;
    Nanos submitted{0};
    IoOp op = IoOp::read;
  };
  struct Acting {
    Actor* actor;
    Port* port;
  };

  Status submit(Port& port, std::span<const IoRequest> requests);
  void hand_out(std::span<IoCompletion> done);
  void collect();  // what is there now

  nand::NandDevice& drive_;
  ManualClock& clock_;
  std::vector<std::unique_ptr<Port>> ports_;
  std::vector<Acting> actors_;
  std::vector<Pending> pending_;
  std::vector<std::uint32_t> free_;
};

}  // namespace artesian::sim
