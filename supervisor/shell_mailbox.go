package supervisor

import (
	"sync"

	"github.com/sagalog/sagalog/events"
)

// mailbox hands messages to the owner's goroutine. It has no bound, because an acknowledgement must not
// block a client's goroutine; its sources are bounded: appends in flight, unacknowledged effects, and one delivery for each read.
type mailbox struct {
	wake chan struct{}

	lock sync.Mutex
	// lock guards list.
	list []func(events.Instant)
}

func newMailbox() mailbox { return mailbox{wake: make(chan struct{}, 1)} }

// post makes the owner's goroutine call f.
func (m *mailbox) post(f func(now events.Instant)) {
	m.lock.Lock()
	m.list = append(m.list, f)
	m.lock.Unlock()
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

// drain returns the messages that have arrived.
func (m *mailbox) drain() []func(events.Instant) {
	m.lock.Lock()
	defer m.lock.Unlock()
	list := m.list
	m.list = nil
	return list
}
