//===- StoreClient.cpp - A store that may not answer ----------------------===//

#include "dtrt/store/StoreClient.h"

#include <condition_variable>
#include <deque>
#include <thread>

namespace dtrt {

using Clock = std::chrono::steady_clock;

Deadline deadlineIn(Seconds time) {
  return Clock::now() + std::chrono::duration_cast<Clock::duration>(time);
}

/// What the client has in common with its thread, which may outlive it.
struct StoreClient::Shared {
  std::shared_ptr<Store> store;
  std::mutex mutex;
  std::condition_variable changed; // what follows, or an answer
  std::deque<std::function<void(Store &)>> calls;
  bool closed = false;
  Status cancelled;

  void serve() {
    std::unique_lock<std::mutex> lock(mutex);
    while (true) {
      changed.wait(lock, [this] { return closed || !calls.empty(); });
      if (closed)
        return;
      auto next = std::move(calls.front());
      calls.pop_front();
      lock.unlock();
      next(*store);
      next = nullptr;
      lock.lock();
    }
  }
};

StoreClient::StoreClient(std::shared_ptr<Store> store)
    : shared(std::make_shared<Shared>()) {
  shared->store = std::move(store);
  if (!shared->store->answersAtOnce())
    std::thread([shared = shared] { shared->serve(); }).detach();
}

StoreClient::~StoreClient() {
  {
    std::lock_guard<std::mutex> lock(shared->mutex);
    shared->closed = true;
    shared->calls.clear();
  }
  shared->changed.notify_all();
}

template <typename Answer>
Answer StoreClient::call(std::function<Answer(Store &)> ask, Wait wait) {
  std::unique_lock<std::mutex> lock(shared->mutex);
  if (wait.heed == Heed::Cancel && !shared->cancelled.ok())
    return shared->cancelled;
  if (shared->store->answersAtOnce()) {
    lock.unlock();
    return ask(*shared->store);
  }
  // The caller may be gone when the answer comes.
  auto answer = std::make_shared<std::optional<Answer>>();
  shared->calls.push_back(
      [ask = std::move(ask), answer, self = shared.get()](Store &store) {
        Answer given = ask(store);
        {
          std::lock_guard<std::mutex> lock(self->mutex);
          *answer = std::move(given);
        }
        self->changed.notify_all();
      });
  // Who is woken wants the lock.
  lock.unlock();
  shared->changed.notify_all();
  lock.lock();
  bool ended = shared->changed.wait_until(lock, wait.deadline, [&] {
    return answer->has_value() ||
           (wait.heed == Heed::Cancel && !shared->cancelled.ok());
  });
  if (answer->has_value())
    return std::move(**answer);
  if (ended)
    return shared->cancelled;
  return makeError(ErrorCode::StoreLost,
                   "the store does not answer (the process that hosts it, "
                   "often rank 0, may be stopped)");
}

namespace {

/// Of a call that the store has refused.
template <typename Answer> Answer named(Answer answer) {
  if (answer.ok() || statusOf(answer).code() == ErrorCode::Invalid)
    return answer;
  return makeError(ErrorCode::StoreLost,
                   "lost the store (the process that hosts it, often rank 0, "
                   "may have ended): ",
                   statusOf(answer).message());
}

} // namespace

Status StoreClient::set(const std::string &key, const std::string &value,
                        Wait wait) {
  return call<Status>(
      [=](Store &store) { return named(store.set(key, value)); }, wait);
}

Result<std::optional<std::string>> StoreClient::get(const std::string &key,
                                                    Wait wait) {
  return call<Result<std::optional<std::string>>>(
      [=](Store &store) { return named(store.get(key)); }, wait);
}

Result<std::string> StoreClient::compareAndSet(const std::string &key,
                                               const std::string &expected,
                                               const std::string &desired,
                                               Wait wait) {
  return call<Result<std::string>>(
      [=](Store &store) {
        return named(store.compareAndSet(key, expected, desired));
      },
      wait);
}

Result<int64_t> StoreClient::add(const std::string &key, int64_t amount,
                                 Wait wait) {
  return call<Result<int64_t>>(
      [=](Store &store) { return named(store.add(key, amount)); }, wait);
}

Status StoreClient::remove(const std::string &key, Wait wait) {
  return call<Status>([=](Store &store) { return named(store.remove(key)); },
                      wait);
}

void StoreClient::cancel(const Status &why) {
  {
    std::lock_guard<std::mutex> lock(shared->mutex);
    if (!shared->cancelled.ok())
      return;
    shared->cancelled = why;
  }
  shared->changed.notify_all();
}

Status StoreClient::cancelled() const {
  std::lock_guard<std::mutex> lock(shared->mutex);
  return shared->cancelled;
}

Status StoreClient::sleepUntil(Deadline deadline) {
  std::unique_lock<std::mutex> lock(shared->mutex);
  shared->changed.wait_until(lock, deadline,
                             [this] { return !shared->cancelled.ok(); });
  return shared->cancelled;
}

} // namespace dtrt
