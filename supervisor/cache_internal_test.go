package supervisor

import (
	"fmt"
	"testing"

	"github.com/sagalog/sagalog/events"
	"github.com/stretchr/testify/require"
)

// written makes a batch that wrote rows of the given size.
func written(c *cache, seq uint64, bytes int, ids ...string) {
	b := &batch{seq: seq, delta: new(events.Delta)}
	for _, id := range ids {
		c.touch(id, seq)
		b.delta.Tasks = append(b.delta.Tasks, events.TaskRow{ID: id, Encoding: []byte("{}"), Bytes: bytes, Keys: events.Keys{State: events.TaskStateProcessing}})
	}
	c.commit(b)
}

func TestTheTaskWhoseLatestRowIsOldestIsEvictedFirst(t *testing.T) {
	t.Parallel()
	var c cache
	written(&c, 1, 10, "a", "b")
	c.loaded("c", &events.StoredTask{Encoding: []byte("{}"), Rows: []events.PartRow{{Encoding: []byte("12345")}}})
	c.loaded("a", &events.StoredTask{}) // it is ordered by its row
	written(&c, 2, 10, "d")
	written(&c, 3, 10, "a") // its first row no longer counts
	var order []string
	for {
		id, ok := c.pop()
		if !ok {
			break
		}
		require.True(t, c.evictable(id))
		c.forget(id)
		order = append(order, id)
	}
	require.Equal(t, []string{"b", "c", "d", "a"}, order)
	require.Zero(t, c.bytes)
	require.Empty(t, c.known)
}

func TestATaskIsNotEvictedBeforeItsLatestRowIsCommitted(t *testing.T) {
	t.Parallel()
	var c cache
	written(&c, 1, 10, "a")
	c.touch("a", 2)
	require.False(t, c.evictable("a"))
	_, ok := c.pop()
	require.False(t, ok, "the commit puts it back in order")
	written(&c, 2, 25, "a")
	require.Equal(t, 25, c.bytes)
	id, ok := c.pop()
	require.True(t, ok)
	require.Equal(t, "a", id)
}

func TestTheIndexOfTheCacheIsBounded(t *testing.T) {
	t.Parallel()
	const tasks = 8
	var c cache
	for seq := uint64(1); seq <= 1000; seq++ {
		written(&c, seq, int(seq), fmt.Sprint("hot", seq%4), fmt.Sprint("cold", seq))
		c.loaded("seen", &events.StoredTask{Encoding: make([]byte, seq%7)})
		for len(c.known) > tasks {
			id, ok := c.pop()
			require.True(t, ok, "each known task is in the order")
			c.forget(id)
		}
		c.tidy(tasks)
		require.LessOrEqual(t, len(c.idle), 2*tasks)
		sum := 0
		for _, k := range c.known {
			sum += k.bytes
		}
		require.Equal(t, sum, c.bytes)
	}
	require.Contains(t, c.known, "hot1", "tasks that keep changing stay")
}

func TestTheBytesOfTheTasksInMemoryAreBounded(t *testing.T) {
	t.Parallel()
	o := &core{cfg: Config{Tasks: 100, TaskBytes: 50}, state: events.NewState(0, nil), cache: &cache{}}
	written(o.cache, 1, 8, "a", "b", "c", "d", "e", "f", "g", "h")
	o.evict()
	require.Equal(t, 48, o.cache.bytes)
	require.Contains(t, o.cache.known, "h")
	require.NotContains(t, o.cache.known, "a")
	require.NotContains(t, o.cache.known, "b")
}

// A task that is larger than all may be together would be read again for each of its facts.
func TestFewTasksStayInMemoryHoweverLargeTheyAre(t *testing.T) {
	t.Parallel()
	o := &core{cfg: Config{Tasks: 100, TaskBytes: 50}, state: events.NewState(0, nil), cache: &cache{}}
	written(o.cache, 1, 1000, "a", "b", "c", "d", "e", "f")
	o.evict()
	require.Len(t, o.cache.known, fewTasks)
	require.Contains(t, o.cache.known, "f")
	o.cfg.Tasks = 0 // their number is bounded all the same
	o.evict()
	require.Len(t, o.cache.known, fewTasks, "none of them is in the state")
}
