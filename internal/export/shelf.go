package export

import (
	"cmp"
	"hash/maphash"
	"maps"
	"path/filepath"
	"slices"
	"unsafe"
)

// taskKey is a hash of the ID of a task: 128 bits, so no two tasks have the same. It is never zero.
type taskKey [2]uint64

var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

func keyOf(task string) taskKey {
	return taskKey{maphash.String(seeds[0], task), maphash.String(seeds[1], task) | 1}
}

// shelfTasks is how many tasks one generation of a shelf has: 3 MiB of memory if a value has 24 bytes. There are two of them, a few shelves for each table, and
// one partition under way for each processor. An export whose partitions have no more tasks than two generations puts nothing aside.
const shelfTasks = 56_000

// shelf has a value for some of the tasks of a partition. A log can have any number of tasks, so memory holds the values that were set last, in two generations, and
// a file the others. When the young generation is full, the old one goes into the file, and the young one is old. V has no pointers, which also spares the collector.
// A nil shelf has no values.
type shelf[V any] struct {
	room       room
	name       string
	young, old map[taskKey]V
	// aside is nil until a value is put aside.
	aside *buckets
	// keys are those that are put aside at once.
	keys []taskKey
}

// room is the place of the shelves of a table and a partition.
type room struct {
	// dir is the directory of the table.
	dir string
	// tasks is how many tasks a generation of a shelf has.
	tasks int
}

func (cfg *Config) room(table string) room {
	return room{filepath.Join(cfg.Dir, table), cmp.Or(cfg.shelfTasks, shelfTasks)}
}

func newShelf[V any](in room, name string) *shelf[V] {
	return &shelf[V]{room: in, name: name, young: map[taskKey]V{}, old: map[taskKey]V{}}
}

func (s *shelf[V]) close() error {
	if s == nil || s.aside == nil {
		return nil
	}
	return s.aside.close()
}

// get returns the value of a task that is likely to be asked for again soon.
func (s *shelf[V]) get(key taskKey) (V, bool, error) {
	if v, ok := s.young[key]; ok {
		return v, true, nil
	}
	v, ok, err := s.look(key)
	if ok && err == nil {
		err = s.put(key, v)
	}
	return v, ok, err
}

// look returns the value of a task, and leaves it where it is.
func (s *shelf[V]) look(key taskKey) (v V, ok bool, err error) {
	if s == nil {
		return v, false, nil
	}
	if v, ok = s.young[key]; ok {
		return v, true, nil
	}
	if v, ok = s.old[key]; ok || s.aside == nil {
		return v, ok, nil
	}
	ok, err = s.aside.get(key, bytesOf(&v))
	return v, ok, err
}

func (s *shelf[V]) put(key taskKey, v V) error {
	if s.young[key] = v; len(s.young) < s.room.tasks {
		return nil
	}
	return s.turn()
}

// turn puts the old generation aside, in the order of the file, and makes the young one old.
func (s *shelf[V]) turn() (err error) {
	if len(s.old) > 0 && s.aside == nil {
		if s.aside, err = newBuckets(s.room.dir, ".aside-"+s.name+"-", len(bytesOf(new(V)))); err != nil {
			return err
		}
	}
	s.keys = slices.AppendSeq(s.keys[:0], maps.Keys(s.old))
	slices.SortFunc(s.keys, func(a, b taskKey) int { return cmp.Compare(a[0], b[0]) })
	for _, key := range s.keys {
		if _, ok := s.young[key]; ok { // and its value is newer
			continue
		}
		v := s.old[key]
		if err := s.aside.put(key, bytesOf(&v)); err != nil {
			return err
		}
	}
	clear(s.old)
	s.young, s.old = s.old, s.young
	return nil
}

func (s *shelf[V]) drop(key taskKey) error {
	if s == nil {
		return nil
	}
	delete(s.young, key)
	delete(s.old, key)
	if s.aside == nil {
		return nil
	}
	return s.aside.drop(key)
}

// bytesOf are the bytes of a value without pointers. Only this process reads what is put aside.
func bytesOf[V any](v *V) []byte { return unsafe.Slice((*byte)(unsafe.Pointer(v)), unsafe.Sizeof(*v)) }
