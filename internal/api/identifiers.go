package api

import (
	"bufio"
	"crypto/rand"
	"sync"

	"github.com/google/uuid"
)

// random gives the random bytes of identifiers. They are read ahead, since the system takes as long for sixteen bytes as for a
// few thousand. Identifiers are not secret, so the next ones may be kept in memory.
var random = sync.Pool{New: func() any { return bufio.NewReaderSize(rand.Reader, 4096) }}

// newID generates the ID of a task, event or request: a UUIDv7, so that IDs sort by time.
func newID() string {
	r := random.Get().(*bufio.Reader)
	defer random.Put(r)
	return uuid.Must(uuid.NewV7FromReader(r)).String()
}
