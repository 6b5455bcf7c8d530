//===- DigestTest.cpp - A spoiled byte is named by tensor and state -------===//

#include "BorrowedTransport.h"
#include "PlanBuilder.h"

#include "dtrt/core/ArenaStorage.h"
#include "dtrt/core/CheckPattern.h"
#include "dtrt/core/Executor.h"
#include "dtrt/transport/DigestTransport.h"
#include "dtrt/transport/HostStagedTransport.h"
#include "dtrt/transport/LoopbackTransport.h"

#include <cstring>
#include <gtest/gtest.h>
#include <thread>

using namespace dtrt;
using namespace dtrt::test;

namespace {

/// What one message carries, and where in it.
struct Part {
  const char *tensor;
  const char *state;
  uint64_t lo, hi;
};

const std::vector<Part> kParts = {
    {"layers.0.w", "param", 0, 8},     {"layers.1.w", "param", 8, 16},
    {"layers.2.w", "param", 16, 24},   {"layers.0.w", "exp_avg", 24, 40},
    {"layers.1.w", "exp_avg", 40, 56}, {"layers.2.w", "exp_avg", 56, 72},
    {"bias", "param", 72, 88}};
const uint64_t kBytes = 88;

/// Device 0 sends all it has to device 1, in one message.
TestPlan movePlan() {
  Family layers = makeFamily("layers.{}.w", {{0, 1, 3}}, {4},
                             {{"param", DType::BF16, DType::BF16},
                              {"exp_avg", DType::F32, DType::F32}});
  ShardRecord all = box(0, {{0, 3}, {0, 4}}, 3), bias = box(1, {{0, 8}});
  return makePlan({layers, makeFamily("bias", {}, {8})}, {{all, bias}, {}},
                  {{}, {all, bias}});
}

Instruction &instructionOf(RankProgram &program, Opcode op) {
  for (Instruction &instruction : program.instructions)
    if (instruction.op == op)
      return instruction;
  ADD_FAILURE() << "no " << opcodeName(op);
  std::abort();
}

/// Cuts a segment in two at an index of a dim; the bytes keep their order.
void cut(std::vector<Segment> &segments, size_t which, size_t dim, int64_t at) {
  Segment rest = segments[which];
  rest.offset[dim] += at;
  rest.size[dim] -= at;
  segments[which].size[dim] = at;
  segments.insert(segments.begin() + int64_t(which) + 1, rest);
}

/// Flips one bit of a byte of the first message that it receives.
class Flipping : public Borrowed {
public:
  Flipping(Transport &inner, uint64_t at) : Borrowed(inner), at(at) {}
  Status group(const std::vector<TransportMessage> &messages) override {
    DTRT_RETURN_IF_ERROR(Borrowed::group(messages));
    if (!flipped)
      messages.front().data[at] ^= std::byte(4);
    flipped = true;
    return {};
  }

private:
  uint64_t at;
  bool flipped = false;
};

Status runProgram(const PlanReader &plan, Transport &transport) {
  auto program = plan.program(transport.device());
  DTRT_RETURN_IF_ERROR(program);
  auto storage = ArenaStorage::allocate(plan.common(), *program);
  DTRT_RETURN_IF_ERROR(storage);
  for (uint32_t i = 0; i < program->source.size(); ++i)
    fillSource(**storage, i);
  auto executor = Executor::prepare(**storage, transport);
  DTRT_RETURN_IF_ERROR(executor);
  DTRT_RETURN_IF_ERROR(transport.connect(plan.digest(), executor->peers()));
  return executor->run();
}

Status copyBytes(std::byte *to, const std::byte *from, uint64_t bytes) {
  memcpy(to, from, bytes);
  return {};
}

/// What device 1 says when a byte of its message changes on the way (without
/// one: when none does).
std::string run(const TestPlan &test, std::optional<uint64_t> spoiled,
                bool staged = false) {
  PlanReader plan = test.reader();
  LoopbackWorld world({0, 1});
  std::string errors[2];
  std::vector<std::thread> threads;
  for (uint32_t device : {0, 1})
    threads.emplace_back([&, device] {
      Transport &end = world.endpoint(device);
      std::unique_ptr<Transport> inner = std::make_unique<Borrowed>(end);
      if (device == 1 && spoiled)
        inner = std::make_unique<Flipping>(end, *spoiled);
      auto transport = makeDigestTransport(std::move(inner));
      if (staged)
        transport = makeHostStagedTransport(std::move(transport), copyBytes);
      Status status = runProgram(plan, *transport);
      errors[device] = status.message();
      if (!status.ok())
        transport->abort(status);
      transport->leave();
    });
  for (std::thread &thread : threads)
    thread.join();
  return errors[1];
}

std::string expected(const Part &part) {
  return std::string("tensor '") + part.tensor + "', state '" + part.state +
         "', bytes [" + std::to_string(part.lo) + ", " +
         std::to_string(part.hi) + ") of the message: the " +
         std::to_string(part.hi - part.lo) +
         " bytes from device 0 are not those that it sent";
}

void expectEndsWith(const std::string &text, const std::string &end) {
  EXPECT_TRUE(text.size() >= end.size() &&
              text.compare(text.size() - end.size(), end.size(), end) == 0)
      << "found '" << text << "', expected it to end with '" << end << "'";
}

void expectEveryByteNamed(const TestPlan &plan, bool staged = false) {
  EXPECT_EQ(run(plan, std::nullopt, staged), "");
  for (const Part &part : kParts)
    for (uint64_t at = part.lo; at < part.hi; ++at)
      expectEndsWith(run(plan, at, staged), expected(part));
}

} // namespace

TEST(Digests, NameTensorAndStateOfEveryByte) {
  TestPlan plan = movePlan();
  EXPECT_EQ(instructionOf(plan.programs[0], Opcode::Group).messages[0].bytes,
            kBytes);
  expectEveryByteNamed(plan);
}

TEST(Digests, PassThroughHostStaging) {
  expectEveryByteNamed(movePlan(), /*staged=*/true);
}

/// Members and elements are cut at one end where they are not at the other.
TEST(Digests, EndsMayCutAMessageInTheirOwnWay) {
  TestPlan plan = movePlan();
  std::vector<Segment> &from =
      instructionOf(plan.programs[0], Opcode::Pack).segments;
  std::vector<Segment> &to =
      instructionOf(plan.programs[1], Opcode::Unpack).segments;
  ASSERT_EQ(from.size(), 3u);
  cut(to, 2, 0, 3);
  cut(to, 1, 0, 1);
  cut(from, 1, 0, 2);
  cut(from, 0, 0, 1);
  expectEveryByteNamed(plan);
}

/// Two unpacks, each of a part of the message.
TEST(Digests, AMessageMayBeUnpackedInTwoSteps) {
  TestPlan plan = movePlan();
  std::vector<Instruction> &program = plan.programs[1].instructions;
  Instruction first = instructionOf(plan.programs[1], Opcode::Unpack);
  Instruction second = first;
  first.segments.pop_back();
  first.bytes = 72;
  second.segments = {second.segments.back()};
  second.slot += 72;
  second.bytes = 16;
  program.back() = second;
  program.push_back(first);
  expectEveryByteNamed(plan);
}

TEST(Digests, NameTheTensorOfADirectMessage) {
  ShardRecord bias = box(0, {{0, 8}});
  TestPlan plan =
      makePlan({makeFamily("bias", {}, {8})}, {{bias}, {}}, {{}, {bias}});
  for (RankProgram &program : plan.programs) {
    bool sends = program.device == 0;
    Segment whole =
        instructionOf(program, sends ? Opcode::Pack : Opcode::Unpack)
            .segments[0];
    Instruction group = instructionOf(program, Opcode::Group);
    group.messages = {{!sends, 1 - program.device, 16, true, 0, whole}};
    program.instructions = {group};
    program.stagingBytes = 0;
  }
  summarize(plan);
  expectEndsWith(run(plan, 5), expected({"bias", "param", 0, 16}));
}

TEST(Digests, RefuseBytesThatNobodyPacked) {
  TestPlan plan = movePlan();
  instructionOf(plan.programs[0], Opcode::Pack).segments.pop_back();
  instructionOf(plan.programs[0], Opcode::Pack).bytes = 72;
  auto found = regionsOf(plan.common, plan.programs[0]);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().message(),
            "digests: instruction 1, sent to device 1: byte 72 of the message "
            "starts no segment that is packed for it");
}

TEST(Digests, RefuseBytesThatNobodyUnpacks) {
  TestPlan plan = movePlan();
  instructionOf(plan.programs[1], Opcode::Unpack).segments.pop_back();
  auto found = regionsOf(plan.common, plan.programs[1]);
  ASSERT_FALSE(found.ok());
  EXPECT_EQ(found.status().message(),
            "digests: instruction 0, received from device 0: byte 72 of the "
            "message starts no segment that is unpacked from it");
}
