//go:build synctests

package node_test

import (
	"testing"
	"time"

	"github.com/sagalog/sagalog/internal/kafka/embedded"
	"github.com/sagalog/sagalog/internal/kafka/kafkatest"
	"github.com/sagalog/sagalog/internal/node"
	"github.com/sagalog/sagalog/projector/projectortest"
)

// deafen holds back everything from the broker until thaw, like a network partition in one direction.
func (n *network) deafen() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.hold(true)
}

// delay makes each frame take the time that the function returns. A nil function ends the delay.
func (n *network) delay(slow func() time.Duration) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.slow = slow
}

// reset closes every connection; new ones are allowed.
func (n *network) reset() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for c := range n.conns {
		_ = c.Close()
	}
}

// setupFake builds a world over brokers that can be made to misbehave.
func setupFake(t *testing.T, partitions int32, brokers int) (*world, *kafkatest.Fake) {
	t.Helper()
	w := &world{t: t, network: new(embedded.VirtualNetwork), parts: partitions, latency: 20 * time.Microsecond}
	f := kafkatest.StartFake(t, w.network, brokers)
	w.broker = f
	w.connect()
	return w, f
}

// proveDisks is proveHashes for stores on disks in memory.
func (w *world) proveDisks(disks ...*projectortest.Disk) {
	w.t.Helper()
	for _, d := range disks {
		w.state(memory, w.proveHash, on(d))
	}
}

// on makes a node keep its state on a disk in memory.
func on(d *projectortest.Disk) func(*node.Config) {
	return func(c *node.Config) { c.FS = d.FS() }
}
