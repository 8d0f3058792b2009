package api

import (
	"context"
	"net/http"
	"slices"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// listMemory bounds the pages that all lists of clients hold at once, and separately those for other nodes: four full pages,
	// so that a few readers of large tasks cannot take the memory that the owners need.
	listMemory = 4 * fullList
	// fullList is the maximum memory of a list: its documents, and their JSON.
	fullList = 2 * listBytes
	// briefList is the same for a list without inputs, outputs and steps, about 2 KiB for each of MaxLimit tasks.
	briefList = 2 << 20
)

// listRoom is the memory that all lists share. Lists of clients wait for those that other nodes answer, so the two have
// separate bounds: with one, two nodes whose room is full of clients' lists would wait for each other.
type listRoom struct {
	clients, nodes *semaphore.Weighted
}

func newListRoom() listRoom {
	return listRoom{semaphore.NewWeighted(listMemory), semaphore.NewWeighted(listMemory)}
}

// enter waits for room. The list leaves when its request ends, which is after the answer was written: until then the page
// is in memory.
func (r listRoom) enter(ctx context.Context, q Query, forNode bool) error {
	room, size := r.clients, int64(fullList)
	if forNode {
		room = r.nodes
	}
	if q.Brief && !q.waits() && !slices.Contains(q.Fields, memberWaiting) && !slices.Contains(q.Fields, memberLeft) {
		size = briefList
	}
	waiting, cancel := context.WithTimeout(ctx, listWithin)
	defer cancel()
	if room.Acquire(waiting, size) != nil {
		return problem(http.StatusServiceUnavailable, codeUnavailable,
			"Other lists take all the memory that lists may take. Ask again, for fewer members (fields=).").retryAfter(time.Second)
	}
	context.AfterFunc(exchangeOf(ctx).r.Context(), func() { room.Release(size) })
	return nil
}
