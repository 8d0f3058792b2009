package kafka

import (
	"sync"
	"sync/atomic"
)

// destinationShare is how many unanswered records of TryProduce may wait for one partition of a topic. A partition that takes
// nothing must leave room for the others.
const destinationShare = ProducerMaxBuffered / 8

// shares counts the unanswered records of TryProduce by their destination. A destination stays: there are as many as the records that
// were ever produced had partitions.
type shares struct {
	mu sync.Mutex
	// waiting is guarded by mu.
	waiting map[destination]*share
}

// share is the number of unanswered records for one destination. A record keeps it, so that giving back needs no lookup.
type share = atomic.Int64

type destination struct {
	topic     string
	partition int32
}

// take counts a record, or returns nil if its destination has used up its share.
func (s *shares) take(to destination) *share {
	s.mu.Lock()
	n := s.waiting[to]
	if n == nil {
		if s.waiting == nil {
			s.waiting = map[destination]*share{}
		}
		n = new(share)
		s.waiting[to] = n
	}
	s.mu.Unlock()
	if n.Add(1) > destinationShare {
		n.Add(-1)
		return nil
	}
	return n
}
