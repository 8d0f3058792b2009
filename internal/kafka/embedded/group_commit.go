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
//
// A sync covers only the files that were written since the one before it (written.go), because a sync of the whole file system waits for
// everything that other processes write there too.
type commits struct {
	// sync returns when what was written to these files before the call is on the disk. Only run calls it, once there are clients.
	sync func(written) error
	log  *slog.Logger
	// due wakes run. stop ends it.
	due, stop chan struct{}
	ended     sync.WaitGroup

	mu sync.Mutex
	// mu guards the fields below.

	// changes counts the requests that change something, by their kind.
	changes [kinds]tally
	// logs are the logs that requests to produce have changed.
	logs writtenLogs
	// requests counts all requests.
	requests uint64
	// lostAt was the number of requests when the last connection with unanswered changes ended.
	lostAt   uint64
	restless bool
	// current is the sync that is under way, nil while there is not one. next begins when it has ended. next is nil while nobody waits for it.
	current, next *commit
	// failed is the reason why no more answers are sent.
	failed error
}

// diskFails explains why restarting the process does not help: it would read pages from memory that are not on the disk.
const diskFails = "the disk fails: the embedded broker acknowledges nothing any more. What was written since the last time the disk " +
	"took everything may be gone although it can still be read, because the system keeps it in memory. Stop the process, check the disk or replace " +
	"it and restore the data, and restart the machine before the process: a new process alone would take the data in memory for the data on the disk"

// commit is one sync of the disk. Answers wait until it is done.
type commit struct {
	// began holds what the broker had carried out when the sync began.
	began [kinds]tally
	done  chan struct{}
	err   error
}

// tally counts the changes of one kind.
//
// Invariant: synced <= answered <= asked.
type tally struct {
	// asked counts the changes passed to the broker, and answered those that it has carried out. synced is how many it had carried out
	// when the last sync of what they change began.
	asked, answered, synced uint64
	// lost counts changes whose connection ended before the answer. The broker carries out one request after another, so they have been
	// carried out once it answers a request with a higher number than lostAt.
	lost uint64
}

// idle reports whether the broker has carried out all changes.
func (t *tally) idle() bool { return t.answered == t.asked }

// open reports whether something changed that no sync covers.
func (t *tally) open() bool { return t.synced != t.asked }

func newCommits(sync func(written) error, log *slog.Logger) *commits {
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
		now, what := c.next, c.unsynced()
		now.began = c.changes
		c.current, c.next = now, nil
		c.mu.Unlock()
		err := c.sync(what)
		c.mu.Lock()
		switch {
		case c.failed != nil:
		case err != nil:
			// After an error the kernel considers the unwritten pages clean, so no later sync makes up for this one.
			c.failed = err
			c.log.Error(diskFails, "error", err)
		default:
			for k := range c.changes {
				c.changes[k].synced = now.began[k].answered
			}
		}
		c.current, now.err = nil, c.failed
		c.mu.Unlock()
		close(now.done)
	}
}

// unsynced returns what the sync that begins now must cover. The lock is held.
func (c *commits) unsynced() written {
	return written{
		everything: c.restless || c.changes[changesAny].open(),
		groups:     c.changes[changesGroups].open(),
		logs:       c.logs.take(c.changes[changesRecords].idle()),
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
	if k < kinds {
		c.changes[k].asked++
	}
	return c.requests
}

// carriedOut is called for each request that the broker has answered.
func (c *commits) carriedOut(r request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r.kind < kinds {
		c.changes[r.kind].answered++
	}
	if r.number <= c.lostAt {
		return
	}
	for k := range c.changes {
		t := &c.changes[k]
		t.answered += t.lost
		t.lost = 0
	}
}

// abandon is called when the broker is done with a connection, with its unanswered requests.
func (c *commits) abandon(unanswered []request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range unanswered {
		if r.kind < kinds {
			c.changes[r.kind].lost++
			c.lostAt = c.requests
		}
	}
}

// produces notes the logs that a request is about to change. The broker calls it before it carries out the request.
func (c *commits) produces(logs []partition) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.logs.add(logs)
}

// wait returns when everything is on the disk that was written before the call and that an answer of this kind reports.
func (c *commits) wait(k requestKind) error {
	c.mu.Lock()
	if c.failed != nil || !c.restless && !c.changed(k) {
		defer c.mu.Unlock()
		return c.failed
	}
	enough := c.current
	if enough == nil || c.restless || !c.covers(enough, k) {
		enough = c.join()
	}
	c.mu.Unlock()
	select {
	case <-enough.done:
		return enough.err
	case <-c.stop:
		return kafka.ErrClosed
	}
}

// covers reports whether a sync that has begun covers all changes so far that an answer of this kind reports. Without it the readers that a
// record wakes would wait for the sync after the one that its producer waits for. The lock is held.
func (c *commits) covers(m *commit, k requestKind) bool {
	for change := range kinds {
		if k.reports(change) && m.began[change].answered != c.changes[change].asked {
			return false
		}
	}
	return true
}

// changed reports whether anything that an answer of this kind reports was written, or may be, and no sync covers it. The lock is held.
func (c *commits) changed(k requestKind) bool {
	for change := range kinds {
		if k.reports(change) && c.changes[change].open() {
			return true
		}
	}
	return false
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
	var n uint64
	for k := range c.changes {
		n += c.changes[k].answered
	}
	return n
}
