//===- LiveStorage.h - A trainer's tensors that come and go -----*- C++ -*-===//
//
// In mode flat the memory of a trainer's tensors goes when it has been read,
// and comes when its first byte is due: storage by storage in a plan by tensor,
// page by page in others. The trainer owns the tensors; whose memory lies under
// them is asked for here.
//
//===----------------------------------------------------------------------===//

#ifndef DTRT_CORE_LIVESTORAGE_H
#define DTRT_CORE_LIVESTORAGE_H

#include "dtrt/core/PagePool.h"
#include "dtrt/core/TensorBinding.h"

#include <map>
#include <memory>
#include <set>

namespace dtrt {

struct SharedBuffer;

/// The memory of one or several tensors of a trainer.
class LiveMemory {
public:
  virtual ~LiveMemory() = default;
  /// Whether a part of it can come and go before the rest.
  virtual bool hasPages() const = 0;
  /// Where it is, or will be, whatever there is of it; null: that is known when
  /// it is there.
  virtual std::byte *address() const { return nullptr; }
  /// Makes bytes [lo, hi) exist, with any content if they have not; the start
  /// of the memory.
  virtual Result<std::byte *> create(uint64_t lo, uint64_t hi) = 0;
  /// Gives bytes [lo, hi) back: nobody reads them any more.
  virtual Status release(uint64_t lo, uint64_t hi) = 0;
  /// Whether `take` can be called: both are of one kind and of one size.
  virtual bool canTake(const LiveMemory &from) const = 0;
  /// Has what is in the memory of another, which has none afterwards; what was
  /// here is gone.
  virtual void take(LiveMemory &from) = 0;
  /// Where its pages come from; null: from no pool.
  virtual PagePool *pool() const { return nullptr; }
  /// What there is of it in its pool.
  virtual PooledBytes pooled() const { return {{}, 0}; }
};

/// Bound tensors, of which those with a memory come and go with the program: by
/// tensor all of them, by page those that have pages. Other memory of the
/// destination is made at once, and of the source stays; so does all memory in
/// which a tensor lies that is its own destination. A tensor that does not
/// change gives its memory to its destination, where each has one of its own:
/// what stays by the plan (StayingStates.h), and what the plan copies from its
/// own place. Else it is copied.
class LiveStorage : public LocalStorage {
public:
  /// Binds all tensors as `bindTensors` does. Fails also where tensors of one
  /// memory do not come and go together by the plan, and where there is no
  /// memory for what is made at once. The memories must outlive the storage.
  static Result<std::unique_ptr<LiveStorage>>
  bind(const PlanCommon &common, const RankProgram &program,
       const std::vector<TensorBinding> &tensors);

  Status create(const Segment &range) override;
  Status release(const Segment &range) override;
  void note(const TensorBinding &tensor, uint32_t shard, unsigned state,
            int64_t member) override;

  /// Whether the program gives memory of the source back.
  bool givesBack() const;
  /// Before anything goes: that pools have the pages that the program will need
  /// at once. Fails where they cannot, with all memory as it was.
  Status makeSure() const;
  /// Gives back what there is of a destination that the program creates, and
  /// hands over the memory of what stays.
  Status clear();

private:
  /// Where a buffer lies.
  struct Place {
    LiveMemory *memory = nullptr; // that comes and goes
    uint64_t offset = 0;
    uint64_t live = 0; // bytes
  };
  struct Noted {
    TensorBinding tensor;
    uint32_t shard = 0;
    unsigned state = 0;
    int64_t member = 0;
  };
  struct HandOver {
    LiveMemory *from = nullptr, *to = nullptr;
  };

  /// Memory in a pool, and what is done with it there.
  struct Rehearsed {
    PageRehearsal *pages = nullptr;
    std::byte *start = nullptr;
    PooledBytes bytes;
  };
  using Rehearsals = std::map<const LiveMemory *, Rehearsed>;

  using LocalStorage::LocalStorage;
  bool isByTensor() const {
    return common().summary.granularity == Granularity::Tensor;
  }
  using LocalStorage::indexOf;
  size_t indexOf(const Noted &noted) const {
    return index(noted.tensor.side, noted.shard, noted.state, noted.member);
  }
  const std::string &groupOf(const Noted &noted) const;
  Status rehearseClearing(Rehearsals &memories) const;
  Status rehearse(const Instruction &instruction, Rehearsals &memories) const;
  void findTwins();
  std::vector<SharedBuffer> unchanged() const;
  void findHandOvers();
  Status checkTogether() const;
  void findMoving();
  void bindAddresses();
  Status createOthers();
  uint64_t bytesOn(Side side) const;

  std::vector<Place> places; // by index()
  std::vector<Noted> noted;
  std::set<const LiveMemory *> staying;
  std::vector<HandOver> handOvers;
};

} // namespace dtrt

#endif // DTRT_CORE_LIVESTORAGE_H
