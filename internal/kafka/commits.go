package kafka

import (
	"log/slog"
	"sync"
)

// commits is the group commit of the embedded broker: an answer that tells of records waits until the disk has them.
//
// The broker's own way syncs two files for each batch, one batch after another, and does nothing else meanwhile. Here it
// writes without syncing, and its answers are held where they leave it (heldConn) until a sync has ended that began after
// they were made. What comes while the disk is busy waits for the next sync, all of it together; so there is no timer,
// and the more is written at once, the less each costs.
//
// Not only acknowledgements wait, but each answer that tells what is stored: also who reads sees only what the disk has.
// A record that an owner has seen can therefore not be gone after a power cut while the fact that the owner wrote about
// it is there.
//
// An answer need not wait if nothing was written since the last sync began (clean). What the broker writes without being
// asked, the end of a transaction that timed out, is not counted; so once somebody has used transactions, all wait.
type commits struct {
	// sync returns when all that was written before it was called is on the disk.
	sync func() error
	log  *slog.Logger
	// due wakes run, and stop ends it.
	due, stop chan struct{}
	ended     sync.WaitGroup

	mu sync.Mutex
	// mu guards the fields below.

	// changes counts the requests that change something which the broker was given, answered those that it has carried
	// out, and synced those of them that were so when the last sync began.
	// Invariant: synced <= answered <= changes.
	changes, answered, synced uint64
	// requests counts all.
	requests uint64
	// lost are changes whose connection ended before their answer. They are carried out once a request is answered that
	// was given to the broker later than lostAt, because it carries out one after another.
	lost, lostAt uint64
	restless     bool
	// next is the sync that will begin when the one that runs has ended; nil while nobody waits for it.
	next *commit
	// failed is why nothing is answered any more.
	failed error
}

// diskFails says why a new start of the process is not enough: it would find in memory what the disk does not have.
const diskFails = "the disk fails: the embedded broker acknowledges nothing any more. What was written since the last time that the disk " +
	"took all may be gone although it can still be read, because the system keeps it in memory. Stop the process, check the disk or replace " +
	"it and restore the data, and restart the machine before the process: a new process alone takes what is in memory for what is on the disk"

// commit is one sync that answers wait for.
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
			// After an error the kernel takes what it could not write for written: no later sync makes good for this one.
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

// close ends the syncs; who waits is told ErrClosed.
func (c *commits) close() {
	close(c.stop)
	c.ended.Wait()
}

// unquiet has all answers wait from now on.
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

// carriedOut is called for each request when the broker has answered it.
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

// abandon is called with how many changes a connection had without an answer when the broker was done with it.
func (c *commits) abandon(n uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n > 0 {
		c.lost += n
		c.lostAt = c.requests
	}
}

// wait returns when all is on the disk that was written before it was called.
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
		return ErrClosed
	}
}

// another is like wait, and has a sync begin also where none is due. It gives up when stop is closed.
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
	return ErrClosed
}

// join returns the sync that begins next. It is called with the lock.
func (c *commits) join() *commit {
	if c.next == nil {
		c.next = &commit{done: make(chan struct{})}
		c.due <- struct{}{} // it has room, since next was nil
	}
	return c.next
}

// lastError is why nothing is answered any more.
func (c *commits) lastError() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// carried is how many changes the broker has carried out.
func (c *commits) carried() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.answered
}
