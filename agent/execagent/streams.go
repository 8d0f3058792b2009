package execagent

// stderrLimit is how much of the end of standard error a failure carries. It holds a stack trace's end, and fits into a fact.
const stderrLimit = 2 << 10

// capture keeps what a command writes, up to a limit, and takes the rest without keeping it.
type capture struct {
	limit int
	bytes []byte
	over  bool
	// full is closed when the limit is passed.
	full chan struct{}
}

func newCapture(limit int) *capture { return &capture{limit: limit, full: make(chan struct{})} }

// Write implements io.Writer. One goroutine writes, and the fields are read when it has ended.
func (c *capture) Write(p []byte) (int, error) {
	if c.over {
		return len(p), nil
	}
	kept := min(len(p), c.limit-len(c.bytes))
	c.bytes = append(c.bytes, p[:kept]...)
	if c.over = kept < len(p); c.over {
		close(c.full)
	}
	return len(p), nil
}

// tail keeps the end of what a command writes.
type tail struct {
	limit int
	bytes []byte
	cut   bool
}

func newTail(limit int) *tail { return &tail{limit: limit} }

// Write implements io.Writer. One goroutine writes, and the fields are read when it has ended.
func (t *tail) Write(p []byte) (int, error) {
	t.bytes = append(t.bytes, p[max(0, len(p)-t.limit):]...)
	t.cut = t.cut || len(p) > t.limit || len(t.bytes) > t.limit
	if extra := len(t.bytes) - t.limit; extra > 0 {
		t.bytes = t.bytes[:copy(t.bytes, t.bytes[extra:])]
	}
	return len(p), nil
}

// text returns the end, and whether it is the whole.
func (t *tail) text() (end string, whole bool) { return string(t.bytes), !t.cut }
