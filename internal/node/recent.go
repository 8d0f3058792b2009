package node

import "container/list"

// recent keeps what was found for hashes, the most recently used, up to a number of bytes. Its zero value keeps only the latest. It is not
// safe for concurrent use.
type recent[V any] struct {
	// room bounds bytes, the sum over all that is kept, apart from the latest.
	room, bytes int
	kept        map[string]*list.Element
	// order has the most recently used in front.
	order list.List
}

type recentlyUsed[V any] struct {
	hash  string
	value V
	bytes int
}

func (r *recent[V]) find(hash string) (v V, ok bool) {
	e := r.kept[hash]
	if e == nil {
		return v, false
	}
	r.order.MoveToFront(e)
	return e.Value.(recentlyUsed[V]).value, true
}

// keep keeps what find has not found.
func (r *recent[V]) keep(hash string, v V, bytes int) {
	if r.kept == nil {
		r.kept = map[string]*list.Element{}
	}
	r.kept[hash] = r.order.PushFront(recentlyUsed[V]{hash, v, bytes})
	r.bytes += bytes
	for r.bytes > r.room && r.order.Len() > 1 {
		last := r.order.Remove(r.order.Back()).(recentlyUsed[V])
		delete(r.kept, last.hash)
		r.bytes -= last.bytes
	}
}
