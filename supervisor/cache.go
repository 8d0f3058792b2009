package supervisor

// cache knows which tasks in memory the store could give again. A task is evicted only when its latest encoding is
// committed: the store would otherwise give an older one.
type cache struct {
	// touched is the last batch that changed a task.
	touched map[string]uint64
	// committed is the last committed batch.
	committed uint64
	// idle are the tasks that may be evictable, the oldest first; a task may stand there more than once.
	idle []string
	// ended are those that ended and go at once.
	ended []string
}

func (c *cache) touch(id string, seq uint64) {
	if c.touched == nil {
		c.touched = map[string]uint64{}
	}
	c.touched[id] = seq
}

// note remembers a task that was only looked at.
func (c *cache) note(id string) { c.idle = append(c.idle, id) }

// release notes a task whose row was committed while the log was folded.
func (c *cache) release(id string) { c.ended = append(c.ended, id) }

// commit notes that the batch is committed. The eviction itself waits for the next call of the owner, when the shell
// has carried the commit out.
func (c *cache) commit(b *batch) {
	c.committed = b.seq
	for _, row := range b.delta.Tasks {
		if row.Encoding == nil || row.Keys.State.Ended() {
			c.ended = append(c.ended, row.ID)
		} else {
			c.idle = append(c.idle, row.ID)
		}
	}
}

// evictable says whether no batch that is not committed changed the task.
func (c *cache) evictable(id string) bool {
	seq, ok := c.touched[id]
	return !ok || seq <= c.committed
}

// evict keeps the number of tasks in memory within its bound.
func (o *Owner) evict() {
	if o.state == nil {
		return
	}
	for _, id := range o.cache.ended {
		o.drop(id)
	}
	o.cache.ended = o.cache.ended[:0]
	for o.state.InMemory() > o.cfg.Tasks && len(o.cache.idle) > 0 {
		o.drop(o.cache.idle[0])
		o.cache.idle = o.cache.idle[1:]
	}
	if len(o.cache.idle) > 4*o.cfg.Tasks { // repeated entries of the same tasks
		o.cache.idle = distinct(o.cache.idle)
	}
}

func (o *Owner) drop(id string) {
	if o.cache.evictable(id) {
		o.state.Evict(id)
		delete(o.cache.touched, id)
	}
}

// distinct keeps the last entry of each task.
func distinct(ids []string) []string {
	seen := make(map[string]bool, len(ids))
	keep := make([]string, 0, len(ids))
	for i := len(ids) - 1; i >= 0; i-- {
		if !seen[ids[i]] {
			seen[ids[i]] = true
			keep = append(keep, ids[i])
		}
	}
	for i, j := 0, len(keep)-1; i < j; i, j = i+1, j-1 {
		keep[i], keep[j] = keep[j], keep[i]
	}
	return keep
}
