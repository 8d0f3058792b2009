package embedded

import (
	"log/slog"
	"sync"

	"github.com/sagalog/sagalog/internal/kafka"
)

// commits is the group commit of the embedded broker: an answer that reports records waits until the disk has them.
//
// kfake itself syncs two files for each batch, one batch after another, and does nothing else meanwhile. Here it writes without syncing, and
// its answers are held back (heldConn) until a sync that began after them has ended. Everything that arrives while the disk is busy shares
// the next sync. So no timer is needed, and the more records are written at once, the less each one costs.
//
// Every answer that reports stored records waits, and not only acknowledgements: readers, too, see only records that are on the disk.
// Otherwise an owner could read a record and write a fact about it, and a power cut could remove the record and keep the fact.
//
// An answer does not wait if nothing was written since the last sync began. kfake also writes without a request when a transaction times
// out, and that is not counted. So after the first transaction all answers wait.
type commits struct {
	// sync returns when everything written before the call is on the disk.
	sync func() error
	log  *slog.Logger
	// due wakes run. stop ends it.
	due, stop chan struct{}
	ended     sync.WaitGroup

	mu sync.Mutex
	// mu guards the fields below.

	// changes counts the requests passed to the broker that change something. answered counts how many of them it has carried out, and
	// synced how many it had carried out when the last sync began. Invariant: synced <= answered <= changes.
	changes, answered, synced uint64
	// requests counts all requests.
	requests uint64
	// lost counts changes whose connection ended before the answer. The broker carries out one request after another, so they have been
	// carried out once it answers a request with a higher number than lostAt.
	lost, lostAt uint64
	restless     bool
	// next is the sync that begins when the current one has ended. It is nil while nobody waits for it.
	next *commit
	// failed is the reason why no more answers are sent.
	failed error
}

// diskFails explains why restarting the process does not help: it would read pages from memory that are not on the disk.
const diskFails = "the disk fails: the embedded broker acknowledges nothing any more. What was written since the last time the disk " +
	"took everything may be gone although it can still be read, because the system keeps it in memory. Stop the process, check the disk or replace " +
	"it and restore the data, and restart the machine before the process: a new process alone would take the data in memory for the data on the disk"

// commit is one sync of the disk. Answers wait until it is done.
type commit struct {
	done chan struct{}
	err  error
}

func newCommits(sync func() error, log *slog.Logger) *commits {
	c := &commits{sync: sync, log: log, due: make(chan struct{}, 1), stop: make(chan struct{})}
	c.ended.Go(c.run)
	return c
}

func (c *commits) run() {
	for {
		select {
		case <-c.stop:
			return
		case <-c.due:
		}
		c.mu.Lock()
		now, began := c.next, c.answered
		c.next = nil
		c.mu.Unlock()
		err := c.sync()
		c.mu.Lock()
		switch {
		case c.failed != nil:
		case err != nil:
			// After an error the kernel considers the unwritten pages clean, so no later sync makes up for this one.
			c.failed = err
			c.log.Error(diskFails, "error", err)
		default:
			c.synced = began
		}
		now.err = c.failed
		c.mu.Unlock()
		close(now.done)
	}
}

// close ends the syncs. Waiting callers get kafka.ErrClosed.
func (c *commits) close() {
	close(c.stop)
	c.ended.Wait()
}

// unquiet makes all answers wait from now on.
func (c *commits) unquiet() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.restless = true
}

// asked counts a request before the broker gets it, and returns its number.
func (c *commits) asked(k requestKind) uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests++
	if k == changesLog {
		c.changes++
	}
	return c.requests
}

// carriedOut is called for each request that the broker has answered.
func (c *commits) carriedOut(r request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.kind == changesLog {
		c.answered++
	}
	if c.lost > 0 && r.number > c.lostAt {
		c.answered += c.lost
		c.lost = 0
	}
}

// abandon is called when the broker is done with a connection, with the number of its unanswered changes.
func (c *commits) abandon(n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.lost += n
		c.lostAt = c.requests
	}
}

// wait returns when everything written before the call is on the disk.
func (c *commits) wait() error {
	c.mu.Lock()
	if c.failed != nil || c.synced == c.changes && !c.restless {
		defer c.mu.Unlock()
		return c.failed
	}
	next := c.join()
	c.mu.Unlock()
	select {
	case <-next.done:
		return next.err
	case <-c.stop:
		return kafka.ErrClosed
	}
}

// another is wait, but always for a new sync. It gives up when stop is closed.
func (c *commits) another(stop <-chan struct{}) error {
	c.mu.Lock()
	next := c.join()
	c.mu.Unlock()
	select {
	case <-next.done:
		return next.err
	case <-c.stop:
	case <-stop:
	}
	return kafka.ErrClosed
}

// join returns the sync that begins next. The lock is held.
func (c *commits) join() *commit {
	if c.next == nil {
		c.next = &commit{done: make(chan struct{})}
		c.due <- struct{}{} // never blocks: the channel has room, since next was nil
	}
	return c.next
}

// lastError returns the reason why no more answers are sent.
func (c *commits) lastError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// carried is the number of changes that the broker has carried out.
func (c *commits) carried() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}
