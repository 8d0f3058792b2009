//go:build synctests

package node_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector/projectortest"
)

// deafen holds back what comes from the broker until thaw: a one-way partition.
func (n *network) deafen() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hold(true)
}

// delay has each frame take its time; nil ends it.
func (n *network) delay(slow func() time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow = slow
}

// reset closes every connection; new ones may be made.
func (n *network) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		_ = c.Close()
	}
}

// setupFake builds a world over so many brokers that can be made to misbehave.
func setupFake(t *testing.T, partitions int32, brokers int) (*world, *kafkatest.Fake) {
	t.Helper()
	w := &world{t: t, network: new(kafka.VirtualNetwork), parts: partitions, latency: 20 * time.Microsecond}
	f := kafkatest.StartFake(t, w.network, brokers)
	w.broker = f
	w.connect()
	return w, f
}

// proveDisks does the same of stores on disks in memory.
func (w *world) proveDisks(disks ...*projectortest.Disk) {
	w.t.Helper()
	for _, d := range disks {
		w.state(memory, w.proveHash, on(d))
	}
}

// on has a node keep its state on a disk in memory.
func on(d *projectortest.Disk) func(*node.Config) {
	return func(c *node.Config) { c.FS = d.FS() }
}
