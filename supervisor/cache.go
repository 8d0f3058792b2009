package supervisor

import "github.com/sagalog/sagalog/events"

// cache knows which tasks in memory could be loaded again from the store. A task is evicted only when its latest
// encoding is committed; otherwise the store would return an older one. The cache tracks the tasks written with a
// batch; State.Evict keeps a task that changed after that.
type cache struct {
	// known are the tasks that were written or loaded, with their latest row.
	known map[string]cached
	// bytes is the size of the committed encodings of all known tasks.
	bytes int
	// committed is the last committed batch, and stored the offset behind the last committed record.
	committed uint64
	stored    int64
	// idle holds the tasks in the order of their latest rows. A task appears once for each of its rows, and only the
	// latest counts: see current and pop.
	idle []idleTask
	// ended holds the tasks that have ended; they are evicted at once. adopted holds the definitions that were committed.
	ended, adopted []string
}

// cached describes the latest row of a task: the last batch that wrote it, and the size of all rows of the task as of the last commit.
type cached struct {
	seq   uint64
	bytes int
}

type idleTask struct {
	id  string
	seq uint64
}

func (c *cache) touch(id string, seq uint64) {
	if c.known == nil {
		c.known = map[string]cached{}
	}
	//mutant:cached-until-committed
	c.known[id] = cached{seq, c.known[id].bytes}
}

// loaded remembers a task that was read from the store, with the size of its rows. A known task already has a place, or gets one with its
// next commit.
func (c *cache) loaded(id string, task *events.StoredTask) {
	if _, ok := c.known[id]; !ok {
		c.touch(id, 0)
		c.idle = append(c.idle, idleTask{id, 0})
	}
	bytes := len(task.Encoding)
	for i := range task.Rows {
		bytes += len(task.Rows[i].Encoding)
	}
	c.measure(id, bytes)
}

func (c *cache) measure(id string, bytes int) {
	k := c.known[id]
	c.bytes += bytes - k.bytes
	c.known[id] = cached{k.seq, bytes}
}

// leave makes a task evictable because its row was committed while the log was being folded.
func (c *cache) leave(id string) { c.ended = append(c.ended, id) }

// commit notes that the batch is committed. The eviction itself waits for the next call of the owner, when the shell
// has carried the commit out.
func (c *cache) commit(b *batch) {
	c.committed, c.stored = b.seq, b.delta.Next
	for i := range b.delta.Parts {
		if row := &b.delta.Parts[i]; row.Kind == events.KindDefinition {
			c.adopted = append(c.adopted, row.ID)
		}
	}
	for i := range b.delta.Tasks {
		row := &b.delta.Tasks[i]
		if row.Encoding == nil || row.Keys.State.Ended() {
			c.ended = append(c.ended, row.ID)
			continue
		}
		c.idle = append(c.idle, idleTask{row.ID, b.seq})
		if _, ok := c.known[row.ID]; ok {
			c.measure(row.ID, row.Bytes)
		}
	}
}

// evictable says whether every batch that wrote a row of the task is committed.
func (c *cache) evictable(id string) bool { return c.known[id].seq <= c.committed }

// forget drops what is known about a task.
func (c *cache) forget(id string) {
	c.bytes -= c.known[id].bytes
	delete(c.known, id)
}

// current says whether this entry is for the task's latest row.
func (c *cache) current(t idleTask) bool {
	k, ok := c.known[t.id]
	return ok && k.seq == t.seq
}

// pop takes the task whose latest row is the oldest; ok is false if there is no such task.
func (c *cache) pop() (id string, ok bool) {
	for len(c.idle) > 0 && !ok {
		id, ok = c.idle[0].id, c.current(c.idle[0])
		c.idle[0] = idleTask{} // so that the text can be garbage-collected
		c.idle = c.idle[1:]
	}
	return id, ok
}

// tidy drops outdated entries once they are the majority.
func (c *cache) tidy(tasks int) {
	if len(c.idle) <= 2*tasks {
		return
	}
	kept := c.idle[:0]
	for _, t := range c.idle {
		if c.current(t) {
			kept = append(kept, t)
		}
	}
	clear(c.idle[len(kept):])
	c.idle = kept
}
