//===- JobStore.cpp - Keys of one attempt of a job ------------------------===//

#include "JobStore.h"

#include "C10dStore.h"

#include "dtrt/store/Pause.h"

namespace dtrt {

namespace {

/// Its callers are c10d and Python, which know exceptions of a store.
template <typename Answer> Answer given(Answer answer) {
  if (!answer.ok())
    C10_THROW_ERROR(DistStoreError, statusOf(answer).message());
  return answer;
}

} // namespace

JobStore::JobStore(c10::intrusive_ptr<c10d::Store> store, std::string prefix,
                   Seconds timeout, Seconds answer)
    : Store(std::chrono::duration_cast<std::chrono::milliseconds>(timeout)),
      client(makeC10dStore(std::move(store))), prefix(std::move(prefix)),
      answer(answer) {}

void JobStore::removeOwn() {
  std::set<std::string> keys;
  {
    std::lock_guard<std::mutex> lock(mutex);
    keys.swap(own);
  }
  for (const std::string &key : keys) {
    StoreClient::Wait wait{deadlineIn(answer), StoreClient::Heed::Nothing};
    // A store that is gone keeps nothing.
    if (!client.remove(prefix + key, wait).ok())
      return;
  }
}

void JobStore::note(const std::string &key) {
  std::lock_guard<std::mutex> lock(mutex);
  own.insert(key);
}

/// As thread safe as this one is.
c10::intrusive_ptr<c10d::Store> JobStore::clone() {
  return c10::intrusive_ptr<c10d::Store>::reclaim_copy(this);
}

void JobStore::set(const std::string &key, const Bytes &value) {
  note(key);
  (void)given(client.set(prefix + key, textOf(value), patience()));
}

Bytes JobStore::compareSet(const std::string &key, const Bytes &expected,
                           const Bytes &desired) {
  note(key);
  return bytesOf(*given(client.compareAndSet(prefix + key, textOf(expected),
                                             textOf(desired), patience())));
}

int64_t JobStore::add(const std::string &key, int64_t amount) {
  note(key);
  return *given(client.add(prefix + key, amount, patience()));
}

bool JobStore::deleteKey(const std::string &key) {
  (void)given(client.remove(prefix + key, patience()));
  return true;
}

std::optional<std::string> JobStore::find(const std::string &key) {
  return *given(client.get(prefix + key, patience()));
}

std::string JobStore::await(const std::string &key, Deadline deadline) {
  Pause pause(1);
  while (true) {
    if (auto value = find(key))
      return std::move(*value);
    if (std::chrono::steady_clock::now() > deadline)
      C10_THROW_ERROR(DistStoreError, "timed out waiting for a process");
    Status slept = pause(client);
    if (!slept.ok())
      C10_THROW_ERROR(DistStoreError, slept.message());
  }
}

Bytes JobStore::get(const std::string &key) {
  return bytesOf(await(key, deadlineIn(timeout_)));
}

bool JobStore::check(const std::vector<std::string> &keys) {
  for (const std::string &key : keys)
    if (!find(key))
      return false;
  return true;
}

int64_t JobStore::getNumKeys() {
  C10_THROW_ERROR(NotImplementedError, "the store of an attempt has no "
                                       "num_keys");
}

void JobStore::wait(const std::vector<std::string> &keys) {
  wait(keys, timeout_);
}

void JobStore::wait(const std::vector<std::string> &keys,
                    const std::chrono::milliseconds &timeout) {
  Deadline deadline = deadlineIn(timeout);
  for (const std::string &key : keys)
    (void)await(key, deadline);
}

} // namespace dtrt
