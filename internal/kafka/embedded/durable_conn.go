package embedded

import (
	"encoding/binary"
	"errors"
	"net"
	"sync"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// requestKind says what a request does with stored data.
type requestKind int

const (
	// changesAny is the kind of every request that is not known to be of another kind.
	changesAny requestKind = iota
	// changesRecords is the kind of a request that appends to the logs that it names.
	changesRecords
	// changesGroups is the kind of a request that changes only the offsets of a group.
	changesGroups
	// kinds is the number of kinds above, which change something.
	kinds

	// readsLog reports records.
	readsLog
	// readsGroups reports the offsets of a group.
	readsGroups
	// passes neither changes nor reports anything that must survive a power cut: members of groups join again by themselves.
	passes
)

var requestKinds = map[kmsg.Key]requestKind{
	kmsg.Produce: changesRecords, kmsg.OffsetCommit: changesGroups,
	kmsg.Fetch: readsLog, kmsg.ListOffsets: readsLog, kmsg.OffsetFetch: readsGroups, kmsg.OffsetForLeaderEpoch: readsLog,
	kmsg.Metadata: passes, kmsg.FindCoordinator: passes, kmsg.JoinGroup: passes, kmsg.Heartbeat: passes, kmsg.LeaveGroup: passes,
	kmsg.SyncGroup: passes, kmsg.DescribeGroups: passes, kmsg.ListGroups: passes, kmsg.SASLHandshake: passes,
	kmsg.ApiVersions: passes, kmsg.DescribeConfigs: passes, kmsg.SASLAuthenticate: passes, kmsg.DescribeCluster: passes,
	kmsg.DescribeLogDirs: passes, kmsg.DescribeACLs: passes,
}

// reports says whether an answer to a request of one kind reports what a request of another kind changed. So the answer to a reader of
// records does not wait for the offsets of a group.
func (k requestKind) reports(change requestKind) bool {
	switch k {
	case changesRecords, readsLog:
		return change != changesGroups
	case changesGroups, readsGroups:
		return change != changesRecords
	}
	return true
}

// request is a request that is not answered yet.
type request struct {
	number      uint64
	correlation uint32
	kind        requestKind
}

// heldListener accepts connections whose answers wait for the disk.
type heldListener struct {
	net.Listener
	commits *commits
}

// Accept implements net.Listener.
func (l heldListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &heldConn{Conn: conn, commits: l.commits}, nil
}

// heldConn is the broker's end of a connection. Requests pass through Read one after another, and each Write is one answer.
type heldConn struct {
	net.Conn
	commits *commits

	// head is the part of the next request's header that has been read. left is the number of bytes of its body that remain. Only
	// the reading goroutine uses them.
	head []byte
	left uint32

	mu sync.Mutex
	// mu guards the fields below.
	unanswered []request
	// closes counts the calls of Close. Both goroutines that the broker runs for a connection call it once. The reading goroutine does
	// so when its last request has reached the broker.
	closes int
}

// A request begins with its length, key, version and correlation ID; an answer with its length and correlation ID.
const (
	requestHead   = 12
	requestKeyAt  = 4
	requestCorrAt = 8
	answerHead    = 8
	answerCorrAt  = 4
)

var errNoRequest = errors.New("the client sent something that is not a Kafka request")

// Read notes each request before the broker has all of it.
func (c *heldConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	for b := p[:n]; len(b) > 0; {
		if c.left > 0 {
			skip := min(uint64(c.left), uint64(len(b)))
			c.left -= uint32(skip)
			b = b[skip:]
			continue
		}
		take := min(requestHead-len(c.head), len(b))
		c.head = append(c.head, b[:take]...)
		b = b[take:]
		if len(c.head) < requestHead {
			continue
		}
		size := binary.BigEndian.Uint32(c.head)
		if size < requestHead-requestKeyAt {
			return 0, errNoRequest
		}
		c.note(kmsg.Key(binary.BigEndian.Uint16(c.head[requestKeyAt:])), binary.BigEndian.Uint32(c.head[requestCorrAt:]))
		c.left = size - (requestHead - requestKeyAt)
		c.head = c.head[:0]
	}
	return n, err
}

func (c *heldConn) note(key kmsg.Key, correlation uint32) {
	kind := requestKinds[key]
	r := request{number: c.commits.asked(kind), correlation: correlation, kind: kind}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The broker reads one request ahead of the one that it carries out. So if the request two before this one has no answer, it
	// did not want one.
	for len(c.unanswered) > 1 {
		c.commits.carriedOut(c.unanswered[0])
		c.unanswered = c.unanswered[:copy(c.unanswered, c.unanswered[1:])]
	}
	c.unanswered = append(c.unanswered, r)
}

// Write passes an answer on when the records that it reports are on the disk.
func (c *heldConn) Write(p []byte) (int, error) {
	if len(p) < answerHead {
		return 0, errors.New("the broker sent something that is not an answer")
	}
	if kind := c.answer(binary.BigEndian.Uint32(p[answerCorrAt:])); kind != passes {
		if err := c.commits.wait(kind); err != nil {
			return 0, err
		}
	}
	return c.Conn.Write(p)
}

// answer records that a request was carried out. So were all earlier ones without an answer: they wanted none.
func (c *heldConn) answer(correlation uint32) requestKind {
	c.mu.Lock()
	defer c.mu.Unlock()
	for i, r := range c.unanswered {
		if r.correlation != correlation {
			continue
		}
		for _, r := range c.unanswered[:i+1] {
			c.commits.carriedOut(r)
		}
		c.unanswered = c.unanswered[:copy(c.unanswered, c.unanswered[i+1:])]
		return r.kind
	}
	return changesAny // not the answer to a known request: it waits
}

// Close implements net.Conn.
func (c *heldConn) Close() error {
	c.mu.Lock()
	c.closes++
	if c.closes == 2 {
		c.commits.abandon(c.unanswered)
		c.unanswered = nil
	}
	c.mu.Unlock()
	return c.Conn.Close()
}
