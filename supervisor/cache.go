package supervisor

// cache knows which tasks in memory the store could give again. A task is evicted only when its latest encoding is
// committed: the store would otherwise give an older one. The cache knows of those that a batch took along; one that
// changed since the last of them State.Evict keeps.
type cache struct {
	// known are the tasks of which a row was written, or that were looked at, as of their latest row.
	known map[string]cached
	// bytes are those of the committed encodings of all that are known.
	bytes int
	// committed is the last committed batch.
	committed uint64
	// idle are the tasks in the order of their latest rows. A task stands there once for each of its rows, and only the
	// latest counts: see current and pop.
	idle []idleTask
	// ended are those that ended and go at once.
	ended []string
}

// cached is the latest row of a task: the last batch that took it along, and the bytes of the latest committed one.
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
	c.known[id] = cached{seq, c.known[id].bytes}
}

// note remembers a task that was only looked at. One that is known has its place, or gets it with its next commit.
func (c *cache) note(id string) {
	if _, ok := c.known[id]; !ok {
		c.touch(id, 0)
		c.idle = append(c.idle, idleTask{id, 0})
	}
}

// release notes a task whose row was committed while the log was folded.
func (c *cache) release(id string) { c.ended = append(c.ended, id) }

// commit notes that the batch is committed. The eviction itself waits for the next call of the owner, when the shell
// has carried the commit out.
func (c *cache) commit(b *batch) {
	c.committed = b.seq
	for i := range b.delta.Tasks {
		row := &b.delta.Tasks[i]
		if row.Encoding == nil || row.Keys.State.Ended() {
			c.ended = append(c.ended, row.ID)
			continue
		}
		c.idle = append(c.idle, idleTask{row.ID, b.seq})
		if k, ok := c.known[row.ID]; ok {
			c.bytes += len(row.Encoding) - k.bytes
			c.known[row.ID] = cached{k.seq, len(row.Encoding)}
		}
	}
}

// evictable says whether no batch that is not committed took a row of the task along.
func (c *cache) evictable(id string) bool { return c.known[id].seq <= c.committed }

// forget takes a task off the books.
func (c *cache) forget(id string) {
	c.bytes -= c.known[id].bytes
	delete(c.known, id)
}

// current says whether a place is that of its task's latest row.
func (c *cache) current(t idleTask) bool {
	k, ok := c.known[t.id]
	return ok && k.seq == t.seq
}

// pop takes the task whose latest row is the oldest; ok is false if there is none.
func (c *cache) pop() (id string, ok bool) {
	for len(c.idle) > 0 && !ok {
		id, ok = c.idle[0].id, c.current(c.idle[0])
		c.idle[0] = idleTask{} // its text is not kept from the collector
		c.idle = c.idle[1:]
	}
	return id, ok
}

// tidy drops the places that do not count any more, when they are the most.
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

// evict keeps the tasks in memory within their bounds.
func (o *Owner) evict() {
	if o.state == nil {
		return
	}
	for _, id := range o.cache.ended {
		o.drop(id)
	}
	clear(o.cache.ended)
	o.cache.ended = o.cache.ended[:0]
	for o.state.InMemory() > o.cfg.Tasks || o.cache.bytes > o.cfg.TaskBytes {
		id, ok := o.cache.pop()
		if !ok {
			break
		}
		o.drop(id)
	}
	o.cache.tidy(o.cfg.Tasks)
}

func (o *Owner) drop(id string) {
	if o.cache.evictable(id) {
		o.state.Evict(id)
		o.cache.forget(id)
	}
}
