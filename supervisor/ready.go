package supervisor

import "github.com/sagalog/sagalog/events"

// readyList holds attempts in the order in which they start, each once. Most new attempts are either the last in order,
// because their tasks are the youngest, or near the first, because they are the next steps of the oldest tasks; both cost a few
// comparisons. Inserting elsewhere moves only place numbers, not attempts.
//
// The zero value is an empty list.
type readyList struct {
	// places hold the attempts in no particular order; unused are the empty places.
	places []events.Ready
	unused []int32
	// order[head:] are the places in the order of their attempts.
	order []int32
	head  int
}

func (l *readyList) len() int { return len(l.order) - l.head }

// at returns the i-th attempt. It is valid until the list changes.
func (l *readyList) at(i int) *events.Ready { return &l.places[l.order[l.head+i]] }

// insert adds an attempt, and returns false if it was in the list already.
func (l *readyList) insert(r *events.Ready) bool {
	at, found := l.search(r)
	if found {
		return false
	}
	place := l.place(r)
	if l.head > 0 && at < l.len()/2 {
		l.head--
		copy(l.order[l.head:], l.order[l.head+1:l.head+1+at])
		l.order[l.head+at] = place
		return true
	}
	if l.head > 0 && len(l.order) == cap(l.order) && l.head >= l.len() {
		l.order = append(l.order[:0], l.order[l.head:]...)
		l.head = 0
	}
	l.order = append(l.order, place)
	copy(l.order[l.head+at+1:], l.order[l.head+at:])
	l.order[l.head+at] = place
	return true
}

// search returns the index of an attempt, or the index at which it would be inserted.
func (l *readyList) search(r *events.Ready) (at int, found bool) {
	low, high := 0, l.len()
	if high > 0 && l.at(high-1).Before(*r) {
		return high, false
	}
	for low < high {
		if mid := (low + high) / 2; l.at(mid).Before(*r) {
			low = mid + 1
		} else {
			high = mid
		}
	}
	return low, low < l.len() && !r.Before(*l.at(low))
}

func (l *readyList) place(r *events.Ready) int32 {
	if n := len(l.unused); n > 0 {
		place := l.unused[n-1]
		l.unused = l.unused[:n-1]
		l.places[place] = *r
		return place
	}
	l.places = append(l.places, *r)
	return int32(len(l.places) - 1)
}

func (l *readyList) drop(place int32) {
	l.places[place] = events.Ready{} // so that its strings can be garbage-collected
	l.unused = append(l.unused, place)
}

// pop removes the first attempt and returns it.
func (l *readyList) pop() events.Ready {
	place := l.order[l.head]
	r := l.places[place]
	l.drop(place)
	if l.head++; l.head == len(l.order) {
		l.order, l.head = l.order[:0], 0
	}
	return r
}

// cut keeps the first attempts and removes the others.
func (l *readyList) cut(keep int) {
	for _, place := range l.order[l.head+keep:] {
		l.drop(place)
	}
	l.order = l.order[:l.head+keep]
}
