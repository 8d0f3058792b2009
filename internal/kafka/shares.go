package kafka

import "sync"

// destinationShare is how many unanswered records of TryProduce may wait for one partition of a topic. A partition that takes
// nothing must leave room for the others.
const destinationShare = ProducerMaxBuffered / 8

// shares counts the unanswered records of TryProduce by their destination.
type shares struct {
	mu sync.Mutex
	// waiting is guarded by mu.
	waiting map[destination]int
}

type destination struct {
	topic     string
	partition int32
}

// take counts a record, unless its destination has its share.
func (s *shares) take(to destination) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[to] >= destinationShare {
		return false
	}
	if s.waiting == nil {
		s.waiting = map[destination]int{}
	}
	s.waiting[to]++
	return true
}

func (s *shares) give(to destination) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.waiting[to]--; s.waiting[to] <= 0 {
		delete(s.waiting, to)
	}
}
