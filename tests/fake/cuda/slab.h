// Room for handles: objects of one type from a reserved range, so that any pointer a program hands
// in can be judged (ours and alive, or not) without reading memory that may not exist.
//
// Thread-safety: none; the driver's lock protects it. `is_live` may race with destruction only as
// far as the program itself races.
#pragma once

#include <cstddef>
#include <cstdint>
#include <new>
#include <sys/mman.h>
#include <utility>

namespace berth::fake::cuda {

template <class T>
class Slab {
 public:
  template <class... Arguments>
  T* make(Arguments&&... arguments) {
    Cell* cell = free_;
    if (cell != nullptr) {
      free_ = cell->next;
    } else {
      if (cells_ == nullptr && !reserve()) return nullptr;
      if (used_ == kCells) return nullptr;
      cell = &cells_[used_++];
    }
    T* object = new (cell->room) T(std::forward<Arguments>(arguments)...);
    cell->live = 1;
    ++count_;
    return object;
  }

  void destroy(T* object) {
    Cell* cell = cell_of(object);
    object->~T();
    cell->live = 0;
    cell->next = free_;
    free_ = cell;
    --count_;
  }

  bool is_live(const T* object) const {
    const auto address = reinterpret_cast<std::uintptr_t>(object);
    const auto first = reinterpret_cast<std::uintptr_t>(cells_);
    if (cells_ == nullptr || address < first) return false;
    const std::size_t place = (address - first) / sizeof(Cell);
    return place < used_ && (address - first) % sizeof(Cell) == offsetof(Cell, room) &&
           cells_[place].live == 1;
  }

  std::size_t count() const { return count_; }

  template <class Visit>
  void each(Visit visit) {
    for (std::size_t place = 0; place < used_; ++place) {
      if (cells_[place].live == 1) visit(std::launder(reinterpret_cast<T*>(cells_[place].room)));
    }
  }

 private:
  static constexpr std::size_t kCells = std::size_t{1} << 22;
  struct Cell {
    alignas(alignof(std::max_align_t)) unsigned char room[sizeof(T)];
    std::uint64_t live;
    Cell* next;
  };

  static Cell* cell_of(T* object) { return reinterpret_cast<Cell*>(object); }
  bool reserve() {
    void* memory = mmap(nullptr, kCells * sizeof(Cell), PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory == MAP_FAILED) return false;
    cells_ = static_cast<Cell*>(memory);
    return true;
  }

  Cell* cells_ = nullptr;
  Cell* free_ = nullptr;
  std::size_t used_ = 0;
  std::size_t count_ = 0;
};

}  // namespace berth::fake::cuda
